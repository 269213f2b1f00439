use burn::{
    optim::{
        LearningRate, ModuleOptimizer, Optimizer, Sgd, SgdConfig, SgdState, momentum::MomentumConfig,
    },
    tensor::{Device, Tensor},
};

/// Momentum and weight decay as the SET authors have them: `v <- mu v - lr g`, then
/// `w <- w + v - decay w`. The decay is not scaled by the learning rate and does not enter the
/// momentum.
#[derive(Clone)]
pub struct SetSgd {
    sgd: Sgd,
    decay: f64,
}

impl SetSgd {
    /// An optimizer of a whole module.
    pub fn init(momentum: f64, decay: f64) -> ModuleOptimizer {
        let momentum = MomentumConfig::new()
            .with_momentum(momentum)
            .with_dampening(0.0);
        Self {
            sgd: SgdConfig::new().with_momentum(Some(momentum)).build(),
            decay,
        }
        .into()
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
    use burn::{
        module::{Module, Param},
        optim::GradientsParams,
    };

    #[derive(Module, Debug)]
    struct One {
        w: Param<Tensor<1>>,
    }

    #[test]
    fn two_steps_by_hand() {
        let device = Device::default().autodiff();
        let mut model = One {
            w: Param::from_data([1.0_f32], &device),
        };
        let mut optim = SetSgd::init(0.9, 0.01);
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
