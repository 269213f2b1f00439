use super::{BatchNorm, padded, slopes::prelu};
use crate::{GamlpConfig, InitStream};
use burn::{
    module::Module,
    nn::{Dropout, DropoutConfig, Linear, PRelu, PReluConfig},
    tensor::{Device, Tensor},
};

/// From the label embedding to logits: linear layers, each but the last followed by batch normalization, PReLU
/// with one slope for all layers, and dropout.
#[derive(Module, Debug)]
pub struct LabelNetwork {
    /// The layers, in order.
    pub layers: Vec<Linear>,
    /// One for every layer but the last.
    pub norms: Vec<BatchNorm>,
    /// The common slope.
    pub prelu: PRelu,
    /// Dropout after every activation.
    pub dropout: Dropout,
}

impl LabelNetwork {
    /// Initializes the layers with zero bias and Xavier weights of gain `sqrt(2)`.
    ///
    /// # Panics
    ///
    /// Panics if there are no layers.
    pub(crate) fn new(config: &GamlpConfig, stream: &mut InitStream, device: &Device) -> Self {
        let count = config.label_layers;
        assert!(count > 0, "LabelNetwork::new: there are no layers");
        let mut widths = vec![config.hidden; count + 1];
        (widths[0], widths[count]) = (config.classes, config.classes);
        let widths: Vec<_> = widths.windows(2).map(|pair| [pair[0], pair[1]]).collect();
        let norm = |_| BatchNorm::new(config.hidden, device);
        Self {
            layers: widths
                .iter()
                .map(|&widths| stream.linear(widths, device))
                .collect(),
            norms: (1..count).map(norm).collect(),
            prelu: PReluConfig::new().init(device),
            dropout: DropoutConfig::new(config.dropout).init(),
        }
    }

    /// Applies the layers.
    ///
    /// # Shapes
    ///
    /// - input: `[batch, classes]`
    /// - output: `[batch, classes]`
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let mut x = input;
        for (index, layer) in self.layers.iter().enumerate() {
            x = padded::linear(layer, x);
            if let Some(norm) = self.norms.get(index) {
                x = self.dropout.forward(prelu(&self.prelu, norm.forward(x)));
            }
        }
        x
    }
}
