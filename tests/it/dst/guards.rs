//! What an updater leaves alone, and what it says when it is used in a way that cannot work: frozen
//! layers, numbers that are not finite, two updaters, locks, optimizers without counters, groups
//! that match nothing, tied layers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::{Module, ParamGroup};
use burn::optim::{
    AdamConfig, AdamWConfig, GradientsParams, ModuleOptimizer, RmsPropConfig, SgdConfig,
};
use burn::tensor::Device;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::dst::{LocalClockAdamConfig, SharedDst, SkipReason};
use snack_burn::prelude::*;

use super::presets::{Chain, train};
use crate::support::{flex, tensor2};

/// Presets whose rules change something at every step.
fn every_step(preset: Preset) -> DstConfig {
    let mut config = preset.config(1000);
    config.schedule = None;
    config
        .with_every(1)
        .with_start(0)
        .with_stop(None)
        .with_accumulate(1)
        .with_anneal(snack_burn::dst::Anneal::Constant)
}

fn changing() -> impl Iterator<Item = Preset> {
    let all = Preset::ALL.into_iter();
    all.filter(|preset| *preset != Preset::Static)
}

/// Gradients of a loss that is multiplied by a number.
fn gradients(net: &Chain, scale: f32, device: &Device) -> GradientsParams {
    let x: Vec<f32> = (0..4 * 12).map(|i| (i as f32 * 0.7).sin()).collect();
    let y = net.forward(tensor2(&x, [4, 12], device));
    let loss = (y - 0.5).powi_scalar(2).mean() * scale;
    GradientsParams::from_grads(loss.backward(), net)
}

#[test]
fn frozen_layers_stay_whatever_the_rule() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    for preset in changing() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut net = Chain::new(&device);
        net.layers[1] = net.layers[1].clone().no_grad();
        let before = net.patterns();
        let mut dst = every_step(preset).init(&net).unwrap();
        let mut optim = LocalClockAdamConfig::new().init();
        for _ in 0..8 {
            (_, net, _) = train(net, &mut optim, &mut dst, &mut rng);
            let update = dst.last_update().unwrap();
            let listed: Vec<_> = update.layers.iter().map(|l| l.name.as_str()).collect();
            assert_eq!(listed, ["layers.0", "layers.2"], "{preset}");
        }
        let after = net.patterns();
        assert_eq!(after[1], before[1], "{preset}");
        if preset != Preset::DeepR {
            assert_ne!(after[0], before[0], "{preset}");
        }
        assert!(!net.layers[1].values.is_require_grad());
    }
}

/// A loss of NaN, after which the weights are NaN: nothing moves, and every such step is counted.
#[test]
fn updates_with_numbers_that_are_not_finite_are_skipped() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    for preset in changing() {
        let net = Chain::new(&device);
        let before = net.patterns();
        let mut dst = every_step(preset).init(&net).unwrap();
        let mut optim = LocalClockAdamConfig::new().init();
        let grads = gradients(&net, f32::NAN, &device);
        let net = optim.step(0.01, net, grads);
        let net = dst.step_mut(net, &mut optim);
        let reason = dst.last_update().unwrap().skipped.clone();
        assert!(
            matches!(
                reason,
                Some(SkipReason::NonFiniteGradient { .. } | SkipReason::NonFiniteValue { .. })
            ),
            "{preset}: {reason:?}"
        );
        assert_eq!(dst.skipped(), 1, "{preset}");
        assert_eq!(net.patterns(), before, "{preset}");
    }
}

/// One infinite value among the weights, with healthy gradients: it would be kept longest.
#[test]
fn a_value_that_is_not_finite_is_named() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut net = Chain::new(&device);
        net.layers[1].values = net.layers[1].values.clone().map(|values| {
            let mut numbers: Vec<f32> = values.to_data().iter().collect();
            numbers[17] = bad;
            burn::tensor::Tensor::<1>::from_floats(&numbers[..], &device).require_grad()
        });
        let before = net.patterns();
        let mut dst = every_step(Preset::Set).init(&net).unwrap();
        let mut optim = SgdConfig::new().init();
        let net = dst.step_mut(net, &mut optim);
        let reason = dst.last_update().unwrap().skipped.clone();
        let layer = "layers.1".to_string();
        assert_eq!(reason, Some(SkipReason::NonFiniteValue { layer }));
        assert_eq!((net.patterns(), dst.skipped()), (before, 1));
    }
}

