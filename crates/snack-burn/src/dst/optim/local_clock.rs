//! Adam with a step counter for every element.

use burn::config::Config;
use burn::grad_clipping::GradientClippingConfig;
use burn::module::ParamGroup;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::{
    AdamConfig, AdamWConfig, LearningRate, ModuleOptimizer, Optimizer, RecordState, StateSink,
    StateSource,
};
use burn::tensor::{DType, Device, Tensor};

/// Configuration of [`LocalClockAdam`].
#[derive(Config, Debug)]
pub struct LocalClockAdamConfig {
    /// Decay of the first moment.
    #[config(default = 0.9)]
    pub beta_1: f32,
    /// Decay of the second moment.
    #[config(default = 0.999)]
    pub beta_2: f32,
    /// Added to the root of the second moment.
    #[config(default = 1e-5)]
    pub epsilon: f32,
    /// Steps over which the update of a new element rises to its full size, `W`; 0 or 1 for none.
    #[config(default = 100)]
    pub warmup: usize,
    /// Weight decay.
    #[config(default = 0.0)]
    pub weight_decay: f32,
    /// Whether the decay acts on the weights (AdamW) or is added to the gradient (Adam).
    #[config(default = false)]
    pub decoupled: bool,
    /// Gradient clipping of all parameters.
    pub grad_clipping: Option<GradientClippingConfig>,
}

impl LocalClockAdamConfig {
    /// AdamW: decoupled weight decay.
    pub fn adamw(weight_decay: f32) -> Self {
        Self::new()
            .with_weight_decay(weight_decay)
            .with_decoupled(true)
    }

    /// The optimizer of one parameter group.
    pub fn build(&self) -> LocalClockAdam {
        LocalClockAdam {
            config: self.clone(),
        }
    }

    /// The optimizer of a whole module: local clocks for the values of sparse layers, whose path
    /// ends in `values`, and Burn's [`Adam`](burn::optim::Adam) or
    /// [`AdamW`](burn::optim::AdamW) with its shared counter for everything else.
    ///
    /// On the values, the ramp acts on the first steps of the run too, like a learning rate that is
    /// warmed up.
    pub fn init(&self) -> ModuleOptimizer {
        let mut optimizer = match self.decoupled {
            true => {
                let config = AdamWConfig::new()
                    .with_beta_1(self.beta_1)
                    .with_beta_2(self.beta_2)
                    .with_epsilon(self.epsilon);
                config.with_weight_decay(self.weight_decay).init()
            }
            false => {
                let config = AdamConfig::new()
                    .with_beta_1(self.beta_1)
                    .with_beta_2(self.beta_2)
                    .with_epsilon(self.epsilon);
                let decay = Some(WeightDecayConfig::new(self.weight_decay));
                let decay = decay.filter(|decay| decay.penalty != 0.0);
                config.with_weight_decay(decay).init()
            }
        };
        if let Some(clipping) = &self.grad_clipping {
            optimizer = optimizer.with_grad_clipping(clipping.init());
        }
        let values = ParamGroup::from_regex(r"(^|\.)values$").expect("the pattern is valid");
        let clipping = self.grad_clipping.as_ref().map(|config| config.init());
        optimizer.with_group(values, self.build(), clipping)
    }
}

/// Adam or AdamW whose bias correction and ramp count the steps of every element by itself (SMET;
/// Xiao et al., 2026), so that a connection that enters late starts as one did at the beginning.
///
/// With `t` steps of an element the update is
/// `lr min(t / W, 1) (m / (1 - beta_1^t)) / (sqrt(v / (1 - beta_2^t)) + epsilon)`. The counter is a
/// tensor of 32-bit floats, 4 bytes per element, that moves with the moments; zero is the state of
/// a newcomer. It belongs to [`StatePolicy::LocalClock`](crate::dst::StatePolicy::LocalClock).
///
/// The published code counts from 2 and ramps the stored moment, which compounds; here the first
/// step has `t = 1` and the ramp acts on the update alone.
#[derive(Debug, Clone)]
pub struct LocalClockAdam {
    config: LocalClockAdamConfig,
}

/// State of [`LocalClockAdam`].
#[derive(Debug, Clone)]
pub struct LocalClockState<const D: usize> {
    /// Mean of gradients.
    pub moment_1: Tensor<D>,
    /// Mean of squared gradients.
    pub moment_2: Tensor<D>,
    /// Steps of every element, 32-bit float.
    pub time: Tensor<D>,
}

const MOMENT_1: &str = "moment_1";
const MOMENT_2: &str = "moment_2";
const TIME: &str = "time";

impl<const D: usize> RecordState for LocalClockState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_tensor(prefix, MOMENT_1, self.moment_1.to_data());
        out.push_tensor(prefix, MOMENT_2, self.moment_2.to_data());
        out.push_tensor(prefix, TIME, self.time.to_data());
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let mut take = |leaf| {
            let data = src.take_tensor(prefix, leaf)?;
            let options = (device, data.dtype());
            Some(Tensor::from_data(data, options))
        };
        Some(Self {
            moment_1: take(MOMENT_1)?,
            moment_2: take(MOMENT_2)?,
            time: take(TIME)?,
        })
    }
}

impl Optimizer for LocalClockAdam {
    type State<const D: usize> = LocalClockState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        mut grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let config = &self.config;
        let (dtype, device) = (grad.dtype(), grad.device());
        let state = state.unwrap_or_else(|| LocalClockState {
            moment_1: grad.zeros_like(),
            moment_2: grad.zeros_like(),
            time: Tensor::zeros(grad.dims(), (&device, DType::F32)),
        });
        let decay = f64::from(config.weight_decay);
        if decay != 0.0 && !config.decoupled {
            grad = tensor.clone().mul_scalar(decay).add(grad);
        }
        let mean = |old: Tensor<D>, new: Tensor<D>, beta: f32| {
            old.mul_scalar(beta).add(new.mul_scalar(1.0 - beta))
        };
        let time = state.time.add_scalar(1.0);
        let moment_1 = mean(state.moment_1, grad.clone(), config.beta_1);
        let moment_2 = mean(state.moment_2, grad.square(), config.beta_2);

        let correction = |beta: f32| {
            let beta = time.full_like(beta);
            let correction = beta.powf(time.clone()).neg().add_scalar(1.0);
            correction.cast(dtype)
        };
        let root = moment_2.clone().div(correction(config.beta_2)).sqrt();
        let mut update = moment_1
            .clone()
            .div(correction(config.beta_1))
            .div(root.add_scalar(config.epsilon));
        if config.warmup > 1 {
            let ramp = time.clone().div_scalar(config.warmup as f64);
            update = update.mul(ramp.clamp_max(1.0).cast(dtype));
        }
        let decayed = match config.decoupled && decay != 0.0 {
            true => tensor.mul_scalar(1.0 - lr * decay),
            false => tensor,
        };
        let state = LocalClockState {
            moment_1,
            moment_2,
            time,
        };
        (decayed - update.mul_scalar(lr), Some(state))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        LocalClockState {
            moment_1: state.moment_1.to_device(device),
            moment_2: state.moment_2.to_device(device),
            time: state.time.to_device(device),
        }
    }
}
