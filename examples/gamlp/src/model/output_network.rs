use super::{BatchNorm, FeatureHead, Projection, padded, projection::Place, slopes::prelu};
use crate::{GamlpConfig, InitStream};
use burn::{
    module::Module,
    nn::{Dropout, DropoutConfig, Linear, PRelu, PReluConfig},
    tensor::{Device, Tensor},
};

/// What turns the combined hops into logits.
#[derive(Module, Debug)]
pub enum OutputNetwork {
    /// The network of the paper.
    Residual(ResidualNetwork),
    /// The wide feature head.
    Head(FeatureHead),
}

impl OutputNetwork {
    /// Initializes the one that `config` asks for.
    pub fn new(config: &GamlpConfig, stream: &mut InitStream, device: &Device) -> Self {
        match config.head {
            None => Self::Residual(ResidualNetwork::new(config, stream, device)),
            Some(width) => Self::Head(FeatureHead::new(width, config, stream, device)),
        }
    }

    /// Applies the network.
    ///
    /// # Shapes
    ///
    /// - input: `[batch, width of a hop]`
    /// - output: `[batch, classes]`
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Residual(network) => network.forward(input),
            Self::Head(head) => head.forward(input),
        }
    }
}

/// The first or last weight of a [`ResidualNetwork`].
#[derive(Module, Debug)]
pub enum ResidualLayer {
    /// A matrix without bias; its input is added if the widths allow.
    Plain(Linear),
    /// A square matrix, to whose result its input is added.
    Square(Projection),
}

impl ResidualLayer {
    fn new(
        [input, output]: [usize; 2],
        config: &GamlpConfig,
        stream: &mut InitStream,
        device: &Device,
    ) -> Self {
        let bound = bound(output);
        // A square matrix of another size than the hidden one is no hidden matrix.
        match input == output && output == config.hidden {
            true => Self::Square(Projection::new(
                output,
                bound,
                false,
                Place::Hidden,
                config,
                stream,
                device,
            )),
            false => Self::Plain(Linear {
                weight: stream.uniform([input, output], bound, device),
                bias: None,
            }),
        }
    }

    /// The matrix, if it may be sparse.
    pub fn square(&self) -> Option<&Projection> {
        match self {
            Self::Plain(_) => None,
            Self::Square(projection) => Some(projection),
        }
    }

    fn forward(&self, norm: &BatchNorm, x: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Plain(layer) => {
                let [input, output] = layer.weight.dims();
                let y = norm.forward(padded::linear(layer, x.clone()));
                if input == output { y + x } else { y }
            }
            Self::Square(layer) => norm.forward(layer.forward(x.clone())) + x,
        }
    }
}

/// Layers without bias but with batch normalization, after the last as well, which add their input
/// where the widths allow. The middle ones mix the first activation into their input.
#[derive(Module, Debug)]
pub struct ResidualNetwork {
    /// The first layer.
    pub first: ResidualLayer,
    /// The layers `hidden -> hidden`.
    pub middle: Vec<Projection>,
    /// The layer to the classes, if it is not the first.
    pub last: Option<ResidualLayer>,
    /// One for every layer.
    pub norms: Vec<BatchNorm>,
    /// The common slope.
    pub prelu: PRelu,
    /// Dropout of the input of every layer but the first.
    pub dropout: Dropout,
    /// Share of the first activation in the input of the middle layers.
    pub alpha: f64,
}

impl ResidualNetwork {
    /// Initializes the layers with weights from `U(-1 / sqrt(output), 1 / sqrt(output))`.
    ///
    /// # Panics
    ///
    /// Panics if there are no layers.
    pub fn new(config: &GamlpConfig, stream: &mut InitStream, device: &Device) -> Self {
        let (layers, hidden, classes) = (config.output_layers, config.hidden, config.classes);
        assert!(layers > 0, "ResidualNetwork::new: there are no layers");
        let width = if layers == 1 { classes } else { hidden };
        let first = ResidualLayer::new([config.hop_width(), width], config, stream, device);
        let middle = (0..layers.saturating_sub(2)).map(|_| {
            let place = Place::Hidden;
            Projection::new(hidden, bound(hidden), false, place, config, stream, device)
        });
        let middle = middle.collect();
        let last =
            (layers > 1).then(|| ResidualLayer::new([hidden, classes], config, stream, device));
        let mut widths = vec![hidden; layers - 1];
        widths.push(classes);
        Self {
            first,
            middle,
            last,
            norms: widths.iter().map(|&w| BatchNorm::new(w, device)).collect(),
            prelu: PReluConfig::new().init(device),
            dropout: DropoutConfig::new(config.dropout).init(),
            alpha: config.alpha,
        }
    }

    /// Applies the layers.
    ///
    /// # Shapes
    ///
    /// - input: `[batch, width of a hop]`
    /// - output: `[batch, classes]`
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let mut norms = self.norms.iter();
        let mut norm = || norms.next().expect("every layer has a batch norm");
        let activate = |x| self.dropout.forward(prelu(&self.prelu, x));

        let mut x = self.first.forward(norm(), input);
        let start = x.clone();
        for layer in &self.middle {
            x = activate(x);
            let mixed = x.clone() * (1.0 - self.alpha) + start.clone() * self.alpha;
            x = norm().forward(layer.forward(mixed)) + x;
        }
        match &self.last {
            Some(layer) => layer.forward(norm(), activate(x)),
            None => x,
        }
    }
}

fn bound(output: usize) -> f64 {
    1.0 / (output as f64).sqrt()
}
