//! Every preset under many updates: connections that are lost or doubled, counts that drift, and
//! values or moments that end up at other coordinates.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use burn_pack::Reader;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snack_burn::dst::{LocalClockAdamConfig, OnDevice, Scope, StatePolicy};
use snack_burn::nn::sparse_layers;
use snack_burn::prelude::*;

use crate::support::{flex, tensor2};

const WIDTH: usize = 12;
const COUNTS: [usize; 3] = [36, 48, 24];

#[derive(Module, Debug)]
pub struct Chain {
    pub layers: Vec<SparseLinear>,
}

impl Chain {
    pub fn new(device: &Device) -> Self {
        let layer = |(index, &nnz): (usize, &usize)| {
            SparseLinearConfig::new(WIDTH, WIDTH)
                .with_nnz(Some(nnz))
                .with_profile(snack_burn::dst::Profile::Constant)
                .with_seed(Some(index as u64))
                .init(device)
        };
        Self {
            layers: COUNTS.iter().enumerate().map(layer).collect(),
        }
    }

    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let (last, others) = self.layers.split_last().expect("layers");
        last.forward(others.iter().fold(x, |x, layer| relu(layer.forward(x))))
    }

    pub fn patterns(&self) -> Vec<Pattern> {
        self.layers.iter().map(|l| l.pattern().clone()).collect()
    }
}

/// A training step on random data, then the updater.
pub fn train(
    net: Chain,
    optim: &mut ModuleOptimizer,
    dst: &mut Dst,
    rng: &mut ChaCha8Rng,
) -> (Chain, Chain, ModuleOptimizer) {
    let device = net.layers[0].values.device();
    let x: Vec<f32> = (0..4 * WIDTH).map(|_| rng.random::<f32>() - 0.5).collect();
    let y = net.forward(tensor2(&x, [4, WIDTH], &device));
    let loss = (y - 0.5).powi_scalar(2).mean();
    let grads = GradientsParams::from_grads(loss.backward(), &net);
    let before = optim.step(0.01, net, grads);
    let optim_before = optim.clone();
    let after = dst.step_mut(before.clone(), optim);
    (before, after, optim_before)
}

type Placed = BTreeMap<(String, usize, usize), u64>;

/// Values and optimizer tensors by coordinate, of one layer.
fn placed(net: &Chain, optim: &ModuleOptimizer) -> Vec<Placed> {
    let reader = Reader::from_bytes(optim.to_record().into_bytes().unwrap()).unwrap();
    let tensors: Vec<_> = reader
        .into_tensors()
        .unwrap()
        .into_iter()
        .map(|tensor| tensor.into_parts().unwrap())
        .collect();
    let layers = sparse_layers(net).into_iter();
    layers
        .map(|layer| {
            let mut placed = Placed::new();
            let mut place = |name: &str, data: TensorData| {
                assert_eq!(data.shape().as_slice(), [layer.pattern.nnz()], "{name}");
                for ((row, col), number) in layer.pattern.iter().zip(data.iter::<f64>()) {
                    placed.insert((name.to_string(), row, col), number.to_bits());
                }
            };
            place("values", layer.values.to_data());
            for (name, dtype, shape, id, bytes) in &tensors {
                if *id == Some(layer.values_id.val()) {
                    let data = TensorData::from_bytes(bytes.clone(), shape.clone(), *dtype);
                    place(name, data);
                }
            }
            placed
        })
        .collect()
}

fn assert_valid(text: &str, pattern: &Pattern) {
    let coordinates: Vec<_> = pattern.iter().collect();
    assert_eq!(coordinates.len(), pattern.nnz(), "{text}");
    assert!(
        coordinates.is_sorted_by(|a, b| a < b),
        "{text}: sorted, none twice"
    );
    assert!(
        coordinates
            .iter()
            .all(|&(row, col)| row < WIDTH && col < WIDTH)
    );
    assert_eq!(pattern.row_offsets().last(), Some(&pattern.nnz()));
}

/// What must hold of the numbers of connections.
fn assert_counts(text: &str, preset: Preset, before: &[Pattern], after: &[Pattern]) {
    let counts = |patterns: &[Pattern]| patterns.iter().map(Pattern::nnz).collect::<Vec<_>>();
    let (old, new) = (counts(before), counts(after));
    match preset {
        Preset::Gse | Preset::Snfs => {
            assert_eq!(
                new.iter().sum::<usize>(),
                COUNTS.iter().sum::<usize>(),
                "{text}"
            );
            assert!(new.iter().all(|&nnz| nnz >= 1), "{text}");
        }
        Preset::Dadp => {
            assert!(
                new.iter()
                    .zip(&old)
                    .all(|(new, old)| new <= old && *new >= 1)
            );
        }
        _ => assert_eq!(new, COUNTS, "{text}"),
    }
    for (before, after) in before.iter().zip(after) {
        match preset {
            Preset::FixedFanInSet => assert_eq!(after.fan_in(), before.fan_in(), "{text}"),
            Preset::Srigl => {
                let fan_in = after.fan_in();
                let active = fan_in.iter().filter(|&&count| count > 0);
                let (low, high) = (active.clone().min(), active.max());
                assert!(high.unwrap() - low.unwrap() <= 1, "{text}: {fan_in:?}");
            }
            _ => {}
        }
    }
}

