//! Constructors that check every coordinate.

use super::Pattern;
use super::builder::Builder;
use super::check::{check_coordinate, check_flat, check_offsets, check_order};
use super::shape::{check_count, check_slots, checked_size};
use crate::error::SparseError;

impl Pattern {
    /// The `m x k` pattern without non-zeros.
    ///
    /// # Errors
    ///
    /// [`SparseError::ShapeTooLarge`].
    pub fn empty(shape: [usize; 2]) -> Result<Self, SparseError> {
        Ok(Builder::new(shape, 0)?.finish())
    }

    /// The `m x k` pattern in which every coordinate is a non-zero.
    ///
    /// # Errors
    ///
    /// [`SparseError::ShapeTooLarge`], or [`SparseError::TooManySlots`] if `m * k` exceeds
    /// `i32::MAX`.
    pub fn full(shape: [usize; 2]) -> Result<Self, SparseError> {
        let size = checked_size(shape)?;
        check_slots(size)?;
        let [rows, width] = shape;
        let mut cols = Vec::with_capacity(size as usize);
        for _ in 0..rows {
            cols.extend(0..width as u32);
        }
        let row_offsets = (0..=rows).map(|row| row * width).collect();
        Ok(Self {
            shape,
            row_offsets,
            cols,
        })
    }

    /// The pattern given by compressed rows.
    ///
    /// # Arguments
    ///
    /// * `shape` - `[m, k]`.
    /// * `row_offsets` - `m + 1` slots: row `i` holds `row_offsets[i]..row_offsets[i + 1]`.
    /// * `cols` - column of every slot, strictly increasing within a row.
    ///
    /// # Errors
    ///
    /// The shape is too large, there are more columns than coordinates, or the first offset, then
    /// the first column, that is not as described.
    pub fn from_offsets(
        shape: [usize; 2],
        row_offsets: Vec<usize>,
        cols: Vec<u32>,
    ) -> Result<Self, SparseError> {
        check_count(shape, cols.len())?;
        check_offsets(shape[0], &row_offsets, cols.len())?;
        let pattern = Self {
            shape,
            row_offsets,
            cols,
        };
        for row in 0..shape[0] {
            pattern.check_row(row)?;
        }
        Ok(pattern)
    }

    /// The pattern given by parallel lists of rows and columns in canonical order.
    ///
    /// # Arguments
    ///
    /// * `shape` - `[m, k]`.
    /// * `rows`, `cols` - one entry per non-zero. [`Pattern::from_triples`] accepts any order.
    ///
    /// # Errors
    ///
    /// The shape is too large, the lengths differ, or the first coordinate that is negative, out of
    /// range, out of order or a duplicate.
    pub fn from_coordinates(
        shape: [usize; 2],
        rows: &[i64],
        cols: &[i64],
    ) -> Result<Self, SparseError> {
        checked_size(shape)?;
        if rows.len() != cols.len() {
            return Err(SparseError::LengthMismatch {
                what: "list of columns",
                expected: rows.len(),
                found: cols.len(),
            });
        }
        let mut builder = Builder::new(shape, rows.len())?;
        let mut previous = None;
        for (position, (&row, &col)) in rows.iter().zip(cols).enumerate() {
            let coordinate = check_coordinate(shape, position, row, col)?;
            check_order(position, previous, coordinate)?;
            previous = Some(coordinate);
            builder.push(coordinate.0, coordinate.1 as u32)?;
        }
        Ok(builder.finish())
    }

    /// The pattern given by strictly increasing flat indices `row * k + col`.
    ///
    /// # Errors
    ///
    /// The shape is too large, or the first index that is out of range, out of order or a
    /// duplicate.
    pub fn from_sorted_flats(
        shape: [usize; 2],
        flats: impl IntoIterator<Item = u64>,
    ) -> Result<Self, SparseError> {
        let size = checked_size(shape)?;
        let mut builder = Builder::new(shape, 0)?;
        let mut previous = None;
        for (position, flat) in flats.into_iter().enumerate() {
            let coordinate = check_flat(shape, size, position, flat)?;
            check_order(position, previous, coordinate)?;
            previous = Some(coordinate);
            builder.push(coordinate.0, coordinate.1 as u32)?;
        }
        Ok(builder.finish())
    }

