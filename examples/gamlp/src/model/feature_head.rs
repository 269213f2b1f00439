use super::{BatchNorm, Projection, padded, projection::Place, slopes::prelu};
use crate::{GamlpConfig, InitStream, xavier_bound};
use burn::{
    module::Module,
    nn::{Dropout, DropoutConfig, Linear, PRelu, PReluConfig},
    tensor::{Device, Tensor},
};

/// A wide square projection in the place of the output network: the layer that SNACK makes sparse.
#[derive(Module, Debug)]
pub struct FeatureHead {
    /// `width of a hop -> head`.
    pub expand: Linear,
    /// `head -> head`, the one that may be sparse.
    pub wide: Projection,
    /// Normalizes what `wide` gives.
    pub norm: BatchNorm,
    /// `head -> classes`.
    pub classify: Linear,
    /// The common slope.
    pub prelu: PRelu,
    /// Dropout before the classes.
    pub dropout: Dropout,
}

impl GamlpConfig {
    /// Initializes the square matrix of the feature head alone.
    ///
    /// # Panics
    ///
    /// Panics if there is no feature head.
    pub fn init_wide(&self, seed: u64, device: &Device) -> Projection {
        let width = self.head.expect("GamlpConfig::init_wide: a feature head");
        wide(width, self, &mut InitStream::new(seed), device)
    }
}

fn wide(
    width: usize,
    config: &GamlpConfig,
    stream: &mut InitStream,
    device: &Device,
) -> Projection {
    let bound = xavier_bound([width, width]);
    Projection::new(width, bound, true, Place::Head, config, stream, device)
}

impl FeatureHead {
    /// Initializes the layers with zero bias and Xavier weights of gain `sqrt(2)`.
    pub fn new(
        width: usize,
        config: &GamlpConfig,
        stream: &mut InitStream,
        device: &Device,
    ) -> Self {
        let expand = stream.linear([config.hop_width(), width], device);
        let wide = wide(width, config, stream, device);
        Self {
            expand,
            wide,
            norm: BatchNorm::new(width, device),
            classify: stream.linear([width, config.classes], device),
            prelu: PReluConfig::new().init(device),
            dropout: DropoutConfig::new(config.dropout).init(),
        }
    }

    /// Applies the layers.
    ///
    /// # Shapes
    ///
    /// - input: `[batch, width of a hop]`
    /// - output: `[batch, classes]`
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let x = prelu(&self.prelu, self.expand.forward(input));
        let x = self.norm.forward(self.wide.forward(x));
        let x = self.dropout.forward(prelu(&self.prelu, x));
        padded::linear(&self.classify, x)
    }
}
