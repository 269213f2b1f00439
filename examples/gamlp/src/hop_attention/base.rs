use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};
#[cfg(feature = "fusion")]
use burn::tensor::Shape;

use crate::ScoreActivation;

/// What a back end computes for [`attend_hops`](crate::attend_hops), forward and backward. All tensors are `f32`
/// and may be strided views.
#[backend_extension(
    Autodiff,
    Fusion: cfg(feature = "fusion"),
    Flex: cfg(feature = "flex"),
    Cube: cfg(feature = "__cube")
)]
pub trait HopAttentionOps: Backend {
    /// Combines the hops of every node; tensors as in [`attend_hops`](crate::attend_hops), but `factors` are
    /// read only if the settings say so.
    #[fusion(dtype = hops, shape = Shape::new([hops[1], hops[2]]))]
    fn attend_hops(
        hops: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        settings: HopAttentionSettings,
    ) -> FloatTensor<Self>;

    /// The gradients of hops, weight and bias.
    #[fusion(meta = |hops, weight, bias, _factors, _grad, _settings| (hops.clone(), weight.clone(), bias.clone()))]
    fn attend_hops_backward(
        hops: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: HopAttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// What [`HopAttentionOps`] computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopAttentionSettings {
    /// The non-linearity of the scores.
    pub activation: ScoreActivation,
    /// If shares are multiplied by factors.
    pub has_factors: bool,
}
