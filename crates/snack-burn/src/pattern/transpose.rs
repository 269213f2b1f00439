use super::Pattern;
use core::fmt;

/// A pattern read column by column.
#[derive(Clone, PartialEq, Eq)]
pub struct TransposeOrder {
    /// The transposed pattern, `[k, m]`.
    pub pattern: Pattern,
    /// For every slot of the transposed pattern the slot of the original one, `[nnz]`.
    pub slots: Vec<u32>,
}

impl Pattern {
    /// The `k x m` transpose, and where its non-zeros are in this pattern.
    ///
    /// A counting sort by column, `O(nnz + m + k)`.
    pub fn transposed(&self) -> TransposeOrder {
        let [rows, columns] = self.shape;
        let mut row_offsets = vec![0; columns + 1];
        for &col in &self.cols {
            row_offsets[col as usize + 1] += 1;
        }
        for col in 0..columns {
            row_offsets[col + 1] += row_offsets[col];
        }
        let mut next = row_offsets.clone();
        let mut slots = vec![0; self.nnz()];
        let mut cols = vec![0; self.nnz()];
        for (slot, (row, col)) in (0..).zip(self.iter()) {
            let target = next[col];
            next[col] += 1;
            slots[target] = slot;
            cols[target] = row as u32;
        }
        let pattern = Pattern {
            shape: [columns, rows],
            row_offsets,
            cols,
        };
        TransposeOrder { pattern, slots }
    }
}

/// The pattern only: the slots may be millions.
impl fmt::Debug for TransposeOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransposeOrder")
            .field("pattern", &self.pattern)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let pattern = Pattern::from_coordinates([2, 3], &[0, 0, 1], &[0, 2, 0]).unwrap();
        let TransposeOrder { pattern, slots } = pattern.transposed();
        assert_eq!(pattern.shape(), [3, 2]);
        assert_eq!(pattern.row_offsets(), [0, 2, 2, 3]);
        assert_eq!(pattern.cols(), [0, 1, 0]);
        assert_eq!(slots, [0, 2, 1]);
    }

    #[test]
    fn empty_axes() {
        for [rows, cols] in [[0, 4], [4, 0], [0, 0]] {
            let transposed = Pattern::empty([rows, cols]).unwrap().transposed();
            assert_eq!(transposed.pattern, Pattern::empty([cols, rows]).unwrap());
            assert!(transposed.slots.is_empty());
        }
    }
}
