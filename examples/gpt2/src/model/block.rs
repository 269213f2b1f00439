use super::{Attention, LayerNorm, Mlp, Precision, precision::convert};
use crate::{Gpt2Config, InitStream};
use burn::{
    module::Module,
    tensor::{Device, FloatDType, Tensor},
};

/// Deviation of every projection and embedding at the start.
pub(crate) const INIT_STD: f64 = 0.02;

/// One transformer block: attention and MLP, each after a layer norm and around a residual.
#[derive(Module, Debug)]
pub struct Block {
    /// Layer norm before the attention.
    pub ln_1: LayerNorm,
    /// Causal self-attention.
    pub attn: Attention,
    /// Layer norm before the MLP.
    pub ln_2: LayerNorm,
    /// Feed-forward layers.
    pub mlp: Mlp,
}

impl Block {
    /// Initializes the block.
    pub fn new(config: &Gpt2Config, stream: &mut InitStream, device: &Device) -> Self {
        let norm = || LayerNorm::new(config.width, config.epsilon, device);
        let residual_std = INIT_STD / (2.0 * config.layers as f64).sqrt();
        Self {
            ln_1: norm(),
            attn: Attention::new(config, INIT_STD, residual_std, stream, device),
            ln_2: norm(),
            mlp: Mlp::new(config, INIT_STD, residual_std, stream, device),
        }
    }

    /// Applies the block, whose halves multiply in `precision`.
    ///
    /// # Shapes
    ///
    /// - x: `[batch, tokens, width]`
    /// - output: `[batch, tokens, width]`
    pub fn forward(&self, x: Tensor<3>, precision: Precision) -> Tensor<3> {
        let dtype = precision.dtype();
        let raise = |x| convert(x, FloatDType::F32);
        let x = x.clone() + raise(self.attn.forward(self.ln_1.forward(x, dtype)));
        x.clone() + raise(self.mlp.forward(self.ln_2.forward(x, dtype)))
    }
}
