use super::builder::Builder;
use super::check::check_coordinate;
use super::shape::checked_size;
use super::{Pattern, Value};
use crate::error::SparseError;

/// What to do with a coordinate that occurs more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Duplicates {
    /// Add the values up, in `f64` and in the order of the input.
    Sum,
    /// Return [`SparseError::Duplicate`].
    Reject,
}

struct Entry<T> {
    flat: u64,
    position: usize,
    value: T,
}

impl Pattern {
    /// The pattern, and the values in canonical order, of `(row, col, value)` triples in any order.
    ///
    /// A triple whose value is zero, and duplicates that sum to zero, stay non-zeros of the
    /// pattern. Memory is linear in the number of triples.
    ///
    /// # Shapes
    ///
    /// * `shape`: `[m, k]`
    /// * values returned: `[nnz]`
    ///
    /// # Errors
    ///
    /// The shape is too large; else the first triple that is negative or out of range; else, with
    /// [`Duplicates::Reject`], the first triple that repeats an earlier coordinate.
    pub fn from_triples<T: Value>(
        shape: [usize; 2],
        triples: impl IntoIterator<Item = (i64, i64, T)>,
        duplicates: Duplicates,
    ) -> Result<(Self, Vec<T>), SparseError> {
        checked_size(shape)?;
        let mut entries = Vec::new();
        for (position, (row, col, value)) in triples.into_iter().enumerate() {
            let (row, col) = check_coordinate(shape, position, row, col)?;
            let flat = row as u64 * shape[1] as u64 + col as u64;
            entries.push(Entry {
                flat,
                position,
                value,
            });
        }
        // With the position in the key this is stable, yet needs no scratch memory.
        entries.sort_unstable_by_key(|entry| (entry.flat, entry.position));
        if duplicates == Duplicates::Reject {
            check_distinct(shape, &entries)?;
        }
        merge(shape, &entries)
    }
}

fn check_distinct<T>(shape: [usize; 2], entries: &[Entry<T>]) -> Result<(), SparseError> {
    let repetition = entries
        .windows(2)
        .filter(|pair| pair[0].flat == pair[1].flat)
        .map(|pair| (pair[1].position, pair[1].flat))
        .min();
    match repetition {
        None => Ok(()),
        Some((position, flat)) => {
            let width = shape[1] as u64;
            let [row, col] = [flat / width, flat % width].map(|index| index as usize);
            Err(SparseError::Duplicate { position, row, col })
        }
    }
}

fn merge<T: Value>(
    shape: [usize; 2],
    entries: &[Entry<T>],
) -> Result<(Pattern, Vec<T>), SparseError> {
    let groups = || entries.chunk_by(|left, right| left.flat == right.flat);
    let nnz = groups().count();
    let mut builder = Builder::new(shape, nnz)?;
    let mut values = Vec::with_capacity(nnz);
    for group in groups() {
        builder.push_flat(group[0].flat)?;
        values.push(match group {
            // Left as it is, so that the payload of a NaN survives.
            [single] => single.value,
            many => T::from_f64(many.iter().map(|entry| entry.value.to_f64()).sum()),
        });
    }
    Ok((builder.finish(), values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn sums_duplicates() {
        let triples = [(0, 0, 1.0f32), (0, 0, 2.0)];
        let (pattern, values) = Pattern::from_triples([1, 1], triples, Duplicates::Sum).unwrap();
        assert_eq!(pattern.nnz(), 1);
        assert_eq!(values, [3.0]);
    }

    #[test]
    fn sorts_and_keeps_explicit_zeros() {
        let triples = [(2, 1, 5.0f32), (0, 3, 0.0), (2, 0, 4.0), (0, 3, 0.0)];
        let (pattern, values) = Pattern::from_triples([3, 4], triples, Duplicates::Sum).unwrap();
        assert_eq!(pattern.row_offsets(), [0, 1, 1, 3]);
        assert_eq!(pattern.cols(), [3, 0, 1]);
        assert_eq!(values, [0.0, 4.0, 5.0]);
    }

    #[test]
    fn rejects_the_first_repetition_of_the_input() {
        let triples = [(1, 1, 0.0f32), (1, 1, 0.0), (0, 0, 0.0), (0, 0, 0.0)];
        assert_eq!(
            Pattern::from_triples([2, 2], triples, Duplicates::Reject),
            Err(SparseError::Duplicate {
                position: 1,
                row: 1,
                col: 1
            })
        );
        assert_eq!(
            Pattern::from_triples([2, 2], [(0, 1, 0.0f32), (0, 2, 0.0)], Duplicates::Reject),
            Err(SparseError::ColOutOfRange {
                position: 1,
                col: 2,
                cols: 2
            })
        );
    }

    #[test]
    fn half_precision_sums_do_not_saturate_early() {
        let ones = (0..2049)
            .map(|_| (0, 0, f16::ONE))
            .chain([(0, 0, f16::from_f32(-2047.0))]);
        let (_, values) = Pattern::from_triples([1, 1], ones, Duplicates::Sum).unwrap();
        assert_eq!(values, [f16::from_f32(2.0)]);
    }

    #[test]
    fn ten_million_duplicates_are_summed_in_double_precision() {
        let count = 10_000_000;
        let triples = (0..count).map(|_| (1, 2, 0.1f32));
        let (pattern, values) = Pattern::from_triples([3, 4], triples, Duplicates::Sum).unwrap();
        let expected = f64::from(0.1f32) * f64::from(count);
        assert_eq!(pattern.nnz(), 1);
        assert!((f64::from(values[0]) / expected - 1.0).abs() < 1e-5);
    }
}
