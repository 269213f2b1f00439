//! The operations composed of Burn tensor operations: right on any back end, fast on none.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{IndexingUpdateOp, Shape};

use super::Index;

/// `Y = X W^T` by gathering the columns of `x` and adding the products to their rows.
pub fn spmm<B: Backend>(
    values: FloatTensor<B>,
    index: &Index<B>,
    x: FloatTensor<B>,
) -> FloatTensor<B> {
    gather_scatter::<B>(
        values,
        index.cols.clone(),
        index.rows.clone(),
        x,
        index.shape[0],
    )
}

/// `X = Y W` by gathering the columns of `y` and adding the products to their columns of `W`.
pub fn spmm_transposed<B: Backend>(
    values: FloatTensor<B>,
    index: &Index<B>,
    y: FloatTensor<B>,
) -> FloatTensor<B> {
    gather_scatter::<B>(
        values,
        index.rows.clone(),
        index.cols.clone(),
        y,
        index.shape[1],
    )
}

/// `d[s] = sum_b Y[b, row(s)] X[b, col(s)]` by two gathers and a reduction over the batch.
pub fn sddmm<B: Backend>(y: FloatTensor<B>, x: FloatTensor<B>, index: &Index<B>) -> FloatTensor<B> {
    let nnz = index.rows.shape()[0];
    if nnz == 0 || x.shape()[0] == 0 {
        return B::float_zeros(Shape::new([nnz]), &x.device(), x.dtype().into());
    }
    let y = B::float_select(y, 1, index.rows.clone());
    let x = B::float_select(x, 1, index.cols.clone());
    B::float_reshape(B::float_sum_dim(B::float_mul(y, x), 0), Shape::new([nnz]))
}

fn gather_scatter<B: Backend>(
    values: FloatTensor<B>,
    from: IntTensor<B>,
    to: IntTensor<B>,
    x: FloatTensor<B>,
    width: usize,
) -> FloatTensor<B> {
    let (batch, nnz) = (x.shape()[0], values.shape()[0]);
    let output = B::float_zeros(Shape::new([batch, width]), &x.device(), x.dtype().into());
    if batch == 0 || nnz == 0 {
        return output;
    }
    let values = B::float_reshape(values, Shape::new([1, nnz]));
    let products = B::float_mul(B::float_select(x, 1, from), values);
    B::float_select_assign(output, 1, to, products, IndexingUpdateOp::Add)
}
