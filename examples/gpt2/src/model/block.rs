use super::{Attention, Mlp};
use crate::{Gpt2Config, InitStream};
use burn::{
    module::Module,
    nn::{LayerNorm, LayerNormConfig},
    tensor::{Device, Tensor},
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
        let norm = LayerNormConfig::new(config.width).with_epsilon(config.epsilon);
        let residual_std = INIT_STD / (2.0 * config.layers as f64).sqrt();
        Self {
            ln_1: norm.init(device),
            attn: Attention::new(config, INIT_STD, residual_std, stream, device),
            ln_2: norm.init(device),
            mlp: Mlp::new(config, INIT_STD, residual_std, stream, device),
        }
    }

    /// Applies the block.
    ///
    /// # Shapes
    ///
    /// - x: `[batch, tokens, width]`
    /// - mask: `[1, 1, tokens, tokens]`
    /// - output: `[batch, tokens, width]`
    pub fn forward(&self, x: Tensor<3>, mask: Tensor<4>) -> Tensor<3> {
        let x = x.clone() + self.attn.forward(self.ln_1.forward(x), mask);
        x.clone() + self.mlp.forward(self.ln_2.forward(x))
    }
}
