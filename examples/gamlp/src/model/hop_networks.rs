use super::{BatchNorm, Projection, StackedLinear, projection::Place, slopes::prelu};
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
        let x = self.first.forward(hops.swap_dims(0, 1)).swap_dims(0, 1);
        let [batch, hops, hidden] = x.dims();
        let mut units = x.reshape([batch, hops * hidden]);
        if let Some(norm) = &self.norm {
            units = norm.forward(units);
        }
        let units = self.dropout.forward(prelu(&self.prelu, units));
        let x = units.reshape([batch, hops, hidden]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use burn::{module::Param, nn::Linear, tensor::Distribution};

    #[test]
    fn layers_of_their_own_compute_what_the_stacked_ones_do() {
        // The CPU where there is one: GPUs may round the operands of dense products.
        #[cfg(feature = "flex")]
        let device = Device::flex();
        #[cfg(not(feature = "flex"))]
        let device = Device::default();
        let config = GamlpConfig::new(5, 2).with_hidden(7).with_hops(3);
        let stacked = HopNetworks::new(&config, &mut InitStream::new(1), &device);
        let HopProjections::Dense(layers) = &stacked.second else {
            panic!("dense layers are stacked");
        };
        let layer = |hop: usize| {
            let weight = layers.weight.val().narrow(0, hop, 1).squeeze_dim(0);
            Projection::Dense(Linear {
                weight: Param::from_tensor(weight),
                bias: Some(Param::from_tensor(Tensor::zeros([7], &device))),
            })
        };
        let each = HopNetworks {
            second: HopProjections::Each((0..4).map(layer).collect()),
            ..stacked.clone()
        };
        let hops = Tensor::random([9, 4, 5], Distribution::Default, &device);
        let found = each.forward(hops.clone()).into_data();
        let expected = stacked.forward(hops).into_data();
        found.assert_approx_eq::<f32>(&expected, Default::default());
    }
}
