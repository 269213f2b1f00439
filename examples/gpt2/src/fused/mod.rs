//! The elementwise half of a transformer as one kernel per operation and direction.
//!
//! Burn differentiates softmax, layer norm, GELU and cross-entropy operation by operation. Each of these
//! operations reads and writes its tensor in memory, and their derivatives keep several copies of it; at
//! GPT-2's sizes that takes longer than all matrix products. The operations here read their inputs once
//! or twice, keep one tensor for the backward pass, compute in `f32` whatever the type of their inputs, and
//! have a kernel on every back end of the example.

mod adamw;
mod attention;
mod autodiff;
mod base;
#[cfg(feature = "__cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;

use burn::backend::Dispatch;
use burn::nn::Linear;
use burn::tensor::{FloatDType, Int, Tensor, assert_shape};

pub use adamw::{FusedAdamW, FusedAdamWConfig};
pub use base::{AdamWStep, FusedOps};

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

/// Causal self-attention of every head, with scores over the root of the width of a head.
///
/// # Shapes
///
/// - qkv: `[batch, tokens, 3 width]`: queries, keys and values, each head by head
/// - output: `[batch, tokens, width]`
///
/// # Panics
///
/// Panics if the last axis is not made of three parts with `heads` heads each.
pub fn causal_attention(qkv: Tensor<3>, heads: usize) -> Tensor<3> {
    let [_, _, width] = qkv.dims();
    assert!(
        heads > 0 && width.is_multiple_of(3 * heads),
        "causal_attention: expected a last axis of 3 x {heads} heads, got {width}"
    );
    let scale = 1.0 / ((width / (3 * heads)) as f32).sqrt();
    let qkv = qkv.into_dispatch();
    Tensor::from_dispatch(Dispatch::causal_attention(qkv, heads, scale))
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
/// Columns behind the vocabulary, which only pad a matrix, take no part.
///
/// # Shapes
///
/// - logits: `[rows, vocabulary or more]`
/// - targets: `[rows]`, each below `vocabulary`
/// - output: `[rows]`, of `f32`
///
/// # Panics
///
/// Panics if the numbers of rows differ or the vocabulary is empty or wider than the logits.
pub fn token_losses(logits: Tensor<2>, targets: Tensor<1, Int>, vocabulary: usize) -> Tensor<1> {
    let [rows, columns] = logits.dims();
    assert_shape!(targets, [rows]);
    assert!(
        (1..=columns).contains(&vocabulary),
        "token_losses: expected a vocabulary of 1 to {columns} tokens, got {vocabulary}"
    );
    Tensor::from_dispatch(Dispatch::token_losses(
        logits.into_dispatch(),
        targets.into_dispatch(),
        vocabulary,
    ))
}

/// Applies a linear layer to a few rows, as decoding does. Nothing is tracked.
///
/// # Shapes
///
/// - x: `[rows, inputs]`
/// - output: `[rows, outputs]`
///
/// # Panics
///
/// Panics if the last axis of `x` is not `inputs`, or if the layer has no bias.
pub fn project_rows(x: Tensor<2>, layer: &Linear) -> Tensor<2> {
    let weight = layer.weight.val();
    let [inputs, _] = weight.dims();
    assert_shape!(x, [.., inputs]);
    let bias = layer.bias.as_ref().expect("layers of GPT-2 have a bias");
    Tensor::from_dispatch(Dispatch::project_rows(
        x.into_dispatch(),
        weight.into_dispatch(),
        bias.val().into_dispatch(),
    ))
}

/// The products of a few rows with every row of a table, as decoding does. Nothing is tracked.
///
/// # Shapes
///
/// - x: `[rows, inputs]`
/// - table: `[outputs, inputs]`
/// - output: `[rows, outputs]`
///
/// # Panics
///
/// Panics if the last axes differ.
pub fn compare_rows(x: Tensor<2>, table: Tensor<2>) -> Tensor<2> {
    let [_, inputs] = table.dims();
    assert_shape!(x, [.., inputs]);
    Tensor::from_dispatch(Dispatch::compare_rows(
        x.into_dispatch(),
        table.into_dispatch(),
    ))
}

/// The attention of one query of every head to a cache of keys, then values, up to a place that only the
/// device knows. Nothing is tracked.
///
/// # Shapes
///
/// - query: `[batch, heads, 1, head_width]`
/// - cache: `[batch, 2 heads, places, head_width]`
/// - place: `[1]`, below `places`
/// - output: `[batch, heads, 1, head_width]`
///
/// # Panics
///
/// Panics if the shapes do not belong together.
pub fn attend(query: Tensor<4>, cache: Tensor<4>, place: Tensor<1, Int>, scale: f64) -> Tensor<4> {
    let [batch, heads, _, head_width] = query.dims();
    assert_shape!(query, [batch, heads, 1, head_width]);
    let both = 2 * heads;
    assert_shape!(cache, [batch, both, .., head_width]);
    assert_shape!(place, [1]);
    Tensor::from_dispatch(Dispatch::attend(
        query.into_dispatch(),
        cache.into_dispatch(),
        place.into_dispatch(),
        scale as f32,
    ))
}

#[cfg(test)]
mod tests;
