use core::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};
use burn::tensor::FloatDType;
#[cfg(feature = "fusion")]
use burn::{backend::fusion::custom::TensorSpec, tensor::DType, tensor::Shape};

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

    /// The logarithm of the sum of exponentials of every row less the element of its target.
    ///
    /// # Shapes
    ///
    /// - logits: `[rows, vocabulary]`
    /// - targets: `[rows]`, each below `vocabulary`
    /// - output: `[rows]`, `f32`
    #[fusion(meta = |logits, _targets| TensorSpec::new(Shape::new([logits.shape[0]]), DType::F32))]
    fn token_losses(logits: FloatTensor<Self>, targets: IntTensor<Self>) -> FloatTensor<Self>;

    /// The gradient of the logits, from that of the losses, `[rows]` of `f32`.
    #[fusion(dtype = logits, shape = logits)]
    fn token_losses_backward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}
