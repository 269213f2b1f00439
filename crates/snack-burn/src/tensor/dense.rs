//! Dense layers and products in half precision.

use burn::backend::Dispatch;
use burn::tensor::{Tensor, module};

use super::ops::reshape;
use crate::ops::SparseOps;

/// The dense product, by Burn's kernels.
///
/// It is [`Tensor::matmul`] but for `f16` and `bf16`, where products with at least four times as many rows as
/// columns are computed transposed, since Burn's choice of a kernel fails for them on GPUs with a tensor memory accelerator:
/// see [`ops::dense`](crate::ops::dense).
///
/// # Shapes
///
/// - lhs: `[.., m, k]`
/// - rhs: `[.., k, n]`, with the same leading axes
/// - output: `[.., m, n]`
///
/// # Panics
///
/// Panics if the shapes or the data types do not fit.
pub fn dense_product<const D: usize>(lhs: Tensor<D>, rhs: Tensor<D>) -> Tensor<D> {
    if lhs.dtype().size() != 2 || D < 2 {
        return lhs.matmul(rhs);
    }
    let (left, right) = (lhs.dims(), rhs.dims());
    assert!(
        left[..D - 2] == right[..D - 2] && left[D - 1] == right[D - 2],
        "dense_product: expected shapes [.., m, k] and [.., k, n] with equal leading axes, got {left:?} and {right:?}"
    );
    assert_eq!(
        lhs.dtype(),
        rhs.dtype(),
        "dense_product: operands of two data types"
    );
    let product = Dispatch::dense_product(lhs.into_dispatch(), rhs.into_dispatch());
    Tensor::from_dispatch(product)
}

/// Burn's [`linear`](module::linear), by [`dense_product`] in half precision.
///
/// # Shapes
///
/// - input: `[.., d_input]`
/// - weight: `[d_input, d_output]`
/// - bias: `[d_output]`
/// - output: `[.., d_output]`
///
/// # Panics
///
/// Panics if the shapes do not fit.
pub fn linear<const D: usize>(
    input: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    if weight.dtype().size() != 2 {
        return module::linear(input, weight, bias);
    }
    let mut dims = input.dims();
    let [d_input, d_output] = weight.dims();
    let rows = dims[..D - 1].iter().product();
    let output = dense_product(reshape(input, [rows, d_input]), weight);
    let output = match bias {
        Some(bias) => output + bias.unsqueeze(),
        None => output,
    };
    dims[D - 1] = d_output;
    reshape(output, dims)
}
