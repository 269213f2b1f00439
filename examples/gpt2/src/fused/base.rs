use core::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};
use burn::tensor::FloatDType;
#[cfg(feature = "fusion")]
use burn::{backend::fusion::custom::TensorSpec, tensor::DType, tensor::Shape};

use super::attention;

/// `gelu(x) = x sigmoid(x (LINEAR + CUBIC x^2))`, the tanh form because `1 + tanh(u) = 2 sigmoid(2 u)`.
pub(super) const LINEAR: f32 = 2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
pub(super) const CUBIC: f32 = LINEAR * 0.044715;

/// What a back end computes for [`fused`](crate::fused), forward and backward.
///
/// A row is what lies along the last axis. Inputs may be strided views of any rank and of `f32`, `f16` or
/// `bf16`; where nothing else is said, all of a call have one type and the output has it too.
#[backend_extension(
    Autodiff,
    Fusion: cfg(feature = "fusion"),
    Flex: cfg(feature = "flex"),
    Cube: cfg(feature = "__cube")
)]
pub trait FusedOps: Backend {
    /// The softmax of `scale` times every row of `[..., queries, keys]`, over the keys
    /// `0 ..= query + keys - queries`; 0 elsewhere.
    #[fusion(dtype = scores, shape = scores)]
    fn causal_softmax(scores: FloatTensor<Self>, scale: f32) -> FloatTensor<Self>;

    /// The gradient of the scores, from the weights that [`causal_softmax`](FusedOps::causal_softmax) returned.
    #[fusion(dtype = weights, shape = weights)]
    fn causal_softmax_backward(
        weights: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        scale: f32,
    ) -> FloatTensor<Self>;

    /// Causal self-attention of every head, whose scores are multiplied by `scale`.
    ///
    /// # Shapes
    ///
    /// - qkv: `[batch, tokens, 3 heads head_width]`: queries, keys and values, each head by head
    /// - output: `[batch, tokens, heads head_width]`
    #[fusion(dtype = qkv, shape = Shape::new([qkv[0], qkv[1], qkv[2] / 3]))]
    fn causal_attention(qkv: FloatTensor<Self>, heads: usize, scale: f32) -> FloatTensor<Self> {
        attention::forward::<Self>(qkv, heads, scale).0
    }

