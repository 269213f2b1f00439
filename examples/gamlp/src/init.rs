use burn::{
    module::Param,
    nn::Linear,
    tensor::{Device, Shape, Tensor, TensorData},
};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Source of initial values, drawn on the host.
///
/// Burn's `Initializer` draws from a stream of the device, which differs between back ends. Drawing
/// here gives the same model for the same seed on every device.
#[derive(Debug)]
pub struct InitStream {
    rng: ChaCha8Rng,
}

impl InitStream {
    /// Starts the stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// A parameter with values from `U(-bound, bound)`.
    pub fn uniform<const D: usize>(
        &mut self,
        shape: impl Into<Shape>,
        bound: f64,
        device: &Device,
    ) -> Param<Tensor<D>> {
        let shape = shape.into();
        let values = self.values(shape.num_elements(), bound);
        Param::from_data(TensorData::new(values, shape), device)
    }

    /// Values from `U(-bound, bound)`.
    pub fn values(&mut self, count: usize, bound: f64) -> Vec<f32> {
        (0..count)
            .map(|_| (bound * (2.0 * self.rng.random::<f64>() - 1.0)) as f32)
            .collect()
    }

    /// A dense layer with weights from [`xavier_bound`] and zero bias.
    pub fn linear(&mut self, [d_input, d_output]: [usize; 2], device: &Device) -> Linear {
        Linear {
            weight: self.uniform(
                [d_input, d_output],
                xavier_bound([d_input, d_output]),
                device,
            ),
            bias: Some(Param::from_tensor(Tensor::zeros([d_output], device))),
        }
    }

    /// A seed for a layer that draws on its own.
    pub fn next_seed(&mut self) -> u64 {
        self.rng.next_u64()
    }
}

/// The bound of Xavier's uniform scheme with gain `sqrt(2)`, which suits ReLU.
pub fn xavier_bound([d_input, d_output]: [usize; 2]) -> f64 {
    (2.0 * 6.0 / (d_input + d_output) as f64).sqrt()
}