/// The rule of a preset with an update at every step, at a constant turnover.
fn at_every_step(preset: Preset) -> DstConfig {
    let mut config = preset.config(1000);
    config.schedule = None;
    config
        .with_every(1)
        .with_start(0)
        .with_stop(None)
        .with_accumulate(1)
        .with_anneal(snack_burn::dst::Anneal::Constant)
        .with_seed(11)
}

#[test]
fn a_thousand_updates_of_every_preset() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    for preset in Preset::ALL {
        let mut rng = ChaCha8Rng::seed_from_u64(preset as u64);
        let mut net = Chain::new(&device);
        // Else every update would load all states onto Burn's default device.
        let mut optim = match preset {
            Preset::Smet => OnDevice::new(LocalClockAdamConfig::new().build(), &device).init(None),
            _ => OnDevice::new(AdamWConfig::new().build(), &device).init(None),
        };
        let config = at_every_step(preset);
        let borrows = config.state == StatePolicy::Borrow;
        let zero = preset != Preset::SnackGamlp && preset != Preset::SetOriginal;
        let mut dst = config.init(&net).unwrap();
        let (mut changed, mut returned) = (0, 0);
        for number in 0..1000 {
            let (before, after, optim_before) = train(net, &mut optim, &mut dst, &mut rng);
            let text = format!("{preset} after {number} updates");
            let patterns = [before.patterns(), after.patterns()];
            patterns[1].iter().for_each(|p| assert_valid(&text, p));
            assert_counts(&text, preset, &patterns[0], &patterns[1]);
            if let Some(update) = dst.last_update() {
                let count =
                    |f: fn(&LayerUpdate) -> usize| update.layers.iter().map(f).sum::<usize>();
                changed += count(|layer| layer.dropped);
                returned += count(|layer| layer.returned);
                for (layer, pair) in update
                    .layers
                    .iter()
                    .zip(patterns[0].iter().zip(&patterns[1]))
                {
                    let kept = pair.0.overlap(pair.1).unwrap();
                    assert_eq!(layer.dropped, pair.0.nnz() - kept, "{text}");
                    assert_eq!(layer.grown, pair.1.nnz() - kept, "{text}");
                    assert_eq!(layer.nnz, pair.1.nnz(), "{text}");
                }
                assert_eq!(update.skipped, None, "{text}");
            }
            // Every twentieth, since it reads everything back.
            if number % 20 == 0 {
                let (old, new) = (placed(&before, &optim_before), placed(&after, &optim));
                for (old, new) in old.iter().zip(&new) {
                    for (at, bits) in new {
                        match old.get(at) {
                            Some(kept) => assert_eq!(bits, kept, "{text}: {at:?}"),
                            None if at.0 == "values" && !zero => {}
                            None if borrows && at.0.ends_with("moment_2") => {
                                assert!(f64::from_bits(*bits) >= 0.0, "{text}: {at:?}");
                            }
                            None => assert_eq!(*bits, 0, "{text}: {at:?}"),
                        }
                    }
                }
            }
            net = after;
        }
        match preset {
            Preset::Static => assert_eq!(changed, 0),
            _ => assert!(changed > 20, "{preset}: {changed} changed"),
        }
        match preset {
            Preset::Rigl | Preset::Psn | Preset::Srigl => assert!(returned > 0, "{preset}"),
            _ => assert_eq!(returned, 0, "{preset}"),
        }
        if preset == Preset::Dadp {
            let left: usize = net.patterns().iter().map(Pattern::nnz).sum();
            assert!(left < 20, "{left} connections left");
        }
    }
}

/// The surplus of MEST with a soft memory bound: it grows first, is renewed, shrinks, and goes.
#[test]
fn the_surplus_of_mest_comes_and_goes() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut net = Chain::new(&device);
    let mut optim = AdamWConfig::new().init();
    let mut dst = DstConfig::mest_ems(160).init(&net).unwrap();
    let mut counts = Vec::new();
    for _ in 0..160 {
        (_, net, _) = train(net, &mut optim, &mut dst, &mut rng);
        if dst.last_update().is_some() {
            counts.push(net.patterns().iter().map(Pattern::nnz).sum::<usize>());
        }
    }
    // Updates after 5, 10, ..., 85, 90 | 95, ..., 115, 120.
    let all: usize = COUNTS.iter().sum();
    let mut expected = vec![all * 3 / 2; 17];
    expected.extend([all * 5 / 4; 6]);
    expected.push(all);
    assert_eq!(counts, expected);
}

