//! A training rule of one's own: which connections leave, by a criterion in about 30 lines.
//!
//! ```sh
//! cargo run -p snack-burn --example custom_criterion
//! ```

use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Tensor};
use snack_burn::dst::{
    Composed, GradientTopK, LayerView, Method, NetView, Plan, Prune, Signals, StatePolicy,
    Turnover, UpdateRandom,
};
use snack_burn::prelude::*;

/// Saliency `|w g|`: how much the loss changes to first order if a connection leaves. Outputs that
/// have few inputs are spared, since each of theirs carries more.
struct Saliency;

impl Prune for Saliency {
    fn needs(&self) -> Signals {
        Signals::GRADIENT
    }

    fn scores(&self, layer: &LayerView<'_>) -> Result<Vec<f32>, DstError> {
        let gradient = layer.gradient()?;
        let fan_in = layer.pattern.fan_in();
        Ok(layer
            .pattern
            .iter()
            .zip(layer.values.iter().zip(gradient))
            .map(|((row, _), (value, gradient))| (value * gradient).abs() / fan_in[row] as f32)
            .collect())
    }
}

fn main() -> Result<(), DstError> {
    let device = Device::default().autodiff();
    device.seed(7);
    let mut model = SparseLinearConfig::new(64, 16)
        .with_sparsity(0.9)
        .init(&device);
    let teacher = SparseLinearConfig::new(64, 16)
        .with_sparsity(0.95)
        .init(&device);

    // Timing, annealing and optimizer state as in RigL, who leaves by the criterion above.
    let config = DstConfig::rigl(400)
        .with_every(20)
        .with_state(StatePolicy::Borrow);
    let rule = config.rule_of(Composed::new(Saliency, GradientTopK))?;
    let mut dst = Dst::new(&model, rule, 1, DstState::default())?;

    let mut optim = AdamConfig::new().init();
    let (mut first, mut last) = (0.0, 0.0);
    for step in 1..=400 {
        let x = Tensor::<2>::random([64, 64], Distribution::Normal(0.0, 1.0), &device);
        let target = teacher.forward(x.clone()).detach();
        let loss = (model.forward(x) - target).powi_scalar(2).mean();
        last = loss.clone().into_scalar::<f32>();
        first = if step == 1 { last } else { first };
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        model = optim.step(0.01, model, grads);
        (model, optim) = dst.step(model, optim);
        if let Some(update) = dst.last_update() {
            println!("{update}, loss {last:.4}");
        }
    }
    let found = model.pattern().overlap(teacher.pattern())?;
    println!(
        "loss {first:.4} -> {last:.4}; {found} of the teacher's {} connections found",
        teacher.nnz()
    );
    assert!(last < 0.1 * first, "the student learns");
    Ok(())
}

/// A rule that is no composition of a prune and a grow criterion implements [`Method`]; this one
/// rewires every other layer.
#[allow(dead_code)]
struct EveryOther<M>(M);

impl<M: Method> Method for EveryOther<M> {
    fn needs(&self) -> Signals {
        self.0.needs()
    }

    fn plan(
        &self,
        net: &NetView<'_>,
        turnover: Turnover,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        let mut plans = self.0.plan(net, turnover, random)?;
        for (plan, layer) in plans.iter_mut().zip(&net.layers).skip(1).step_by(2) {
            *plan = Plan::new(layer.pattern, &[], &[])?;
        }
        Ok(plans)
    }
}
