//! A part of the dense gradient, as the top-K operations take it.

use core::ops::Range;

/// Rows and columns of a dense gradient `D[i, j] = sum_b G[b, i] X[b, j]` of shape `[m, k]`.
///
/// A *position* in a panel is `row * columns + column`, both counted from its first ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GradientPanel {
    /// Rows of `D`, so columns of `G`.
    pub rows: Range<usize>,
    /// Columns of `D`, so columns of `X`.
    pub cols: Range<usize>,
}

impl GradientPanel {
    /// Number of rows and columns.
    pub fn dims(&self) -> [usize; 2] {
        [self.rows.len(), self.cols.len()]
    }

    /// Number of coordinates.
    pub fn len(&self) -> usize {
        self.rows.len() * self.cols.len()
    }

    /// Whether it has no coordinates.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Words of one row of the mask: 32 columns each.
    pub fn mask_stride(&self) -> usize {
        self.cols.len().div_ceil(32)
    }
}
