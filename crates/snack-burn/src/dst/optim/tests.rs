//! The size of the first updates of a newcomer, under each policy.

use std::collections::BTreeMap;

use burn::module::{Module, Param, ParamId};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{
    AdaGradConfig, AdamConfig, AdamWConfig, GradientsParams, ModuleOptimizer, RmsPropConfig,
    SgdConfig,
};
use burn::tensor::{Device, Tensor, TensorData};
use burn_pack::Reader;

use super::*;
use crate::dst::{DstError, LayerChange, Plan, StatePolicy};
use crate::pattern::Pattern;

/// Steps until Adam's bias correction is one to five digits.
const WARM: usize = 12_000;
/// Sources of the numbers: steps 1, 10, 12 and 100 of a newcomer whose moments are zero.
const NAIVE: [(usize, f64); 4] = [(1, 3.162), (10, 6.53), (12, 6.57), (100, 3.24)];

#[derive(Module, Debug)]
struct Slots {
    values: Param<Tensor<1>>,
}

fn slots(len: usize) -> Slots {
    let device = Device::default().autodiff();
    let tensor = Tensor::from_data(TensorData::new(vec![0f32; len], [len]), &device);
    Slots {
        values: Param::from_tensor(tensor.require_grad()),
    }
}

/// One step with the given gradients; what the values moved by, over the learning rate.
fn step(optim: &mut ModuleOptimizer, slots: &mut Slots, gradient: &[f32]) -> Vec<f64> {
    let device = slots.values.val().device().inner();
    let data = TensorData::new(gradient.to_vec(), [gradient.len()]);
    let mut grads = GradientsParams::new();
    grads.register(slots.values.id, Tensor::<1>::from_data(data, &device));
    // Values near zero, so that no digit of a small step is lost.
    let zero = slots.values.val().zeros_like().require_grad();
    let at_zero = Slots {
        values: Param::initialized(slots.values.id, zero),
    };
    let stepped = optim.step(1.0, at_zero, grads);
    stepped
        .values
        .val()
        .into_data()
        .iter::<f64>()
        .map(|moved| -moved)
        .collect()
}

fn change(id: ParamId, before: Pattern, dropped: &[u32], grown: &[u64]) -> LayerChange {
    let plan = Plan::new(&before, dropped, grown).unwrap();
    LayerChange {
        name: "fc".into(),
        values_id: id,
        before: before.into(),
        after: plan.pattern,
        remap: plan.remap,
    }
}

/// Four slots in two rows; the last slot of each row is replaced.
fn two_of_four(
    optim: ModuleOptimizer,
    slots: &Slots,
    policy: StatePolicy,
    gradients: Option<&[f32]>,
) -> Result<ModuleOptimizer, DstError> {
    let before = Pattern::from_sorted_flats([2, 5], [0, 1, 5, 6]).unwrap();
    let id = slots.values.id;
    let change = &change(id, before, &[1, 3], &[2, 8]);
    let slot = SlotChange {
        change,
        policy,
        gradients,
    };
    remap_optimizer(optim, &BTreeMap::from([(id, slot)]))
}

fn after_change(
    mut optim: ModuleOptimizer,
    policy: StatePolicy,
    warm: usize,
) -> (ModuleOptimizer, Slots) {
    let mut slots = slots(4);
    for _ in 0..warm {
        step(&mut optim, &mut slots, &[1.0, 1.0, 2.0, 2.0]);
    }
    (two_of_four(optim, &slots, policy, None).unwrap(), slots)
}

/// Updates of the newcomers of both rows, whose gradients are 1 and 2 as those of their rows.
fn newcomers(optim: ModuleOptimizer, policy: StatePolicy) -> Vec<[f64; 2]> {
    let (mut optim, mut slots) = after_change(optim, policy, WARM);
    (0..100)
        .map(|_| {
            let moved = step(&mut optim, &mut slots, &[1.0, 1.0, 2.0, 2.0]);
            assert!((moved[0] - 1.0).abs() < 2e-3, "survivors are as before");
            assert!((moved[2] - 1.0).abs() < 2e-3, "survivors are as before");
            [moved[1], moved[3]]
        })
        .collect()
}

fn adam() -> AdamConfig {
    AdamConfig::new().with_epsilon(1e-10)
}

#[test]
fn zero_moments_overshoot_with_one_counter() {
    for optim in [
        adam().init(),
        AdamWConfig::new()
            .with_epsilon(1e-10)
            .with_weight_decay(0.0)
            .init(),
    ] {
        let updates = newcomers(optim, StatePolicy::Zero);
        for (step, expected) in NAIVE {
            for update in updates[step - 1] {
                assert!((update - expected).abs() < 6e-3, "step {step}: {update}");
            }
        }
        let sum: f64 = updates.iter().map(|update| update[0]).sum();
        assert!((sum - 466.0).abs() < 1.0, "{sum} instead of 100");
        let peak = updates
            .iter()
            .map(|u| u[0])
            .enumerate()
            .max_by(|a, b| a.1.total_cmp(&b.1));
        assert_eq!(peak.unwrap().0 + 1, 12);
    }
}

