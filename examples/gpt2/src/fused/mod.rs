//! The elementwise half of a transformer as one kernel per operation and direction.
//!
//! Burn differentiates softmax, layer norm, GELU and cross-entropy operation by operation. Each of these
//! operations reads and writes its tensor in memory, and their derivatives keep several copies of it; at
//! GPT-2's sizes that takes longer than all matrix products. The operations here read their inputs once
//! or twice, keep one tensor for the backward pass, compute in `f32` whatever the type of their inputs, and
//! have a kernel on every back end of the example.

mod autodiff;
mod base;
#[cfg(feature = "__cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;

use burn::backend::Dispatch;
use burn::tensor::{FloatDType, Int, Tensor, assert_shape};

pub use base::FusedOps;

/// Attention weights: the softmax over the keys that a query may see, of the scaled scores.
///
/// Query `i` of `queries` sees the keys up to `i + keys - queries`, so that the last query sees all.
///
/// # Shapes
///
/// - scores: `[batch, heads, queries, keys]`
/// - output: the same, 0 where a query must not look
///
/// # Panics
///
/// Panics if there are more queries than keys.
pub fn causal_softmax(scores: Tensor<4>, scale: f64) -> Tensor<4> {
    let [_, _, queries, keys] = scores.dims();
    assert!(
        queries <= keys,
        "causal_softmax: expected at most as many queries as keys, got {queries} and {keys}"
    );
    Tensor::from_dispatch(Dispatch::causal_softmax(
        scores.into_dispatch(),
        scale as f32,
    ))
}

/// GELU in the tanh form of GPT-2, `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
///
/// # Shapes
///
/// - input: `[..., any]`
/// - output: `[..., any]`
pub fn gelu_tanh<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::gelu_tanh(x.into_dispatch()))
}

/// Rows less their mean, over the root of their variance plus `epsilon`, times `gamma` plus `beta`, in
/// `dtype`.
///
/// # Shapes
///
/// - x: `[batch, tokens, width]`
/// - gamma, beta: `[width]`
/// - output: `[batch, tokens, width]`
///
/// # Panics
///
/// Panics if the last axis of `x` is not `width`.
pub fn norm_rows(
    x: Tensor<3>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
    dtype: FloatDType,
) -> Tensor<3> {
    let [width] = gamma.dims();
    assert_shape!(x, [.., width]);
    Tensor::from_dispatch(Dispatch::norm_rows(
        x.into_dispatch(),
        gamma.into_dispatch(),
        beta.into_dispatch(),
        epsilon as f32,
        dtype,
    ))
}

/// The cross-entropy of every row of `logits` with its target, in nats.
///
/// # Shapes
///
/// - logits: `[rows, vocabulary]`
/// - targets: `[rows]`, each below `vocabulary`
/// - output: `[rows]`, of `f32`
///
/// # Panics
///
/// Panics if the numbers of rows differ.
pub fn token_losses(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    let [rows, _] = logits.dims();
    assert_shape!(targets, [rows]);
    Tensor::from_dispatch(Dispatch::token_losses(
        logits.into_dispatch(),
        targets.into_dispatch(),
    ))
}

#[cfg(test)]
mod tests;
