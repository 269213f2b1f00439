use crate::error::SparseError;

/// Refuses row offsets that are not `rows + 1` numbers climbing from 0 to `nnz`.
pub(super) fn check_offsets(rows: usize, offsets: &[usize], nnz: usize) -> Result<(), SparseError> {
    if offsets.len() != rows + 1 {
        return Err(SparseError::LengthMismatch {
            what: "list of row offsets",
            expected: rows + 1,
            found: offsets.len(),
        });
    }
    let mut previous = 0;
    for (position, &offset) in offsets.iter().enumerate() {
        let low = if position == rows { nnz } else { previous };
        let high = if position == 0 { 0 } else { nnz };
        if offset < low || offset > high {
            return Err(SparseError::InvalidOffsets {
                position,
                offset,
                low,
                high,
            });
        }
        previous = offset;
    }
    Ok(())
}

/// The coordinate as unsigned numbers, if it lies inside the shape.
pub(super) fn check_coordinate(
    shape: [usize; 2],
    position: usize,
    row: i64,
    col: i64,
) -> Result<(usize, usize), SparseError> {
    let [rows, cols] = shape;
    for (axis, index, size) in [("row", row, rows), ("column", col, cols)] {
        if index < 0 {
            return Err(SparseError::NegativeIndex {
                axis,
                position,
                index,
                size,
            });
        }
    }
    if row as u64 >= rows as u64 {
        return Err(SparseError::RowOutOfRange {
            position,
            row,
            rows,
        });
    }
    if col as u64 >= cols as u64 {
        return Err(SparseError::ColOutOfRange {
            position,
            col,
            cols,
        });
    }
    Ok((row as usize, col as usize))
}

/// The coordinate of a flat index, if it lies inside the shape, which has `size` coordinates.
pub(super) fn check_flat(
    shape: [usize; 2],
    size: u64,
    position: usize,
    flat: u64,
) -> Result<(usize, usize), SparseError> {
    if flat >= size {
        return Err(SparseError::FlatOutOfRange {
            position,
            flat,
            size,
        });
    }
    let width = shape[1] as u64;
    Ok(((flat / width) as usize, (flat % width) as usize))
}

/// Refuses a coordinate that does not come after the one before it.
pub(super) fn check_order(
    position: usize,
    previous: Option<(usize, usize)>,
    (row, col): (usize, usize),
) -> Result<(), SparseError> {
    match previous {
        Some(previous) if previous == (row, col) => {
            Err(SparseError::Duplicate { position, row, col })
        }
        Some((previous_row, previous_col)) if (previous_row, previous_col) > (row, col) => {
            Err(SparseError::Unsorted {
                position,
                row,
                col,
                previous_row,
                previous_col,
            })
        }
        _ => Ok(()),
    }
}
