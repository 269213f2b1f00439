use super::{BatchNorm, Projection, projection::Place};
use crate::{GamlpConfig, InitStream, xavier_bound};
use burn::{
    module::Module,
    nn::{Dropout, DropoutConfig, Linear, PRelu, PReluConfig},
    tensor::{Device, Tensor},
};

/// Linear layers, each but the last followed by batch normalization (where asked for), PReLU with one
/// slope for all layers, and dropout.
///
/// Only the square layers may be sparse.
#[derive(Module, Debug)]
pub struct FeedForward {
    /// The layer that changes the width of the input, the only one if there is no other.
    pub first: Linear,
    /// The layers of equal width in and out, in order.
    pub middle: Vec<Projection>,
    /// The layer to the output, if it is neither the first nor square.
    pub last: Option<Linear>,
    /// One for every layer but the last, or none at all.
    pub norms: Vec<BatchNorm>,
    /// The common slope.
    pub prelu: PRelu,
    /// Dropout after every activation.
    pub dropout: Dropout,
}

/// `[input, hidden, output]` widths.
pub(crate) type Widths = [usize; 3];

impl FeedForward {
    /// Initializes `layers` layers with zero bias and Xavier weights of gain `sqrt(2)`.
    ///
    /// # Panics
    ///
    /// Panics if `layers` is 0.
    pub(crate) fn new(
        [input, hidden, output]: Widths,
        layers: usize,
        batch_norm: bool,
        place: Place,
        config: &GamlpConfig,
        stream: &mut InitStream,
        device: &Device,
    ) -> Self {
        assert!(layers > 0, "FeedForward::new: there are no layers");
        let first_output = if layers == 1 { output } else { hidden };
        let first = stream.linear([input, first_output], device);
        let has_last = layers > 1 && hidden != output;
        let squares = layers - 1 - usize::from(has_last);
        let bound = xavier_bound([hidden, hidden]);
        let square =
            |stream: &mut _| Projection::new(hidden, bound, true, place, config, stream, device);
        let middle = (0..squares).map(|_| square(stream)).collect();
        let last = has_last.then(|| stream.linear([hidden, output], device));
        let norms = if batch_norm { layers - 1 } else { 0 };
        Self {
            first,
            middle,
            last,
            norms: (0..norms).map(|_| BatchNorm::new(hidden, device)).collect(),
            prelu: PReluConfig::new().init(device),
            dropout: DropoutConfig::new(config.dropout).init(),
        }
    }

    /// Applies the layers.
    ///
    /// # Shapes
    ///
    /// - input: `[batch, input]`
    /// - output: `[batch, output]`
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let mut x = self.first.forward(input);
        let mut norms = self.norms.iter();
        let mut activate = |mut x| {
            if let Some(norm) = norms.next() {
                x = norm.forward(x);
            }
            self.dropout.forward(self.prelu.forward(x))
        };
        for layer in &self.middle {
            x = layer.forward(activate(x));
        }
        match &self.last {
            Some(layer) => layer.forward(activate(x)),
            None => x,
        }
    }
}
