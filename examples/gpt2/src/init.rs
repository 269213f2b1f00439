use burn::{
    module::Param,
    tensor::{Device, Shape, Tensor, TensorData},
};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

/// Source of initial values, drawn on the host.
///
/// Burn's `Initializer` draws from a stream of the device, which differs between back ends. Drawing
/// here gives the same model for the same seed on every device and in every [mode](crate::MlpMode).
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

    /// A parameter with values from `N(0, std^2)`.
    pub fn normal<const D: usize>(
        &mut self,
        shape: impl Into<Shape>,
        std: f64,
        device: &Device,
    ) -> Param<Tensor<D>> {
        let shape = shape.into();
        let values: Vec<f32> = (0..shape.num_elements())
            .map(|_| (std * self.rng.sample::<f64, _>(StandardNormal)) as f32)
            .collect();
        Param::from_data(TensorData::new(values, shape), device)
    }

    /// A parameter of zeros.
    pub fn zeros<const D: usize>(
        &mut self,
        shape: impl Into<Shape>,
        device: &Device,
    ) -> Param<Tensor<D>> {
        Param::from_tensor(Tensor::zeros(shape, device))
    }

    /// A seed for a layer that draws on its own.
    pub fn next_seed(&mut self) -> u64 {
        self.rng.next_u64()
    }
}
