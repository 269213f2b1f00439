//! Dense products whose choice of a kernel does not fail in half precision.
//!
//! For a product with at least four times as many rows as columns, CubeK 0.3 lays out tiles of 32 x 8, and
//! in half precision boxes of 512 rows of them for the tensor memory accelerator of a GPU, which takes 256.
//! The launch that fails spoils the operands that the tuner shares among its candidates: after minutes of
//! compiling it has measured none of them and falls back to the slowest. Transposed, such a product has
//! tiles of 8 x 32, whose boxes fit.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Shape;

/// Rows for each column from which CubeK's tiles are tall.
const TALL: usize = 4;

/// The dense product of `lhs` `[.., m, k]` and `rhs` `[.., k, n]`, `[.., m, n]`; its batches are equal. The
/// output may be a strided view.
pub fn product<B: Backend>(lhs: FloatTensor<B>, rhs: FloatTensor<B>) -> FloatTensor<B> {
    let (rank, shape) = (lhs.rank(), product_shape(&lhs.shape(), &rhs.shape()));
    let is_half = lhs.dtype().size() == 2;
    if !is_half || shape[rank - 2] < TALL * shape[rank - 1] {
        return B::float_matmul(lhs, rhs);
    }
    let turned = |x: FloatTensor<B>| B::float_swap_dims(x, rank - 2, rank - 1);
    turned(B::float_matmul(turned(rhs), turned(lhs)))
}

/// The shape of the product of matrices of two shapes.
pub(super) fn product_shape(lhs: &Shape, rhs: &Shape) -> Shape {
    let mut shape = lhs.clone();
    let last = shape.num_dims() - 1;
    shape[last] = rhs[last];
    shape
}
