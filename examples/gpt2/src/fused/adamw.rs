use burn::backend::Dispatch;
use burn::optim::{AdamWState, AdaptiveMomentumState, LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};

use super::{AdamWStep, FusedOps};

/// What [`FusedAdamW`] is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusedAdamWConfig {
    /// Decay of the first moment.
    pub beta_1: f32,
    /// Decay of the second moment.
    pub beta_2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
    /// Decoupled weight decay.
    pub weight_decay: f32,
}

/// Burn's AdamW, with the same state, as one kernel for each tensor.
///
/// Source: [Decoupled Weight Decay Regularization](https://arxiv.org/abs/1711.05101), algorithm 2.
#[derive(Debug, Clone)]
pub struct FusedAdamW {
    config: FusedAdamWConfig,
}

impl FusedAdamW {
    /// The optimizer of these settings.
    pub fn new(config: FusedAdamWConfig) -> Self {
        Self { config }
    }
}

impl Optimizer for FusedAdamW {
    type State<const D: usize> = AdamWState<D>;

    fn step<const D: usize>(
        &self,
        rate: LearningRate,
        weight: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let config = &self.config;
        let mut state = match state {
            Some(state) => state.momentum,
            None => AdaptiveMomentumState::new(0, grad.zeros_like(), grad.zeros_like()),
        };
        state.time += 1;
        let time = state.time as i32;
        let correction = |beta: f32| 1.0 - f64::from(beta).powi(time);
        let step = AdamWStep {
            beta_1: config.beta_1,
            beta_2: config.beta_2,
            epsilon: config.epsilon,
            rate: (rate / correction(config.beta_1)) as f32,
            correction_2: (1.0 / correction(config.beta_2)) as f32,
            keep: (1.0 - rate * f64::from(config.weight_decay)) as f32,
        };
        let (weight, first, second) = Dispatch::adamw_step(
            weight.into_dispatch(),
            grad.into_dispatch(),
            state.moment_1.into_dispatch(),
            state.moment_2.into_dispatch(),
            step,
        );
        state.moment_1 = Tensor::from_dispatch(first);
        state.moment_2 = Tensor::from_dispatch(second);
        (Tensor::from_dispatch(weight), Some(AdamWState::new(state)))
    }

    fn to_device<const D: usize>(mut state: Self::State<D>, device: &Device) -> Self::State<D> {
        state.momentum = state.momentum.to_device(device);
        state
    }
}
