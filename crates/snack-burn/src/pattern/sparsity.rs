use super::shape::checked_size;
use crate::error::SparseError;

/// The number of non-zeros of an `m x k` matrix at a given sparsity: `round((1 - sparsity) m k)`.
///
/// Algorithm 2 of the SNACK paper draws `(1 - sparsity) m k` coordinates; rounding to the nearest
/// integer, halves away from zero, is what makes that a count.
///
/// # Arguments
///
/// * `shape` - `[m, k]`.
/// * `sparsity` - fraction of zeros, in `[0, 1)`.
///
/// # Errors
///
/// [`SparseError::InvalidSparsity`] if the sparsity is NaN or outside `[0, 1)`,
/// [`SparseError::ShapeTooLarge`].
pub fn nnz_for_sparsity(shape: [usize; 2], sparsity: f64) -> Result<usize, SparseError> {
    if !(0.0..1.0).contains(&sparsity) {
        return Err(SparseError::InvalidSparsity { value: sparsity });
    }
    let size = checked_size(shape)?;
    let nnz = ((1.0 - sparsity) * size as f64).round() as u64;
    // Above 2^53 the product may round to more than there is.
    let nnz = nnz.min(size);
    usize::try_from(nnz).map_err(|_| SparseError::TooManySlots { nnz })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_nearest() {
        assert_eq!(nnz_for_sparsity([3072, 768], 0.9), Ok(235_930));
        assert_eq!(nnz_for_sparsity([1, 3], 0.5), Ok(2));
        assert_eq!(nnz_for_sparsity([7, 3], 0.0), Ok(21));
        assert_eq!(nnz_for_sparsity([0, 3], 0.5), Ok(0));
        assert_eq!(nnz_for_sparsity([200_000, 200_000], 0.9999), Ok(4_000_000));
    }

    #[test]
    fn never_above_the_size() {
        // A product that double precision rounds up.
        let shape = [i32::MAX as usize, i32::MAX as usize - 299];
        let size = checked_size(shape).unwrap();
        assert!(size as f64 as u64 > size);
        assert_eq!(nnz_for_sparsity(shape, 0.0), Ok(size as usize));
    }

    #[test]
    fn refuses_what_is_not_a_sparsity() {
        for value in [f64::NAN, -0.1, 1.0, f64::INFINITY, f64::NEG_INFINITY] {
            let error = nnz_for_sparsity([2, 2], value).unwrap_err();
            let text = format!("sparsity {value} is out of range, expected a number in [0, 1)");
            assert_eq!(error.to_string(), text);
        }
    }
}
