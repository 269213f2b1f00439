use crate::error::SparseError;

/// Largest dimension and largest number of non-zeros.
pub(super) const MAX_INDEX: usize = i32::MAX as usize;

/// The number of coordinates `m * k` of a shape that a pattern may have.
pub(super) fn checked_size(shape: [usize; 2]) -> Result<u64, SparseError> {
    let [rows, cols] = shape;
    if rows > MAX_INDEX || cols > MAX_INDEX {
        return Err(SparseError::ShapeTooLarge { rows, cols });
    }
    // Below 2^62, for both dimensions are below 2^31.
    Ok(rows as u64 * cols as u64)
}

/// Refuses a number of non-zeros whose slots need more than 31 bits.
pub(super) fn check_slots(nnz: u64) -> Result<(), SparseError> {
    if nnz > MAX_INDEX as u64 {
        return Err(SparseError::TooManySlots { nnz });
    }
    Ok(())
}

/// The number of coordinates, if it is enough for `nnz` non-zeros.
pub(super) fn check_count(shape: [usize; 2], nnz: usize) -> Result<u64, SparseError> {
    let size = checked_size(shape)?;
    if nnz as u64 > size {
        let [rows, cols] = shape;
        return Err(SparseError::TooManyNonZeros { nnz, rows, cols });
    }
    check_slots(nnz as u64)?;
    Ok(size)
}

/// Refuses a list that does not hold one entry per coordinate.
pub(super) fn check_dense_length(
    what: &'static str,
    shape: [usize; 2],
    found: usize,
) -> Result<(), SparseError> {
    let size = checked_size(shape)?;
    if found as u64 != size {
        return Err(SparseError::LengthMismatch {
            what,
            expected: usize::try_from(size).unwrap_or(usize::MAX),
            found,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_shape_has_a_size() {
        let size = checked_size([MAX_INDEX, MAX_INDEX]);
        assert_eq!(size, Ok((MAX_INDEX as u64).pow(2)));
    }

    #[test]
    fn refuses_dimensions_beyond_32_bit_signed() {
        for [rows, cols] in [
            [MAX_INDEX + 1, 0],
            [1, MAX_INDEX + 1],
            [usize::MAX, usize::MAX],
        ] {
            let error = SparseError::ShapeTooLarge { rows, cols };
            assert_eq!(checked_size([rows, cols]), Err(error));
        }
    }
}