/// An overflow whose optimizer step the loop leaves out, as a loss scaler does: the step counts for
/// nothing in the activity of DADP, and an update that is due then is skipped.
#[test]
fn activity_forgets_steps_that_overflow() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let config = DstConfig::dadp().with_every(4).with_drop_fraction(0.3);
    let run = |scales: &[f32]| {
        let mut net = Chain::new(&device);
        let mut dst = config.init(&net).unwrap();
        let mut optim = SgdConfig::new().init();
        for &scale in scales {
            let grads = gradients(&net, scale, &device);
            if scale.is_finite() {
                net = optim.step(0.01, net, grads);
            }
            net = dst.step_mut(net, &mut optim);
        }
        (net.patterns(), dst.skipped(), dst.last_update().cloned())
    };
    // Decay scales all scores alike, so three healthy steps with an overflow before are the same
    // three steps without.
    let (patterns, skipped, update) = run(&[f32::NAN, 1.0, 1.0, 1.0]);
    assert_eq!(skipped, 0);
    assert_eq!(update.unwrap().skipped, None);
    let three = DstConfig::dadp().with_every(3).with_drop_fraction(0.3);
    let mut net = Chain::new(&device);
    let mut dst = three.init(&net).unwrap();
    let mut optim = SgdConfig::new().init();
    for _ in 0..3 {
        let grads = gradients(&net, 1.0, &device);
        net = optim.step(0.01, net, grads);
        net = dst.step_mut(net, &mut optim);
    }
    assert_eq!(patterns, net.patterns());
    // The update itself.
    let (patterns, skipped, update) = run(&[1.0, 1.0, 1.0, f32::INFINITY]);
    assert_eq!((patterns, skipped), (Chain::new(&device).patterns(), 1));
    assert!(matches!(
        update.unwrap().skipped,
        Some(SkipReason::NonFiniteGradient { .. })
    ));
    // No backward pass at all.
    let net = Chain::new(&device);
    let mut dst = config.with_every(1).init(&net).unwrap();
    dst.step_mut(net, &mut SgdConfig::new().init());
    let update = dst.last_update().unwrap();
    assert_eq!(update.skipped, Some(SkipReason::NoGradient));
}

/// The last step that can be counted, from a state that nobody has reached.
#[test]
fn steps_do_not_overflow() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    for preset in Preset::ALL {
        let mut net = Chain::new(&device);
        let mut optim = SgdConfig::new().init();
        let state = DstState::at_step(u64::MAX - 1);
        let mut dst = every_step(preset).init_from(&net, state).unwrap();
        for _ in 0..3 {
            let grads = gradients(&net, 1.0, &device);
            net = optim.step(0.01, net, grads);
            net = dst.step_mut(net, &mut optim);
            assert_eq!(dst.steps(), u64::MAX, "{preset}");
        }
    }
}

#[test]
fn a_second_updater_is_told_what_happened() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    for (first, second) in [
        (Preset::Set, Preset::Set),
        (Preset::Set, Preset::Rigl),
        (Preset::Dadp, Preset::Set),
    ] {
        let net = Chain::new(&device);
        let mut dsts = [first, second].map(|preset| every_step(preset).init(&net).unwrap());
        let mut optim = AdamConfig::new().init();
        let grads = gradients(&net, 1.0, &device);
        let net = optim.step(0.01, net, grads);
        let net = dsts[0].step_mut(net, &mut optim);
        let before = net.patterns();
        let (net, result) = dsts[1].try_step(net, &mut optim);
        let error = result.unwrap_err().to_string();
        assert!(
            error.starts_with("layer `layers.")
                && error.contains("was changed by something else since the updater saw it last")
                && error.ends_with("must come to the next"),
            "{first} {second}: {error}"
        );
        assert_eq!(net.patterns(), before);
    }
}

#[test]
fn a_second_lock_of_one_thread_panics() {
    let Some(backend) = flex() else { return };
    let net = Chain::new(&backend.autodiff());
    let shared = SharedDst::new(DstConfig::set().init(&net).unwrap());
    let twice = catch_unwind(AssertUnwindSafe(|| {
        (shared.lock().steps(), shared.lock().skipped())
    }));
    let message = *twice
        .unwrap_err()
        .downcast::<String>()
        .unwrap_or_else(|other| Box::new(other.downcast::<&str>().unwrap().to_string()));
    assert!(
        message.contains("this thread already holds the updater; drop the guard first"),
        "{message}"
    );
    // The first guard is gone, and other threads wait instead.
    assert_eq!((shared.steps(), shared.skipped()), (0, 0));
    let guard = shared.lock();
    let other = std::thread::spawn({
        let shared = shared.clone();
        move || shared.steps()
    });
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!other.is_finished());
    drop(guard);
    assert_eq!(other.join().unwrap(), 0);
    assert!(format!("{shared:?}").contains("Dst"));
}