    fn check_row(&self, row: usize) -> Result<(), SparseError> {
        let mut previous = None;
        for (slot, &col) in (self.row_offsets[row]..).zip(self.row(row)) {
            let (_, col) = check_coordinate(self.shape, slot, row as i64, i64::from(col))?;
            check_order(slot, previous, (row, col))?;
            previous = Some((row, col));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: [usize; 2] = [3, 4];

    fn coordinates(rows: &[i64], cols: &[i64]) -> Result<Pattern, SparseError> {
        Pattern::from_coordinates(SHAPE, rows, cols)
    }

    #[test]
    fn refuses_coordinates_outside() {
        assert_eq!(
            coordinates(&[0, -1], &[0, 0]),
            Err(SparseError::NegativeIndex {
                axis: "row",
                position: 1,
                index: -1,
                size: 3
            })
        );
        assert_eq!(
            coordinates(&[9], &[i64::MIN]),
            Err(SparseError::NegativeIndex {
                axis: "column",
                position: 0,
                index: i64::MIN,
                size: 4
            })
        );
        assert_eq!(
            coordinates(&[0, 3], &[0, 0]),
            Err(SparseError::RowOutOfRange {
                position: 1,
                row: 3,
                rows: 3
            })
        );
        assert_eq!(
            coordinates(&[0, 2], &[3, 4]),
            Err(SparseError::ColOutOfRange {
                position: 1,
                col: 4,
                cols: 4
            })
        );
    }

    #[test]
    fn refuses_disorder_and_duplicates() {
        assert_eq!(
            coordinates(&[0, 1, 1], &[3, 2, 1]),
            Err(SparseError::Unsorted {
                position: 2,
                row: 1,
                col: 1,
                previous_row: 1,
                previous_col: 2
            })
        );
        assert_eq!(
            coordinates(&[0, 1, 1], &[3, 2, 2]),
            Err(SparseError::Duplicate {
                position: 2,
                row: 1,
                col: 2
            })
        );
    }

    #[test]
    fn refuses_lists_of_different_length() {
        let error = SparseError::LengthMismatch {
            what: "list of columns",
            expected: 2,
            found: 1,
        };
        assert_eq!(coordinates(&[0, 1], &[0]), Err(error));
    }

    #[test]
    fn refuses_bad_flats() {
        let flats = |list: &[u64]| Pattern::from_sorted_flats(SHAPE, list.iter().copied());
        assert_eq!(
            flats(&[0, 12]),
            Err(SparseError::FlatOutOfRange {
                position: 1,
                flat: 12,
                size: 12
            })
        );
        assert_eq!(
            flats(&[5, 5]),
            Err(SparseError::Duplicate {
                position: 1,
                row: 1,
                col: 1
            })
        );
        assert!(matches!(
            flats(&[5, 4]),
            Err(SparseError::Unsorted { position: 1, .. })
        ));
    }

    #[test]
    fn refuses_bad_offsets() {
        let offsets = |list: &[usize]| Pattern::from_offsets([2, 4], list.to_vec(), vec![0, 1]);
        let invalid = |position, offset, low, high| {
            Err(SparseError::InvalidOffsets {
                position,
                offset,
                low,
                high,
            })
        };
        assert!(offsets(&[0, 1, 2]).is_ok());
        assert_eq!(offsets(&[1, 1, 2]), invalid(0, 1, 0, 0));
        assert_eq!(offsets(&[0, 3, 2]), invalid(1, 3, 0, 2));
        assert_eq!(offsets(&[0, 2, 1]), invalid(2, 1, 2, 2));
        assert!(matches!(
            offsets(&[0, 2]),
            Err(SparseError::LengthMismatch { .. })
        ));
    }

    #[test]
    fn refuses_bad_columns_by_slot() {
        let cols = |list: &[u32]| Pattern::from_offsets([2, 4], vec![0, 1, 3], list.to_vec());
        assert!(cols(&[3, 0, 1]).is_ok());
        assert_eq!(
            cols(&[3, 0, 4]),
            Err(SparseError::ColOutOfRange {
                position: 2,
                col: 4,
                cols: 4
            })
        );
        assert_eq!(
            cols(&[3, 1, 1]),
            Err(SparseError::Duplicate {
                position: 2,
                row: 1,
                col: 1
            })
        );
        assert!(matches!(
            cols(&[3, 1, 0]),
            Err(SparseError::Unsorted { position: 2, .. })
        ));
    }

    #[test]
    fn empty_axes() {
        for shape in [[0, 0], [0, 5], [5, 0]] {
            let empty = Pattern::empty(shape).unwrap();
            assert_eq!(Pattern::full(shape).unwrap(), empty);
            assert_eq!(
                Pattern::from_offsets(shape, vec![0; shape[0] + 1], vec![]),
                Ok(empty)
            );
        }
        assert_eq!(
            Pattern::from_offsets([0, 5], vec![0], vec![1]),
            Err(SparseError::TooManyNonZeros {
                nnz: 1,
                rows: 0,
                cols: 5
            })
        );
    }

    #[test]
    fn full_beyond_the_slots_is_refused() {
        let error = SparseError::TooManySlots {
            nnz: 65_537 * 65_537,
        };
        assert_eq!(Pattern::full([65_537, 65_537]), Err(error));
    }
}