/// Layers without room for the surplus: it is as large as fits, and goes to the last connection,
/// also in runs so short that stages fall together, at intervals that do not divide the run, and
/// where the run was interrupted.
#[test]
fn a_surplus_without_room_goes_too() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let chain = || {
        let layer = |(index, nnz)| {
            SparseLinearConfig::new(WIDTH, WIDTH)
                .with_nnz(Some(nnz))
                .with_seed(Some(index))
                .init(&device)
        };
        // Of 144 coordinates: 90 %, 2/3, all, all but one, one.
        Chain {
            layers: (0..).zip([130, 96, 144, 143, 1]).map(layer).collect(),
        }
    };
    let counts = |net: &Chain| net.patterns().iter().map(Pattern::nnz).collect::<Vec<_>>();
    let cases = [
        (DstConfig::mest_ems(160), 160),
        (DstConfig::mest_ems(33), 33),
        (DstConfig::mest_ems_every(160, 7), 160),
        (DstConfig::mest_ems_every(160, 100), 160),
    ];
    let short = (0..12).map(|steps| (DstConfig::mest_ems(steps), steps));
    for (config, steps) in cases.into_iter().chain(short) {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut net = chain();
        let mut optim = AdamWConfig::new().init();
        let mut dst = config.init(&net).unwrap();
        let mut most = counts(&net);
        for step in 0..steps {
            (_, net, _) = train(net, &mut optim, &mut dst, &mut rng);
            let now = counts(&net);
            assert!(
                now.iter()
                    .zip([130, 96, 144, 143, 1])
                    .all(|(now, begun)| *now >= begun)
            );
            most = most.into_iter().zip(now).map(|(a, b)| a.max(b)).collect();
            if step == steps / 2 {
                let state = DstState::from_bytes(dst.state().to_bytes().unwrap()).unwrap();
                dst = config.init_from(&net, state).unwrap();
            }
        }
        assert_eq!(counts(&net), [130, 96, 144, 143, 1], "{config:?}");
        if steps == 160 && config.updates_within(160) > 2 {
            assert_eq!(most, [144, 144, 144, 144, 2], "{config:?}");
        }
    }
}

/// A preset for a run of any length is accepted, and can update in it.
#[test]
fn presets_update_in_short_runs() {
    let Some(backend) = flex() else { return };
    let net = Chain::new(&backend.autodiff());
    for preset in Preset::ALL {
        for steps in [0, 1, 2, 5, 10, 100, 1000, 20_000, u64::MAX] {
            let config = preset.config(steps);
            config.init(&net).unwrap();
            let updates = config.updates_within(steps);
            match preset {
                Preset::Static => assert_eq!(updates, 0),
                _ if steps >= 10 => assert!(updates >= 2, "{preset} in {steps}: {updates}"),
                _ => {}
            }
        }
    }
    // The published intervals in long runs.
    let every = |config: DstConfig| config.every;
    assert_eq!(every(DstConfig::rigl(20_000)), 100);
    assert_eq!(every(DstConfig::rigl_itop(20_000)), 4000);
    assert_eq!(every(DstConfig::set_itop(20_000)), 1500);
    assert_eq!(every(DstConfig::gse(20_000)), 1000);
    assert_eq!(every(DstConfig::gse(1000)), 120);
    // What is counted is what happens.
    for preset in Preset::ALL {
        let config = preset.config(160);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut net = Chain::new(&backend.autodiff());
        let mut optim = LocalClockAdamConfig::new().init();
        let mut dst = config.init(&net).unwrap();
        let mut updates = 0;
        for _ in 0..160 {
            (_, net, _) = train(net, &mut optim, &mut dst, &mut rng);
            updates += u64::from(dst.last_update().is_some());
        }
        assert_eq!(config.updates_within(160), updates, "{preset}");
    }
}

#[test]
fn names_are_read_back() {
    for preset in Preset::ALL {
        assert_eq!(preset.to_string().parse(), Ok(preset));
        let json = serde_json::to_string(&preset).unwrap();
        assert_eq!(json, format!("\"{preset}\""));
        assert_eq!(serde_json::from_str::<Preset>(&json).unwrap(), preset);
    }
    let error = "prune-all".parse::<Preset>().unwrap_err().to_string();
    assert!(
        error.contains("no preset `prune-all`, expected one of static, set"),
        "{error}"
    );
}

/// A configuration survives the way through a file.
#[test]
fn configurations_are_recorded() {
    use burn::config::Config;
    for preset in Preset::ALL {
        let config = preset.config(4000);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dst.json");
        config.save(&path).unwrap();
        let loaded = DstConfig::load(&path).unwrap();
        assert_eq!(format!("{loaded:?}"), format!("{config:?}"), "{preset}");
    }
    assert_eq!(Preset::Gse.config(100).scope, Scope::Network { floor: 1 });
}
