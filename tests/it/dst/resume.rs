//! A run of any preset that is interrupted and continued equals one that was not, bit for bit.

use burn::module::Module;
use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn_pack::Reader;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::dst::LocalClockAdamConfig;
use snack_burn::prelude::*;

use super::presets::{Chain, train};
use crate::support::flex;
use crate::support::records::contents;

fn optimizer(preset: Preset) -> ModuleOptimizer {
    match preset {
        Preset::Smet => LocalClockAdamConfig::adamw(0.01).init(),
        _ => AdamWConfig::new().init(),
    }
}

/// Name and bytes of every tensor of an optimizer, sorted.
fn tensors(optim: &ModuleOptimizer) -> Vec<(String, Vec<u8>)> {
    let reader = Reader::from_bytes(optim.to_record().into_bytes().unwrap()).unwrap();
    let tensors = reader.into_tensors().unwrap().into_iter();
    let mut tensors: Vec<_> = tensors
        .map(|tensor| (tensor.name.clone(), tensor.to_bytes().unwrap().to_vec()))
        .collect();
    tensors.sort();
    tensors
}

/// Updates every three steps over a run of sixty.
fn config(preset: Preset) -> DstConfig {
    let config = preset.config(60).with_seed(3).with_grace(2);
    match preset {
        // A window that the checkpoint falls into.
        Preset::Rigl => config.with_every(4).with_accumulate(3),
        Preset::Snfs => config.with_every(12),
        Preset::SetItop => config
            .with_every(3)
            .with_grow(snack_burn::dst::GrowConfig::Unfired),
        Preset::MestEm | Preset::MestEms | Preset::SnackGamlp => config,
        _ => config.with_every(3),
    }
}

#[test]
fn resuming_any_preset_equals_not_stopping() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let folder = tempfile::tempdir().unwrap();
    for preset in Preset::ALL {
        let mut net = Chain::new(&device);
        let mut optim = optimizer(preset);
        let mut dst = config(preset).init(&net).unwrap();
        let step = |net: Chain, optim: &mut ModuleOptimizer, dst: &mut Dst, number: u64| {
            let mut rng = ChaCha8Rng::seed_from_u64(number);
            train(net, optim, dst, &mut rng).1
        };
        for number in 0..23 {
            net = step(net, &mut optim, &mut dst, number);
        }
        let path = folder.path().join(format!("{preset}.checkpoint"));
        let checkpoint = Checkpoint {
            model: net.clone().into_record(),
            optimizer: optim.to_record(),
            dst: dst.state(),
            user: Default::default(),
        };
        checkpoint.save(&path).unwrap();

        let loaded = Checkpoint::load(&path).unwrap();
        assert_eq!(loaded.dst, dst.state(), "{preset}");
        let mut resumed = Chain::new(&device)
            .try_load_sparse_record(loaded.model)
            .unwrap();
        let mut resumed_optim = optimizer(preset).load_record(loaded.optimizer);
        let mut resumed_dst = config(preset).init_from(&resumed, loaded.dst).unwrap();
        let mut changed = false;
        for number in 23..60 {
            net = step(net, &mut optim, &mut dst, number);
            resumed = step(resumed, &mut resumed_optim, &mut resumed_dst, number);
            let updates = [dst.last_update(), resumed_dst.last_update()];
            assert_eq!(updates[0], updates[1], "{preset}, step {number}");
            changed |= dst.last_changes().is_some();
            assert_eq!(
                net.patterns(),
                resumed.patterns(),
                "{preset}, step {number}"
            );
        }
        let ends = [net, resumed].map(|net| contents(net.into_record()));
        assert!(ends[0] == ends[1], "{preset}");
        let states = [optim, resumed_optim].map(|optim| tensors(&optim));
        assert!(states[0] == states[1], "{preset}");
        assert_eq!(dst.state(), resumed_dst.state(), "{preset}");
        assert_eq!(changed, preset != Preset::Static, "{preset}");
    }
}

#[test]
fn older_checkpoints_are_refused() {
    use burn::tensor::{Bytes, DType};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.checkpoint");
    let tensor = |name: &str| {
        let bytes = Bytes::from_bytes_vec(vec![0]);
        burn_pack::Tensor::new(name.to_string(), DType::U8, [1], None, bytes)
    };
    burn_pack::Writer::new(vec![tensor("model"), tensor("dst")])
        .auto_extension(false)
        .with_metadata("kind", "snack-burn checkpoint")
        .with_scalar("version", burn_pack::Scalar::from(1u64))
        .write_to_file(&path)
        .unwrap();
    let error = Checkpoint::load(&path).map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("old.checkpoint` has version 1, this library reads version 3"),
        "{error}"
    );
}

/// The state of one model is no state of another.
#[test]
fn the_state_of_another_model_is_refused() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let net = Chain::new(&device);
    let config = DstConfig::set().with_grace(3);
    let state = config.init(&net).unwrap().state();
    let single = SparseLinearConfig::new(4, 4).init(&device);
    let error = config.init_from(&single, state.clone()).unwrap_err();
    assert_eq!(error.to_string(), "there is no layer `layers.0`");

    let mut other = Chain::new(&device);
    other.layers[1] = SparseLinearConfig::new(12, 12)
        .with_nnz(Some(5))
        .init(&device);
    let error = config.init_from(&other, state).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the saved state of layer `layers.1` has 48 slots, expected 5"
    );
}

/// As many connections at other coordinates, a layer more, a rule that keeps other things: a state
/// that keeps nothing for its connections is refused like any other.
#[test]
fn the_state_of_another_pattern_or_rule_is_refused() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let net = Chain::new(&device);
    let config = DstConfig::set();
    let state = config.init(&net).unwrap().state();
    let read = DstState::from_bytes(state.to_bytes().unwrap()).unwrap();
    assert_eq!(read, state);
    let refused = |config: &DstConfig, net: &Chain| {
        let result = config.init_from(net, state.clone());
        result.map(|_| ()).unwrap_err().to_string()
    };

    let mut other = Chain::new(&device);
    other.layers[1] = SparseLinearConfig::new(12, 12)
        .with_nnz(Some(48))
        .with_seed(Some(77))
        .init(&device);
    assert_eq!(
        refused(&config, &other),
        "the saved state of layer `layers.1` belongs to other coordinates than the model has; \
         load the model that was saved with it"
    );
    let mut longer = Chain::new(&device);
    longer
        .layers
        .push(SparseLinearConfig::new(12, 12).init(&device));
    assert_eq!(
        refused(&config, &longer),
        "the saved state has no layer `layers.3`, which the model has"
    );
    for (preset, uses) in [
        (Preset::Rigl, "the factors of the gradient"),
        (Preset::Dadp, "activity"),
        (Preset::DeepR, "signs"),
        (Preset::Guided, "reachability"),
    ] {
        let error = refused(&preset.config(100), &net);
        let expected = format!("is that of a rule that uses values only, this one uses {uses};");
        assert!(error.contains(&expected), "{preset}: {error}");
        // A state of no particular rule is for any.
        let begun = preset.config(100).init_from(&net, DstState::at_step(7));
        assert_eq!(begun.unwrap().steps(), 7);
    }
}