    /// Heads apart from each other.
    ///
    /// # Shapes
    ///
    /// - x: `[batch, tokens, parts heads head_width]`
    /// - output: `[parts, batch heads, tokens, head_width]`
    #[fusion(meta = |x, parts, heads| {
        let [batch, tokens, width] = x.shape.dims();
        TensorSpec::new(
            Shape::new([*parts, batch * heads, tokens, width / (parts * heads)]),
            x.dtype,
        )
    })]
    fn split_heads(x: FloatTensor<Self>, parts: usize, heads: usize) -> FloatTensor<Self> {
        attention::split_heads::<Self>(x, parts, heads)
    }

    /// Heads of queries, keys and values beside each other: what [`split_heads`](FusedOps::split_heads) took apart.
    ///
    /// # Shapes
    ///
    /// - query, key, value: `[batch heads, tokens, head_width]`
    /// - output: `[batch, tokens, 3 heads head_width]`
    #[fusion(meta = |query, _key, _value, heads| {
        let [rows, tokens, head_width] = query.shape.dims();
        TensorSpec::new(
            Shape::new([rows / heads, tokens, 3 * heads * head_width]),
            query.dtype,
        )
    })]
    fn join_heads(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        heads: usize,
    ) -> FloatTensor<Self> {
        attention::join_heads::<Self>([query, key, value], heads)
    }

    /// GELU in its tanh form.
    #[fusion(dtype = x, shape = x)]
    fn gelu_tanh(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The gradient of the input of [`gelu_tanh`](FusedOps::gelu_tanh).
    #[fusion(dtype = x, shape = x)]
    fn gelu_tanh_backward(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Rows less their mean, over the root of their variance plus `epsilon`, times `gamma` plus `beta`.
    ///
    /// # Shapes
    ///
    /// - x: `[..., width]`, `f32`
    /// - gamma, beta: `[width]`, `f32`
    /// - output: `[..., width]`, `dtype`
    #[fusion(meta = |x, _gamma, _beta, _epsilon, dtype| {
        TensorSpec::new(x.shape.clone(), DType::from(*dtype))
    })]
    fn norm_rows(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
        dtype: FloatDType,
    ) -> FloatTensor<Self>;

    /// The gradients of `x`, `gamma` and `beta`, all `f32`; `grad` has the type of the output.
    #[fusion(meta = |x, gamma, _grad, _epsilon| (x.clone(), gamma.clone(), gamma.clone()))]
    fn norm_rows_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        epsilon: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// The logarithm of the sum of exponentials of the first `vocabulary` elements of every row, less the
    /// element of its target.
    ///
    /// # Shapes
    ///
    /// - logits: `[rows, vocabulary or more]`
    /// - targets: `[rows]`, each below `vocabulary`
    /// - output: `[rows]`, `f32`
    #[fusion(meta = |logits, _targets, _vocabulary| TensorSpec::new(Shape::new([logits.shape[0]]), DType::F32))]
    fn token_losses(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        vocabulary: usize,
    ) -> FloatTensor<Self>;

    /// The gradient of the logits, from that of the losses, `[rows]` of `f32`; 0 behind the vocabulary.
    #[fusion(dtype = logits, shape = logits)]
    fn token_losses_backward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        grad: FloatTensor<Self>,
        vocabulary: usize,
    ) -> FloatTensor<Self>;

    /// A step of AdamW, with moments that are corrected for their start from zero.
    ///
    /// All tensors are `f32` and have one shape; no gradient passes through it.
    ///
    /// # Returns
    ///
    /// The weights and both moments after the step.
    #[fusion(meta = |weight, _grad, _first, _second, _step| {
        (weight.clone(), weight.clone(), weight.clone())
    })]
    fn adamw_step(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// A few rows times a matrix, plus a bias; no gradient passes through it.
    ///
    /// # Shapes
    ///
    /// - x: `[rows, inputs]`, `f32`
    /// - weight: `[inputs, outputs]`, `f32`
    /// - bias: `[outputs]`, `f32`
    /// - output: `[rows, outputs]`
    #[fusion(dtype = x, shape = Shape::new([x[0], bias[0]]))]
    fn project_rows(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// The products of a few rows with every row of a table; no gradient passes through it.
    ///
    /// # Shapes
    ///
    /// - x: `[rows, inputs]`, `f32`
    /// - table: `[outputs, inputs]`, `f32`
    /// - output: `[rows, outputs]`
    #[fusion(dtype = x, shape = Shape::new([x[0], table[0]]))]
    fn compare_rows(x: FloatTensor<Self>, table: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The attention of one query of every head to the places up to `place` of a cache of keys, then
    /// values; no gradient passes through it.
    ///
    /// # Shapes
    ///
    /// - query: `[batch, heads, 1, head_width]`, `f32`
    /// - cache: `[batch, 2 heads, places, head_width]`, `f32`
    /// - place: `[1]`, below `places`
    /// - output: `[batch, heads, 1, head_width]`
    #[fusion(dtype = query, shape = query)]
    fn attend(
        query: FloatTensor<Self>,
        cache: FloatTensor<Self>,
        place: IntTensor<Self>,
        scale: f32,
    ) -> FloatTensor<Self>;
}

/// The numbers of a step of AdamW.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWStep {
    /// Decay of the first moment.
    pub beta_1: f32,
    /// Decay of the second moment.
    pub beta_2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
    /// Learning rate over the correction of the first moment.
    pub rate: f32,
    /// One over the correction of the second moment.
    pub correction_2: f32,
    /// Factor of the weights: 1 less learning rate times weight decay.
    pub keep: f32,
}

impl AdamWStep {
    /// The new weight and moments.
    #[cfg(feature = "flex")]
    pub(super) fn apply(&self, weight: f32, grad: f32, first: f32, second: f32) -> [f32; 3] {
        let first = self.beta_1 * first + (1.0 - self.beta_1) * grad;
        let second = self.beta_2 * second + (1.0 - self.beta_2) * grad * grad;
        let size = (second * self.correction_2).sqrt() + self.epsilon;
        [self.keep * weight - self.rate * first / size, first, second]
    }
}
