use super::MlpLinear;
use crate::{Gpt2Config, InitStream, fused::gelu_tanh};
use burn::{
    module::Module,
    nn::{Dropout, DropoutConfig},
    tensor::{Device, Tensor},
};
use snack_burn::prelude::Layout;

/// The feed-forward half of a block. Its two matrices are the ones that become sparse.
#[derive(Module, Debug)]
pub struct Mlp {
    /// Projection `width -> inner`.
    pub c_fc: MlpLinear,
    /// Projection `inner -> width`.
    pub c_proj: MlpLinear,
    /// Dropout of the output.
    pub residual_dropout: Dropout,
}

impl Mlp {
    /// Initializes the layer; `residual_std` is the deviation of the output projection.
    pub fn new(
        config: &Gpt2Config,
        std: f64,
        residual_std: f64,
        stream: &mut InitStream,
        device: &Device,
    ) -> Self {
        let (d, inner) = (config.width, config.inner());
        let c_fc = MlpLinear::new([d, inner], std, config, stream, device);
        let c_proj = MlpLinear::new([inner, d], residual_std, config, stream, device);
        Self::from_layers(config, c_fc, c_proj)
    }

    /// The layer of these projections, with the dropout of `config`.
    ///
    /// What passes between sparse projections lies feature-major.
    pub fn from_layers(config: &Gpt2Config, mut c_fc: MlpLinear, mut c_proj: MlpLinear) -> Self {
        if let (MlpLinear::Sparse(c_fc), MlpLinear::Sparse(c_proj)) = (&mut c_fc, &mut c_proj) {
            c_fc.routines.output_layout = Layout::FeatureMajor;
            c_proj.routines.input_layout = Layout::FeatureMajor;
        }
        let [_, _, residual_dropout] = config.dropouts();
        Self {
            c_fc,
            c_proj,
            residual_dropout: DropoutConfig::new(residual_dropout).init(),
        }
    }

    /// Applies the two layers to every position.
    ///
    /// # Shapes
    ///
    /// - input: `[batch, tokens, width]`
    /// - output: `[batch, tokens, width]`
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let dims @ [batch, tokens, width] = x.dims();
        // A matrix: its axes can be swapped without a copy.
        let x: Tensor<2> = x.reshape([batch * tokens, width]);
        let hidden = gelu_tanh(self.c_fc.forward(x));
        let output = self.c_proj.forward(hidden).reshape(dims);
        self.residual_dropout.forward(output)
    }
}
