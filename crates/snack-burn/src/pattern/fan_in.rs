//! Patterns with a given number of non-zeros in every row.

use super::Pattern;
use super::distinct::draw_distinct;
use super::shape::{check_slots, checked_size};
use crate::error::SparseError;
use rand::Rng;

impl Pattern {
    /// A pattern with `fan_in[i]` non-zeros in row `i`, every such pattern equally likely.
    ///
    /// The columns of a row are drawn without replacement. Time `O(m + nnz log k)`.
    ///
    /// # Arguments
    ///
    /// * `shape` - `[m, k]`.
    /// * `fan_in` - `[m]`, each in `0..=k`.
    /// * `rng` - its state determines the pattern.
    ///
    /// # Errors
    ///
    /// [`SparseError::ShapeTooLarge`], [`SparseError::LengthMismatch`],
    /// [`SparseError::FanInTooLarge`] for the first row with more than `k`, or
    /// [`SparseError::TooManySlots`].
    pub fn random_with_fan_in<R: Rng + ?Sized>(
        shape: [usize; 2],
        fan_in: &[usize],
        rng: &mut R,
    ) -> Result<Self, SparseError> {
        checked_size(shape)?;
        let [rows, width] = shape;
        if fan_in.len() != rows {
            return Err(SparseError::LengthMismatch {
                what: "list of fan-ins",
                expected: rows,
                found: fan_in.len(),
            });
        }
        let mut row_offsets = Vec::with_capacity(rows + 1);
        row_offsets.push(0);
        let mut nnz = 0;
        for (row, &count) in fan_in.iter().enumerate() {
            if count > width {
                return Err(SparseError::FanInTooLarge {
                    row,
                    fan_in: count,
                    cols: width,
                });
            }
            nnz += count;
            check_slots(nnz as u64)?;
            row_offsets.push(nnz);
        }
        let mut cols = Vec::with_capacity(nnz);
        for &count in fan_in {
            let drawn = draw_distinct(count, width as u64, rng);
            cols.extend(drawn.into_iter().map(|col| col as u32));
        }
        Ok(Self {
            shape,
            row_offsets,
            cols,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn every_pattern_of_these_fan_ins_is_equally_likely() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut counts = [0u32; 1 << 9];
        for _ in 0..900 {
            let pattern = Pattern::random_with_fan_in([3, 3], &[1, 3, 2], &mut rng).unwrap();
            assert_eq!(pattern.fan_in(), [1, 3, 2]);
            assert!((0..3).all(|row| pattern.row(row).is_sorted_by(|a, b| a < b)));
            counts[pattern.flats().map(|flat| 1 << flat).sum::<usize>()] += 1;
        }
        // 9 patterns, 100 draws each: 99.9 % of chi-square with 8 degrees of freedom are below 26.1.
        let seen = counts.iter().filter(|&&count| count > 0);
        assert_eq!(seen.clone().count(), 9);
        let statistic: f64 = seen.map(|&n| (f64::from(n) - 100.0).powi(2) / 100.0).sum();
        assert!(statistic < 26.1, "chi-square {statistic}");
    }

    #[test]
    fn refuses_fan_ins_that_do_not_fit() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut draw = |fan_in: &[usize]| Pattern::random_with_fan_in([2, 4], fan_in, &mut rng);
        assert!(draw(&[4, 0]).is_ok());
        assert_eq!(
            draw(&[1, 5]),
            Err(SparseError::FanInTooLarge {
                row: 1,
                fan_in: 5,
                cols: 4
            })
        );
        assert_eq!(
            draw(&[1]),
            Err(SparseError::LengthMismatch {
                what: "list of fan-ins",
                expected: 2,
                found: 1
            })
        );
    }

    #[test]
    fn empty_axes() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for (shape, fan_in) in [([0, 4], vec![]), ([3, 0], vec![0; 3])] {
            assert_eq!(
                Pattern::random_with_fan_in(shape, &fan_in, &mut rng),
                Pattern::empty(shape)
            );
        }
    }
}
