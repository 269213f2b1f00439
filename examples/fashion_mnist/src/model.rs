use crate::{CLASSES, Init, Options};
use burn::{
    module::Module,
    nn::Initializer,
    tensor::{Device, Tensor, activation::relu},
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snack_burn::{dst::DstError, prelude::*};

/// A multilayer perceptron whose layers are all sparse; ReLU between them, no activation at the end.
#[derive(Module, Debug)]
pub struct Mlp {
    /// The layers, from the pixels to the classes.
    pub layers: Vec<SparseLinear>,
    /// Probability with which a hidden unit is left out of a training step.
    pub dropout: f64,
}

impl Mlp {
    /// Draws the model; biases are zero.
    ///
    /// Everything is drawn on the host, so that a seed gives the same model on every device.
    ///
    /// # Errors
    ///
    /// [`DstError`] if the layers cannot have so few connections.
    pub fn new(
        options: &Options,
        features: usize,
        seed: u64,
        device: &Device,
    ) -> Result<Self, DstError> {
        let shapes = options.shapes(features);
        let counts = options.counts(features)?;
        let initializer = match options.init {
            Init::Published => SparseInitializer::Dense(Initializer::Normal {
                mean: 0.0,
                std: 0.1,
            }),
            Init::FanIn => SparseInitializer::FanInNormal {
                gain: 2_f64.sqrt(),
            },
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let layers = shapes.iter().zip(counts).map(|(&[m, k], nnz)| {
            SparseLinearConfig::new(k, m)
                .with_nnz(Some(nnz))
                .with_profile(options.method.profile())
                .with_initializer(initializer.clone())
                .with_bias_initializer(Some(Initializer::Zeros))
                .with_seed(Some(rng.next_u64()))
                .init(device)
        });
        Ok(Self {
            layers: layers.collect(),
            dropout: options.dropout,
        })
    }

    /// Scores of the classes, before any activation.
    ///
    /// Without masks, what enters a layer behind a dropout is scaled by the probability that a unit
    /// takes part, biases included, as in the program of the SET authors; with masks nothing is
    /// scaled.
    ///
    /// # Shapes
    ///
    /// - images: `[batch, features]`
    /// - masks: `[batch, width]` for every hidden layer, or none
    /// - output: `[batch, 10]`
    ///
    /// # Panics
    ///
    /// Panics if a shape is another.
    pub fn forward(&self, images: Tensor<2>, masks: &[Tensor<2>]) -> Tensor<2> {
        let last = self.layers.len() - 1;
        let mut x = images;
        for (index, layer) in self.layers.iter().enumerate() {
            x = layer.forward(x);
            if masks.is_empty() && index > 0 && self.dropout > 0.0 {
                x = x * (1.0 - self.dropout);
            }
            if index < last {
                x = relu(x);
                if let Some(mask) = masks.get(index) {
                    x = x * mask.clone();
                }
            }
        }
        assert_eq!(x.dims()[1], CLASSES, "the last layer must have a unit per class");
        x
    }

    /// Number of weights that exist.
    pub fn nnz(&self) -> usize {
        self.layers.iter().map(SparseLinear::nnz).sum()
    }

    /// Number of weights of the dense model.
    pub fn dense_weights(&self) -> usize {
        let size = |layer: &SparseLinear| layer.weight_shape().iter().product::<usize>();
        self.layers.iter().map(size).sum()
    }
}
