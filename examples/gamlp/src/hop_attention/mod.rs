//! Recursive attention over the hops of a node as one operation: a kernel forward, and two backward.
//!
//! Operation by operation it is some three hundred small ones a training step, on numbers of which a node has
//! one for each hop, and a GPU waits for the host that launches them.

mod autodiff;
mod base;
#[cfg(feature = "__cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod node;

use burn::backend::Dispatch;
use burn::tensor::{DType, Tensor, assert_shape};

pub use base::{HopAttentionOps, HopAttentionSettings};

/// Number of shares of `hops` hops: those of the mean before every hop but the first, and the final ones.
pub fn share_count(hops: usize) -> usize {
    hops * (hops + 1) / 2
}

/// Combines the hops of every node.
///
/// With the halves `w1` and `w2` of the weights of the score, hop `k` has the score
/// `s_k = act(w1 . c_k + w2 . z_k + b)`, where `c_k` is the mean of the hops before it, weighted by the softmax of
/// their scores, and `c_0 = z_0`. The output is the mean of all, weighted by the softmax of all scores.
///
/// Source: Zhang et al., "Graph Attention Multi-Layer Perceptron", 2022, recursive attention.
///
/// # Shapes
///
/// - hops: `[hops, batch, width]`
/// - weight: `[2 width, 1]`
/// - bias: `[1]`
/// - factors: `[batch, share_count(hops)]`, by which every share is multiplied, where there are such: first the one
///   of the mean before hop 1, then the two before hop 2, and so on to those of the output. No gradient
///   passes to them.
/// - output: `[batch, width]`
///
/// # Panics
///
/// Panics if there is no hop or no column, the shapes do not belong together, or a tensor is not of `f32`.
pub fn attend_hops(
    hops: Tensor<3>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    factors: Option<Tensor<2>>,
    activation: crate::ScoreActivation,
) -> Tensor<2> {
    let [count, batch, width] = hops.dims();
    assert!(
        count > 0 && width > 0,
        "attend_hops: expected hops of some width, got {count} of {width}"
    );
    let factors_type = factors.as_ref().map_or(DType::F32, Tensor::dtype);
    for dtype in [hops.dtype(), weight.dtype(), bias.dtype(), factors_type] {
        assert!(
            dtype == DType::F32,
            "attend_hops: expected tensors of F32, got {dtype:?}"
        );
    }
    let (double, shares) = (2 * width, share_count(count));
    assert_shape!(weight, [double, 1]);
    assert_shape!(bias, [1]);
    let settings = HopAttentionSettings {
        activation,
        has_factors: factors.is_some(),
    };
    let factors = match factors {
        Some(factors) => {
            assert_shape!(factors, [batch, shares]);
            factors.into_dispatch()
        }
        // Any tensor will do where none is read.
        None => bias.clone().into_dispatch(),
    };
    Tensor::from_dispatch(Dispatch::attend_hops(
        hops.into_dispatch(),
        weight.into_dispatch(),
        bias.into_dispatch(),
        factors,
        settings,
    ))
}

#[cfg(test)]
mod tests;
