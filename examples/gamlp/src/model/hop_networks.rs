use super::{BatchNorm, Projection, StackedLinear, projection::Place};
use crate::{GamlpConfig, InitStream, WeightMode, xavier_bound};
use burn::{
    module::Module,
    nn::{Dropout, DropoutConfig, PRelu, PReluConfig},
    tensor::{Device, Tensor},
};

/// A network for every hop: a linear layer, batch normalization (where asked for), PReLU, dropout and a square
/// linear layer. Each has weights of its own, and all are evaluated together.
#[derive(Module, Debug)]
pub struct HopNetworks {
    /// The first layers, `features -> hidden`.
    pub first: StackedLinear,
    /// Of all hidden units, hop by hop: `hops x hidden`.
    pub norm: Option<BatchNorm>,
    /// A slope for every hop.
    pub prelu: PRelu,
    /// Dropout of the hidden units.
    pub dropout: Dropout,
    /// The layers `hidden -> hidden`.
    pub second: HopProjections,
}

/// The square layers of [`HopNetworks`].
#[derive(Module, Debug)]
pub enum HopProjections {
    /// Dense ones, as one product.
    Dense(StackedLinear),
    /// Masked or sparse ones, each with a pattern of its own.
    Each(Vec<Projection>),
}

impl HopNetworks {
    /// Initializes the networks, hop after hop, with zero bias and Xavier weights of gain `sqrt(2)`.
    pub(crate) fn new(config: &GamlpConfig, stream: &mut InitStream, device: &Device) -> Self {
        let (hops, features, hidden) = (config.hops + 1, config.features, config.hidden);
        let stacked = Place::Hidden.mode(config) == WeightMode::Dense;
        let bounds = [features, hidden].map(|input| xavier_bound([input, hidden]));
        let (mut first, mut second, mut each) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..hops {
            first.extend(stream.values(features * hidden, bounds[0]));
            match stacked {
                true => second.extend(stream.values(hidden * hidden, bounds[1])),
                false => each.push(Projection::new(
                    hidden,
                    bounds[1],
                    true,
                    Place::Hidden,
                    config,
                    stream,
                    device,
                )),
            }
        }
        Self {
            first: StackedLinear::new(first, [features, hidden], device),
            norm: (config.batch_norm).then(|| BatchNorm::new(hops * hidden, device)),
            prelu: PReluConfig::new().with_num_parameters(hops).init(device),
            dropout: DropoutConfig::new(config.dropout).init(),
            second: match stacked {
                true => HopProjections::Dense(StackedLinear::new(second, [hidden; 2], device)),
                false => HopProjections::Each(each),
            },
        }
    }

    /// Number of networks.
    pub fn len(&self) -> usize {
        self.first.weight.dims()[0]
    }

    /// If there are none, which never is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Applies every network to its hop.
    ///
    /// # Shapes
    ///
    /// - hops: `[batch, hops, features]`
    /// - output: `[hops, batch, hidden]`
    ///
    /// # Panics
    ///
    /// Panics if the number of hops or of features differs.
    pub fn forward(&self, hops: Tensor<3>) -> Tensor<3> {
        let mut x = self.first.forward(hops.swap_dims(0, 1)).swap_dims(0, 1);
        let [batch, hops, hidden] = x.dims();
        if let Some(norm) = &self.norm {
            let units = norm.forward(x.reshape([batch, hops * hidden]));
            x = units.reshape([batch, hops, hidden]);
        }
        let x = self.dropout.forward(self.prelu.forward(x));
        match &self.second {
            HopProjections::Dense(layers) => layers.forward(x.swap_dims(0, 1)),
            HopProjections::Each(layers) => {
                let layers = layers.iter().enumerate();
                let outputs = layers.map(|(hop, layer)| {
                    let units = x.clone().narrow(1, hop, 1).reshape([batch, hidden]);
                    layer.forward(units)
                });
                Tensor::stack(outputs.collect(), 0)
            }
        }
    }
}
