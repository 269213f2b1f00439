use super::precision::project;
use crate::{
    Gpt2Config, InitStream,
    fused::{causal_attention, causal_softmax},
};
use burn::{
    module::Module,
    nn::{Dropout, DropoutConfig, Linear},
    tensor::{Device, Tensor, module::attention, ops::AttentionModuleOptions},
};
use snack_burn::tensor::dense_product;

/// Multi-head causal self-attention with one fused projection for queries, keys and values.
#[derive(Module, Debug)]
pub struct Attention {
    /// Projection `width -> 3 width`: queries, keys and values side by side.
    pub c_attn: Linear,
    /// Projection of the joined heads back into the residual stream.
    pub c_proj: Linear,
    /// Dropout of the attention weights.
    pub attention_dropout: Dropout,
    /// Dropout of the output.
    pub residual_dropout: Dropout,
    heads: usize,
}

impl Attention {
    /// Initializes the layer; `residual_std` is the deviation of the output projection.
    pub fn new(
        config: &Gpt2Config,
        std: f64,
        residual_std: f64,
        stream: &mut InitStream,
        device: &Device,
    ) -> Self {
        let d = config.width;
        let c_attn = Linear {
            weight: stream.normal([d, 3 * d], std, device),
            bias: Some(stream.zeros([3 * d], device)),
        };
        let c_proj = Linear {
            weight: stream.normal([d, d], residual_std, device),
            bias: Some(stream.zeros([d], device)),
        };
        Self::from_layers(config, c_attn, c_proj)
    }

    /// The layer of these projections, with the heads and dropouts of `config`.
    pub fn from_layers(config: &Gpt2Config, c_attn: Linear, c_proj: Linear) -> Self {
        let [_, attention_dropout, residual_dropout] = config.dropouts();
        Self {
            c_attn,
            c_proj,
            attention_dropout: DropoutConfig::new(attention_dropout).init(),
            residual_dropout: DropoutConfig::new(residual_dropout).init(),
            heads: config.heads,
        }
    }

    /// Number of heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Mixes every position with the earlier ones, in the precision of `x`; by Burn's fused attention
    /// where nothing is tracked.
    ///
    /// # Shapes
    ///
    /// - x: `[batch, tokens, width]`, the normalized residual stream
    /// - output: `[batch, tokens, width]`
    ///
    /// # Panics
    ///
    /// Panics if the last axis of `x` is not `width`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, tokens, width] = x.dims();
        let head_width = width / self.heads;

        let qkv = project(&self.c_attn, x);
        if qkv.device().is_autodiff() && self.attention_dropout.prob == 0.0 {
            let joined = causal_attention(qkv, self.heads);
            return self.residual_dropout.forward(project(&self.c_proj, joined));
        }
        let qkv = qkv
            .reshape([batch, tokens, 3 * self.heads, head_width])
            .swap_dims(1, 2);
        let part = |index: usize| qkv.clone().narrow(1, index * self.heads, self.heads);
        let (query, key, value) = (part(0), part(1), part(2));

        let mixed = match query.device().is_autodiff() {
            true => self.tracked(query, key, value),
            false => untracked_attention(query, key, value),
        };
        let joined = mixed.swap_dims(1, 2).reshape([batch, tokens, width]);
        self.residual_dropout.forward(project(&self.c_proj, joined))
    }

    /// Attention with dropout of its weights, which Burn's fused one does not have.
    fn tracked(&self, query: Tensor<4>, key: Tensor<4>, value: Tensor<4>) -> Tensor<4> {
        let [_, _, _, head_width] = query.dims();
        let scale = 1.0 / (head_width as f64).sqrt();
        let weights = causal_softmax(dense_product(query, key.transpose()), scale);
        dense_product(self.attention_dropout.forward(weights), value)
    }
}

/// Causal attention where nothing is tracked, with scores over the root of the width of a head. Burn has no
/// derivative of it.
///
/// # Shapes
///
/// - query, key, value: `[batch, heads, tokens, head_width]`
/// - output: the same
pub(crate) fn untracked_attention(query: Tensor<4>, key: Tensor<4>, value: Tensor<4>) -> Tensor<4> {
    let options = AttentionModuleOptions {
        is_causal: true,
        ..Default::default()
    };
    attention(query, key, value, None, None, options)
}
