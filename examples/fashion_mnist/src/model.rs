use crate::{CLASSES, Gradient, Init, Options};
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
    /// Whether gradients pass units that were left out, as if they had taken part.
    pub unmasked_gradient: bool,
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
            Init::FanIn => SparseInitializer::FanInNormal { gain: 2_f64.sqrt() },
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
            unmasked_gradient: options.gradient == Gradient::Published,
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
                    x = self.leave_out(x, mask.clone());
                }
            }
        }
        assert_eq!(
            x.dims()[1],
            CLASSES,
            "the last layer must have a unit per class"
        );
        x
    }

    fn leave_out(&self, x: Tensor<2>, mask: Tensor<2>) -> Tensor<2> {
        match self.unmasked_gradient {
            true => x.clone() + (x.clone() * mask - x).detach(),
            false => x * mask,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::for_tests;

    fn model(gradient: Gradient) -> (Mlp, Device) {
        let options = Options {
            hidden: vec![6, 5],
            gradient,
            ..Options::default()
        };
        let device = for_tests().autodiff();
        (Mlp::new(&options, 4, 1, &device).unwrap(), device)
    }

    fn host(tensor: Tensor<2>) -> Vec<f32> {
        tensor.into_data().iter().collect()
    }

    /// Scores on four ones, and the gradient of the first layer's bias.
    fn run(gradient: Gradient, masks: &[[f32; 6]]) -> (Vec<f32>, Vec<f32>) {
        let (model, device) = model(gradient);
        let mut tensors = Vec::new();
        if let [mask] = masks {
            tensors.push(Tensor::from_data([*mask], &device));
            tensors.push(Tensor::ones([1, 5], &device));
        }
        // A bias keeps all units awake.
        let mut model = model;
        for layer in &mut model.layers {
            let [outputs, _] = layer.weight_shape();
            layer.bias = Some(burn::module::Param::from_tensor(
                Tensor::full([outputs], 2.0, &device).require_grad(),
            ));
        }
        let scores = model.forward(Tensor::ones([1, 4], &device), &tensors);
        let grads = scores.clone().sum().backward();
        let bias = model.layers[0].bias.as_ref().unwrap().val();
        let gradient = bias.grad(&grads).unwrap().into_data();
        (host(scores), gradient.iter().collect())
    }

    #[test]
    fn units_that_are_left_out_give_nothing_and_may_pass_gradients() {
        let mask = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0];
        let (scores, exact) = run(Gradient::Exact, &[mask]);
        let (same, unmasked) = run(Gradient::Published, &[mask]);
        let (_, full) = run(Gradient::Exact, &[[1.0; 6]]);
        assert_eq!(scores, same);
        for unit in 0..6 {
            assert_eq!(exact[unit], mask[unit] * full[unit]);
            assert_eq!(unmasked[unit], full[unit]);
        }
        assert!(full[1] != 0.0 || full[4] != 0.0, "{full:?}");
    }

    #[test]
    fn without_masks_layers_behind_a_dropout_are_scaled() {
        let (model, device) = model(Gradient::Exact);
        let x = Tensor::ones([1, 4], &device);
        let hidden = relu(model.layers[0].forward(x.clone()));
        let hidden = relu(model.layers[1].forward(hidden) * 0.8);
        let expected = host(model.layers[2].forward(hidden) * 0.8);
        for (found, expected) in host(model.forward(x, &[])).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6);
        }
    }
}
