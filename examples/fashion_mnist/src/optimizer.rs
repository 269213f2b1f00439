use crate::{Method, Options};
use burn::{
    module::Module,
    optim::{
        AdamWConfig, LearningRate, ModuleOptimizer, Optimizer, Sgd, SgdConfig, SgdState,
        momentum::MomentumConfig,
    },
    tensor::{Device, Tensor},
};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use snack_burn::dst::{LayerScaling, LocalClockAdamConfig, Preset, sparse_opt};

/// What turns gradients into steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerChoice {
    /// Momentum and weight decay as in the published SET program
    Sgd,
    /// AdamW; with --method smet, a step counter for every connection
    Adam,
}

impl core::fmt::Display for OptimizerChoice {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Sgd => "sgd",
            Self::Adam => "adam",
        })
    }
}

impl Options {
    /// The optimizer of a model, and what has to follow its topology.
    pub(crate) fn optimizer<M: Module>(
        &self,
        model: &M,
    ) -> (ModuleOptimizer, Option<LayerScaling>) {
        // AdamW scales its decay by the learning rate, the option does not.
        let decay = (self.weight_decay / self.learning_rate) as f32;
        match self.optimizer {
            OptimizerChoice::Sgd => {
                let sgd = SetSgd::new(self.momentum, self.weight_decay);
                self.scaled(sgd.clone().into(), sgd, model)
            }
            OptimizerChoice::Adam if self.method == Method(Preset::Smet) => {
                let adam = LocalClockAdamConfig::adamw(decay);
                self.scaled(adam.init(), adam.build(), model)
            }
            OptimizerChoice::Adam => {
                let adam = AdamWConfig::new().with_weight_decay(decay);
                self.scaled(adam.init(), adam.build(), model)
            }
        }
    }

    fn scaled<M: Module>(
        &self,
        whole: ModuleOptimizer,
        inner: impl Optimizer,
        model: &M,
    ) -> (ModuleOptimizer, Option<LayerScaling>) {
        match self.sparse_opt {
            true => {
                let (optimizer, scaling) = sparse_opt(whole, inner, None, model);
                (optimizer, Some(scaling))
            }
            false => (whole, None),
        }
    }
}

/// Momentum and weight decay as the SET authors have them: `v <- mu v - lr g`, then
/// `w <- w + v - decay w`. The decay is not scaled by the learning rate and does not enter the
/// momentum.
#[derive(Clone)]
pub struct SetSgd {
    sgd: Sgd,
    decay: f64,
}

impl SetSgd {
    /// The optimizer of one group of parameters.
    pub fn new(momentum: f64, decay: f64) -> Self {
        let momentum = MomentumConfig::new()
            .with_momentum(momentum)
            .with_dampening(0.0);
        Self {
            sgd: SgdConfig::new().with_momentum(Some(momentum)).build(),
            decay,
        }
    }
}

impl Optimizer for SetSgd {
    type State<const D: usize> = SgdState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let lost = (self.decay > 0.0).then(|| tensor.clone() * self.decay);
        let (stepped, state) = self.sgd.step(lr, tensor, grad, state);
        match lost {
            Some(lost) => (stepped - lost, state),
            None => (stepped, state),
        }
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        Sgd::to_device(state, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::for_tests;
    use burn::{module::Param, optim::GradientsParams};

    #[derive(Module, Debug)]
    struct One {
        w: Param<Tensor<1>>,
    }

    #[test]
    fn two_steps_by_hand() {
        let device = for_tests().autodiff();
        let mut model = One {
            w: Param::from_data([1.0_f32], &device),
        };
        let mut optim = ModuleOptimizer::from(SetSgd::new(0.9, 0.01));
        let (mut w, mut v) = (1.0_f64, 0.0_f64);
        for _ in 0..3 {
            // The gradient of w^2 is 2 w.
            let grads = model.w.val().powi_scalar(2).backward();
            let grads = GradientsParams::from_grads(grads, &model);
            model = optim.step(0.1, model, grads);
            v = 0.9 * v - 0.1 * 2.0 * w;
            w += v - 0.01 * w;
            let found = model.w.val().into_scalar::<f64>();
            assert!((found - w).abs() < 1e-6, "{found} {w}");
        }
    }
}
