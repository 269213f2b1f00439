//! The device form of a pattern, as the operations take it.

// `ColumnOrder` and its derived metadata hold tensor handles in one variant and nothing in the
// other; both are short-lived, and boxing is not something that `ExtensionType` knows.
#![allow(clippy::large_enum_variant)]

use burn::backend::tensor::IntTensor;
use burn::backend::{Backend, ExtensionType};

/// Coordinates of the non-zeros of an `m x k` matrix as 32-bit integer tensors of a back end.
///
/// Made from a validated [`Pattern`](crate::pattern::Pattern), so that kernels may trust it: the
/// offsets are non-decreasing and end at `nnz`, rows lie in `[0, m)` and columns in `[0, k)`.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct Index<B: Backend> {
    /// `[m, k]`.
    pub shape: [usize; 2],
    /// First slot of each row, `[m + 1]`.
    pub row_offsets: IntTensor<B>,
    /// Row of each slot, `[nnz]`.
    pub rows: IntTensor<B>,
    /// Column of each slot, `[nnz]`.
    pub cols: IntTensor<B>,
    /// The same slots in column order.
    #[extension_type]
    pub columns: ColumnOrder<B>,
}

/// The slots of a pattern sorted by column, needed by the transposed product only.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub enum ColumnOrder<B: Backend> {
    /// Not built: nothing that needs it follows.
    Absent,
    /// Built.
    Present {
        /// First entry of each column, `[k + 1]`.
        offsets: IntTensor<B>,
        /// Row of each entry, `[nnz]`.
        rows: IntTensor<B>,
        /// Slot of each entry, `[nnz]`.
        slots: IntTensor<B>,
    },
}

impl<B: Backend> Clone for Index<B> {
    fn clone(&self) -> Self {
        self.rewrap()
    }
}

impl<B: Backend> Index<B> {
    /// The same tensors under another back end type that has the same integer tensors, as an
    /// autodiff decorator and the back end below it do.
    pub fn rewrap<B2>(&self) -> Index<B2>
    where
        B2: Backend<IntTensorPrimitive = B::IntTensorPrimitive>,
    {
        Index {
            shape: self.shape,
            row_offsets: self.row_offsets.clone(),
            rows: self.rows.clone(),
            cols: self.cols.clone(),
            columns: match &self.columns {
                ColumnOrder::Absent => ColumnOrder::Absent,
                ColumnOrder::Present {
                    offsets,
                    rows,
                    slots,
                } => ColumnOrder::Present {
                    offsets: offsets.clone(),
                    rows: rows.clone(),
                    slots: slots.clone(),
                },
            },
        }
    }
}

impl<B: Backend> core::fmt::Debug for Index<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [m, k] = self.shape;
        write!(f, "Index {{ shape: [{m}, {k}] }}")
    }
}
