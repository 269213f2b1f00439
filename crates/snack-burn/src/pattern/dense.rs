use super::builder::Builder;
use super::shape::check_dense_length;
use super::{Pattern, Value};
use crate::error::SparseError;

impl Pattern {
    /// The pattern, and the values in canonical order, of the non-zeros of a dense matrix.
    ///
    /// NaN counts as non-zero, a zero of either sign does not.
    ///
    /// # Shapes
    ///
    /// * `shape`: `[m, k]`
    /// * `matrix`: `[m * k]`, row-major
    /// * values returned: `[nnz]`
    ///
    /// # Errors
    ///
    /// [`SparseError::ShapeTooLarge`], [`SparseError::LengthMismatch`] or
    /// [`SparseError::TooManySlots`].
    pub fn from_dense<T: Value>(
        shape: [usize; 2],
        matrix: &[T],
    ) -> Result<(Self, Vec<T>), SparseError> {
        let pattern = select(shape, "dense matrix", matrix, |value| !value.is_zero())?;
        let values = matrix
            .iter()
            .copied()
            .filter(|value| !value.is_zero())
            .collect();
        Ok((pattern, values))
    }

    /// The pattern of the `true` entries of a dense mask.
    ///
    /// # Shapes
    ///
    /// * `shape`: `[m, k]`
    /// * `mask`: `[m * k]`, row-major
    ///
    /// # Errors
    ///
    /// [`SparseError::ShapeTooLarge`], [`SparseError::LengthMismatch`] or
    /// [`SparseError::TooManySlots`].
    pub fn from_mask(shape: [usize; 2], mask: &[bool]) -> Result<Self, SparseError> {
        select(shape, "dense mask", mask, |active| active)
    }
}

fn select<T: Copy>(
    shape: [usize; 2],
    what: &'static str,
    matrix: &[T],
    active: impl Fn(T) -> bool,
) -> Result<Pattern, SparseError> {
    check_dense_length(what, shape, matrix.len())?;
    let mut builder = Builder::new(shape, 0)?;
    // `chunks` refuses a width of 0, and such a matrix has no entries.
    for (row, entries) in matrix.chunks(shape[1].max(1)).enumerate() {
        for (col, _) in (0..).zip(entries).filter(|(_, entry)| active(**entry)) {
            builder.push(row, col)?;
        }
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_non_zeros_in_row_major_order() {
        let matrix = [0.0f32, 1.0, -0.0, f32::NAN, 0.0, 0.0, 2.0, 3.0, 4.0];
        let (pattern, values) = Pattern::from_dense([3, 3], &matrix).unwrap();
        assert_eq!(pattern.row_offsets(), [0, 1, 2, 5]);
        assert_eq!(pattern.cols(), [1, 0, 0, 1, 2]);
        assert_eq!(values[0], 1.0);
        assert!(values[1].is_nan());
        assert_eq!(values[2..], [2.0, 3.0, 4.0]);
    }

    #[test]
    fn odd_shapes() {
        for shape in [[1, 1], [1, 7], [7, 1], [3, 5], [0, 4], [4, 0], [0, 0]] {
            let matrix: Vec<f64> = (0..shape[0] * shape[1]).map(|i| (i % 2) as f64).collect();
            let mask: Vec<bool> = matrix.iter().map(|value| *value != 0.0).collect();
            let (pattern, values) = Pattern::from_dense(shape, &matrix).unwrap();
            assert_eq!(values.len(), matrix.len() / 2);
            assert_eq!(pattern, Pattern::from_mask(shape, &mask).unwrap());
            assert!(pattern.iter().all(|(row, col)| mask[row * shape[1] + col]));
        }
    }

    #[test]
    fn refuses_another_length() {
        let error = SparseError::LengthMismatch {
            what: "dense mask",
            expected: 6,
            found: 5,
        };
        assert_eq!(Pattern::from_mask([2, 3], &[true; 5]), Err(error));
        assert!(Pattern::from_dense([2, 0], &[1.0f32]).is_err());
    }
}
