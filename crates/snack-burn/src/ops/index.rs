//! The device form of a pattern, as the operations take it.

// `ColumnOrder` and its derived metadata hold tensor handles in one variant and nothing in the
// other; both are short-lived, and boxing is not something that `ExtensionType` knows.
#![allow(clippy::large_enum_variant)]

use burn::backend::tensor::IntTensor;
use burn::backend::{Backend, ExtensionType};

/// How rows and columns are stored in the 32-bit integer tensors of an [`Index`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexWidth {
    /// One coordinate per word.
    Bits32,
    /// Two coordinates per word, the even slot in the low half: for matrices of at most 65 536
    /// rows and columns. Kernels read 2 bytes less per non-zero, and the lists take half the
    /// memory.
    Bits16,
}

impl IndexWidth {
    /// Zeros after the coordinates of a list that device kernels read, which may load so many past
    /// the end.
    pub const PADDING: usize = 4096;

    /// Words that hold the coordinates of `nnz` non-zeros.
    pub const fn words(self, nnz: usize) -> usize {
        match self {
            Self::Bits32 => nnz,
            Self::Bits16 => nnz.div_ceil(2),
        }
    }
}

/// Coordinates of the non-zeros of an `m x k` matrix as 32-bit integer tensors of a back end.
///
/// Made from a validated [`Pattern`](crate::pattern::Pattern), so that kernels may trust it: the
/// offsets are non-decreasing and end at `nnz`, rows lie in `[0, m)` and columns in `[0, k)`.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub struct Index<B: Backend> {
    /// `[m, k]`.
    pub shape: [usize; 2],
    /// Number of non-zeros.
    pub nnz: usize,
    /// Storage of `cols`, `rows` and the rows of the column order.
    pub width: IndexWidth,
    /// First slot of each row, `[m + 1]`.
    pub row_offsets: IntTensor<B>,
    /// Column of each slot, `[width.words(nnz)]` or longer.
    pub cols: IntTensor<B>,
    /// Row of each slot.
    #[extension_type]
    pub rows: RowList<B>,
    /// The same slots in column order.
    #[extension_type]
    pub columns: ColumnOrder<B>,
}

/// The row of each slot, which the offsets imply: a product without gradients mostly does without.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub enum RowList<B: Backend> {
    /// Not built: nothing that needs it follows.
    Absent,
    /// Built.
    Present {
        /// As the columns of the index.
        rows: IntTensor<B>,
    },
}

impl<B: Backend> RowList<B> {
    /// The rows.
    ///
    /// # Panics
    ///
    /// If they were not built.
    pub fn expect(&self) -> &IntTensor<B> {
        match self {
            Self::Present { rows } => rows,
            Self::Absent => panic!("the rows of slots are built for all that reads them"),
        }
    }
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
        /// Row of each entry, as the rows of the index.
        rows: IntTensor<B>,
        /// Slot of each entry, `[nnz]` or longer.
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
            nnz: self.nnz,
            width: self.width,
            row_offsets: self.row_offsets.clone(),
            cols: self.cols.clone(),
            rows: match &self.rows {
                RowList::Absent => RowList::Absent,
                RowList::Present { rows } => RowList::Present { rows: rows.clone() },
            },
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