#[test]
fn local_clocks_do_not_overshoot() {
    for warmup in [0, 1, 20, 100] {
        let config = LocalClockAdamConfig::new()
            .with_warmup(warmup)
            .with_epsilon(1e-10);
        let updates = newcomers(config.build().into(), StatePolicy::LocalClock);
        for (step, update) in (1..).zip(&updates) {
            let ramp = (f64::from(step) / warmup.max(1) as f64).min(1.0);
            for update in update {
                assert!(
                    (update - ramp).abs() < 1e-3,
                    "warm-up {warmup}, step {step}: {update}"
                );
            }
        }
    }
}

#[test]
fn borrowed_moments_do_not_overshoot() {
    let updates = newcomers(adam().init(), StatePolicy::Borrow);
    let expected = [
        (1, 0.10),
        (2, 0.19),
        (5, 0.41),
        (10, 0.65),
        (20, 0.88),
        (50, 1.0),
    ];
    for (step, expected) in expected {
        for update in updates[step - 1] {
            assert!((update - expected).abs() < 6e-3, "step {step}: {update}");
        }
    }
    assert!(updates.iter().flatten().all(|&update| update < 1.001));
}

/// The policy belongs to the optimizer: with another one it is refused, not silently naive.
#[test]
fn local_clocks_need_an_optimizer_that_has_them() {
    let mut slots = slots(4);
    let mut refused = adam().init();
    step(&mut refused, &mut slots, &[1.0; 4]);
    let refused = two_of_four(refused, &slots, StatePolicy::LocalClock, None);
    let error = refused.map(|_| ()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("has one step counter for all connections"),
        "{text}"
    );
    let momentum = SgdConfig::new().with_momentum(Some(MomentumConfig::new()));
    for mut accepted in [SgdConfig::new().init(), momentum.init()] {
        step(&mut accepted, &mut slots, &[1.0; 4]);
        two_of_four(accepted, &slots, StatePolicy::LocalClock, None).unwrap();
    }
}