/// Not a hundred steps later, when the first connections are replaced.
#[test]
fn an_optimizer_without_counters_is_refused_at_its_first_step() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    type Make = fn() -> ModuleOptimizer;
    let bad: [Make; 3] = [
        || AdamConfig::new().init(),
        || AdamWConfig::new().init(),
        || RmsPropConfig::new().init(),
    ];
    for make in bad {
        let net = Chain::new(&device);
        let mut optim = make();
        let mut dst = DstConfig::smet(10_000).init(&net).unwrap();
        // Nothing is known of an optimizer without states.
        let (net, result) = dst.try_step(net, &mut optim);
        result.unwrap();
        let grads = gradients(&net, 1.0, &device);
        let net = optim.step(0.01, net, grads);
        let before = net.patterns();
        let (net, result) = dst.try_step(net, &mut optim);
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains("has one step counter for all connections, expected one for each"),
            "{error}"
        );
        assert_eq!(net.patterns(), before);
    }
    let good: [Make; 2] = [
        || LocalClockAdamConfig::new().init(),
        || SgdConfig::new().init(),
    ];
    for make in good {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut net = Chain::new(&device);
        let mut optim = make();
        let mut dst = DstConfig::smet(100).init(&net).unwrap();
        for _ in 0..25 {
            (_, net, _) = train(net, &mut optim, &mut dst, &mut rng);
        }
        assert_eq!(dst.steps(), 25);
    }
}

#[test]
fn a_group_that_matches_nothing_is_named() {
    let Some(backend) = flex() else { return };
    let net = Chain::new(&backend.autodiff());
    let init = |pattern: &str| {
        let group = ParamGroup::from_regex(pattern).unwrap();
        let groups = vec![(group, None)];
        DstConfig::set().init_groups(&net, groups, DstState::default())
    };
    let error = init("layer_9").map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("layer_9"), "{error}");
    assert!(
        error.contains("matches no sparse layer, expected one such as `layers.0.values`"),
        "{error}"
    );
    assert_eq!(
        init("layers.1").unwrap().rewired(),
        ["layers.0", "layers.2"]
    );
}

#[test]
fn tied_layers_are_refused() {
    let Some(backend) = flex() else { return };
    let mut net = Chain::new(&backend.autodiff());
    net.layers[2] = net.layers[0].clone();
    let error = DstConfig::set().init(&net).map(|_| ()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("layers `layers.0` and `layers.2` share one parameter"),
        "{error}"
    );
}

/// A net that is no chain: guided growth asks for a graph.
#[test]
fn guided_growth_says_what_it_needs() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut net = Chain::new(&device);
    net.layers
        .push(SparseLinearConfig::new(5, 12).init(&device));
    let error = DstConfig::guided().init(&net).map(|_| ()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("do not form a chain in the order of the model (layer `layers.3` takes 5")
            && text.contains("with_graph(Some(LayerGraph::new"),
        "{text}"
    );
}

/// The root of a model has no path; messages call it so.
#[test]
fn a_model_that_is_a_layer_has_a_name() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let layer = SparseLinearConfig::new(8, 6)
        .with_sparsity(0.5)
        .init(&device);
    let groups = vec![(ParamGroup::all(), None)];
    let none = DstConfig::set().init_groups(&layer, groups, DstState::default());
    let messages = [
        none.map(|_| ()).unwrap_err().to_string(),
        DstError::UnknownLayer {
            name: String::new(),
        }
        .to_string(),
        DstError::MissingLayer {
            name: String::new(),
        }
        .to_string(),
        DstError::RepeatedLayer {
            name: String::new(),
        }
        .to_string(),
        SkipReason::NonFiniteGradient {
            layer: String::new(),
        }
        .to_string(),
    ];
    for message in messages {
        assert!(
            message.contains("`(model)`") && !message.contains("``"),
            "{message}"
        );
    }
}
