//! Causal self-attention as one node in the graph of derivatives.
//!
//! Queries, keys and values are laid out head by head once, and their gradients are put together once.
//! Differentiated operation by operation, each matrix product copies the views that it is given, and the
//! gradient of each part is written into zeros of the size of all and added to the others.

use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn::tensor::{Shape, Slice};
use snack_burn::ops::dense::product;

use super::FusedOps;

/// What the backward pass needs.
#[derive(Debug, Clone)]
pub(super) struct SavedAttention<B: FusedOps> {
    /// Queries, keys and values, `[3, batch heads, tokens, head_width]`.
    parts: FloatTensor<B>,
    /// `[batch heads, tokens, tokens]`.
    weights: FloatTensor<B>,
    heads: usize,
    scale: f32,
}

/// As [`FusedOps::causal_attention`].
pub(super) fn forward<B: FusedOps>(
    qkv: FloatTensor<B>,
    heads: usize,
    scale: f32,
) -> (FloatTensor<B>, SavedAttention<B>) {
    let parts = B::split_heads(qkv, 3, heads);
    let [query, key, value] = [0, 1, 2].map(|index| part::<B>(&parts, index));
    let scores = product::<B>(query, transposed::<B>(key));
    let weights = B::causal_softmax(scores, scale);
    let mixed = product::<B>(weights.clone(), value);
    let saved = SavedAttention {
        parts,
        weights,
        heads,
        scale,
    };
    (side_by_side::<B>(mixed, heads), saved)
}

/// The gradient of queries, keys and values.
pub(super) fn backward<B: FusedOps>(
    saved: SavedAttention<B>,
    grad: FloatTensor<B>,
) -> FloatTensor<B> {
    let SavedAttention {
        parts,
        weights,
        heads,
        scale,
    } = saved;
    let [query, key, value] = [0, 1, 2].map(|index| part::<B>(&parts, index));
    let grad = part::<B>(&B::split_heads(grad, 1, heads), 0);
    let grad_value = product::<B>(transposed::<B>(weights.clone()), grad.clone());
    let grad_weights = product::<B>(grad, transposed::<B>(value));
    let grad_scores = B::causal_softmax_backward(weights, grad_weights, scale);
    let grad_query = product::<B>(grad_scores.clone(), key);
    let grad_key = product::<B>(transposed::<B>(grad_scores), query);
    B::join_heads(grad_query, grad_key, grad_value, heads)
}

/// As [`FusedOps::split_heads`], of operations of Burn.
pub(super) fn split_heads<B: FusedOps>(
    x: FloatTensor<B>,
    parts: usize,
    heads: usize,
) -> FloatTensor<B> {
    let [batch, tokens, width] = x.shape().dims();
    let head_width = width / (parts * heads);
    let shape = [batch, tokens, parts, heads, head_width];
    let x = B::float_reshape(x, Shape::new(shape));
    let x = B::float_permute(x, &[2, 0, 3, 1, 4]);
    B::float_reshape(x, Shape::new([parts, batch * heads, tokens, head_width]))
}

/// As [`FusedOps::join_heads`], of operations of Burn.
pub(super) fn join_heads<B: FusedOps>(parts: [FloatTensor<B>; 3], heads: usize) -> FloatTensor<B> {
    let parts = parts.map(|part| side_by_side::<B>(part, heads));
    B::float_cat(parts.into(), 2)
}

/// `[batch heads, tokens, head_width]` as `[batch, tokens, heads head_width]`.
fn side_by_side<B: FusedOps>(x: FloatTensor<B>, heads: usize) -> FloatTensor<B> {
    let [rows, tokens, head_width] = x.shape().dims();
    let batch = rows / heads;
    let x = B::float_reshape(x, Shape::new([batch, heads, tokens, head_width]));
    let x = B::float_swap_dims(x, 1, 2);
    B::float_reshape(x, Shape::new([batch, tokens, heads * head_width]))
}

fn part<B: FusedOps>(parts: &FloatTensor<B>, index: usize) -> FloatTensor<B> {
    let [_, rows, tokens, head_width] = parts.shape().dims();
    let ranges = [
        Slice::from(index..index + 1),
        Slice::from(0..rows),
        Slice::from(0..tokens),
        Slice::from(0..head_width),
    ];
    let part = B::float_slice(parts.clone(), &ranges);
    B::float_reshape(part, Shape::new([rows, tokens, head_width]))
}

fn transposed<B: FusedOps>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::float_swap_dims(x, 1, 2)
}