/// The first step of a run with a counter for all and with one for each is the same.
#[test]
fn local_clocks_start_like_adam() {
    for decoupled in [false, true] {
        let local = LocalClockAdamConfig::new()
            .with_warmup(0)
            .with_weight_decay(0.1)
            .with_decoupled(decoupled);
        let plain = match decoupled {
            false => adam()
                .with_epsilon(1e-5)
                .with_weight_decay(Some(burn::optim::decay::WeightDecayConfig::new(0.1)))
                .init(),
            true => AdamWConfig::new()
                .with_epsilon(1e-5)
                .with_weight_decay(0.1)
                .init(),
        };
        let device = Device::default().autodiff();
        let start = [0.5f32, -1.0, 0.0, 2.0];
        let run = |mut optim: ModuleOptimizer| -> Vec<f64> {
            let tensor = Tensor::<1>::from_data(start, &device).require_grad();
            let mut slots = Slots {
                values: Param::from_tensor(tensor),
            };
            for number in 0..5 {
                let mut grads = GradientsParams::new();
                let gradient = [0.3, -0.2, 0.1, 1e-3].map(|g| g * (1.0 + number as f32));
                let gradient = Tensor::<1>::from_data(gradient, &device.clone().inner());
                grads.register(slots.values.id, gradient);
                slots = optim.step(0.1, slots, grads);
            }
            slots.values.val().into_data().iter().collect()
        };
        for (found, expected) in run(local.build().into()).iter().zip(run(plain)) {
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}

/// Everything else than the values of sparse layers keeps its shared counter.
#[test]
fn only_values_have_clocks_of_their_own() {
    let device = Device::default().autodiff();
    let layer = crate::nn::SparseLinearConfig::new(6, 4)
        .with_nnz(Some(5))
        .init(&device);
    let mut optim = LocalClockAdamConfig::new().init();
    let x = Tensor::<2>::ones([2, 6], &device);
    let grads = GradientsParams::from_grads(layer.forward(x).sum().backward(), &layer);
    let layer = optim.step(0.1, layer, grads);
    let reader = Reader::from_bytes(optim.to_record().into_bytes().unwrap()).unwrap();
    let values = layer.values.id.val();
    let clocks: Vec<_> = reader
        .scalars()
        .keys()
        .filter(|name| name.ends_with("time"))
        .collect();
    assert_eq!(clocks.len(), 1, "the bias");
    assert!(!clocks[0].starts_with(&values.to_string()));
    let tensors = reader.into_tensors().unwrap();
    let names = tensors.iter().filter(|t| t.param_id == Some(values));
    let mut names: Vec<_> = names.map(|t| t.name.rsplit('.').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["moment_1", "moment_2", "time"]);
}

/// State tensors after a change, by the last part of their names.
fn state(optim: &ModuleOptimizer) -> BTreeMap<String, Vec<f64>> {
    let reader = Reader::from_bytes(optim.to_record().into_bytes().unwrap()).unwrap();
    let tensors = reader.into_tensors().unwrap().into_iter();
    tensors
        .map(|tensor| {
            let (name, dtype, shape, _, bytes) = tensor.into_parts().unwrap();
            let name = name.rsplit('.').next().unwrap().to_string();
            let data = TensorData::from_bytes(bytes, shape, dtype);
            (name, data.iter::<f64>().collect())
        })
        .collect()
}

#[test]
fn every_optimizer_that_divides_by_second_moments_borrows_them() {
    let rms = RmsPropConfig::new().with_momentum(0.9).with_centered(true);
    for (name, optim, borrowed, zero) in [
        ("Adam", adam().init(), vec!["moment_2"], vec!["moment_1"]),
        (
            "AMSGrad",
            adam().with_amsgrad(true).init(),
            vec!["moment_2", "max_moment_2"],
            vec!["moment_1"],
        ),
        (
            "RMSProp",
            rms.init(),
            vec!["square_avg", "avg"],
            vec!["grad_avg", "buf"],
        ),
        ("AdaGrad", AdaGradConfig::new().init(), vec!["sum"], vec![]),
    ] {
        let (optim, _) = after_change(optim, StatePolicy::Borrow, 7);
        let state = state(&optim);
        for field in borrowed {
            let tensor = &state[field];
            // Each row has one survivor, whose state is the mean.
            assert!(tensor[0] > 0.0, "{name}: {field}");
            assert_eq!(tensor[1], tensor[0], "{name}: {field}");
            assert_eq!(tensor[3], tensor[2], "{name}: {field}");
        }
        for field in zero {
            assert!(state[field][0] != 0.0, "{name}: {field}");
            assert_eq!(
                (state[field][1], state[field][3]),
                (0.0, 0.0),
                "{name}: {field}"
            );
        }
    }
}

/// A row without survivors borrows the mean of the layer.
#[test]
fn empty_rows_borrow_from_the_layer() {
    let mut optim = adam().init();
    let mut slots = slots(3);
    step(&mut optim, &mut slots, &[1.0, 2.0, 3.0]);
    let before = Pattern::from_sorted_flats([3, 4], [0, 1, 8]).unwrap();
    let id = slots.values.id;
    let change = &change(id, before, &[2], &[2, 4]);
    let slot = SlotChange {
        change,
        policy: StatePolicy::Borrow,
        gradients: None,
    };
    let optim = remap_optimizer(optim, &BTreeMap::from([(id, slot)])).unwrap();
    let found: Vec<f64> = state(&optim)["moment_2"]
        .iter()
        .map(|v| (v * 1e5).round())
        .collect();
    assert_eq!(found, [100.0, 400.0, 250.0, 250.0]);
}

#[test]
fn momentum_may_start_with_the_gradient() {
    let momentum = SgdConfig::new().with_momentum(Some(MomentumConfig::new()));
    let mut optim = momentum.init();
    let mut slots = slots(4);
    step(&mut optim, &mut slots, &[1.0, 1.0, 2.0, 2.0]);
    let (policy, gradients) = (StatePolicy::GradientSeed { c: 2.0 }, [0.5, -0.25]);
    let optim = two_of_four(optim, &slots, policy, Some(&gradients)).unwrap();
    assert_eq!(state(&optim)["velocity"], [1.0, 1.0, 2.0, -0.5]);

    // Adam's moments stay zero: dividing a seeded first moment by no second one would explode.
    let mut optim = adam().init();
    step(&mut optim, &mut slots, &[1.0, 1.0, 2.0, 2.0]);
    let optim = two_of_four(optim, &slots, policy, Some(&gradients)).unwrap();
    assert_eq!(state(&optim)["moment_1"][1], 0.0);
}

/// States are loaded where they are used, whatever the default device is.
#[test]
fn states_stay_on_their_device() {
    let device = Device::default();
    let mut optim = OnDevice::new(adam().build(), &device).init(None);
    let mut slots = slots(4);
    let mut plain = adam().init();
    for _ in 0..3 {
        let moved = step(&mut optim, &mut slots, &[1.0, 1.0, 2.0, 2.0]);
        assert_eq!(moved, step(&mut plain, &mut slots, &[1.0, 1.0, 2.0, 2.0]));
    }
    let [mut optim, mut plain] =
        [optim, plain].map(|o| two_of_four(o, &slots, StatePolicy::Zero, None).unwrap());
    assert_eq!(state(&optim), state(&plain));
    let gradient = [1.0, 1.0, 2.0, 2.0];
    assert_eq!(
        step(&mut optim, &mut slots, &gradient),
        step(&mut plain, &mut slots, &gradient)
    );
}
