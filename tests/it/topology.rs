//! Topology updates: connections that are lost or doubled, values and optimizer moments that end
//! up at other coordinates than theirs, and updates where none should be.

use std::collections::{BTreeMap, BTreeSet};

use burn::grad_clipping::GradientClippingConfig;
use burn::module::{Module, list_param_ids};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{
    AdaGradConfig, AdamConfig, AdamWConfig, GradientsParams, ModuleOptimizer, RmsPropConfig,
    SgdConfig,
};
use burn::tensor::{Device, Tensor, TensorData};
use burn_pack::Reader;
use snack_burn::nn::sparse_layers;
use snack_burn::prelude::*;

use crate::records::Net;
use crate::support::records::contents;
use crate::support::{Backend, assert_within, backends, flex, floats, tensor2};

const WIDTH: usize = 24;
const COUNTS: [usize; 3] = [100, 200, 50];

/// Every optimizer that keeps something per connection, and plain SGD, which does not.
fn optimizers() -> Vec<(&'static str, ModuleOptimizer)> {
    let momentum = SgdConfig::new().with_momentum(Some(MomentumConfig::new()));
    vec![
        ("SGD", SgdConfig::new().init()),
        ("SGD with momentum", momentum.init()),
        ("Adam", AdamConfig::new().init()),
        ("AMSGrad", AdamConfig::new().with_amsgrad(true).init()),
        ("AdamW", AdamWConfig::new().with_weight_decay(0.1).init()),
        (
            "RMSProp",
            RmsPropConfig::new()
                .with_momentum(0.9)
                .with_centered(true)
                .init(),
        ),
        ("AdaGrad", AdaGradConfig::new().init()),
        (
            "AdamW with clipping",
            AdamWConfig::new()
                .with_grad_clipping(Some(GradientClippingConfig::Norm(0.1)))
                .init(),
        ),
    ]
}

fn batch(step: u64, device: &Device) -> Tensor<2> {
    let numbers: Vec<f32> = (0..8 * WIDTH as u64)
        .map(|i| ((i + 977 * step) as f32 * 0.61).sin())
        .collect();
    tensor2(&numbers, [8, WIDTH], device)
}

fn train(net: Net, mut optim: ModuleOptimizer, step: u64) -> (Net, ModuleOptimizer, f64) {
    let device = net.first.values.device();
    let loss = (net.forward(batch(step, &device)) - 0.25)
        .powi_scalar(2)
        .mean();
    let grads = GradientsParams::from_grads(loss.backward(), &net);
    let net = optim.step(0.05, net, grads);
    (net, optim, floats(&loss)[0])
}

type Coordinate = (usize, usize);
/// Bits by coordinate.
type Placed = BTreeMap<Coordinate, u64>;

/// Everything that a layer keeps per connection: its values under "values", and the optimizer's
/// tensors of that length by the name that the optimizer gives them.
fn placed(net: &Net, optim: &ModuleOptimizer) -> Vec<BTreeMap<String, Placed>> {
    let mut layers = Vec::new();
    for layer in sparse_layers(net) {
        let place = |data: TensorData| -> Placed {
            assert_eq!(
                data.shape().as_slice(),
                [layer.pattern.nnz()],
                "one number per slot"
            );
            layer
                .pattern
                .iter()
                .zip(data.iter::<f64>().map(f64::to_bits))
                .collect()
        };
        let mut tensors = BTreeMap::from([("values".to_string(), place(layer.values.to_data()))]);
        let reader = Reader::from_bytes(optim.to_record().into_bytes().unwrap()).unwrap();
        for tensor in reader.into_tensors().unwrap() {
            if tensor.param_id == Some(layer.values_id.val()) {
                let (name, dtype, shape, _, bytes) = tensor.into_parts().unwrap();
                tensors.insert(name, place(TensorData::from_bytes(bytes, shape, dtype)));
            }
        }
        layers.push(tensors);
    }
    layers
}

fn patterns(net: &Net) -> Vec<Pattern> {
    sparse_layers(net)
        .into_iter()
        .map(|layer| layer.pattern)
        .collect()
}

/// Pattern invariants that do not trust the pattern: exact count, strictly increasing, in range.
fn assert_valid(text: &str, pattern: &Pattern, nnz: usize) {
    let coordinates: Vec<_> = pattern.iter().collect();
    assert_eq!(coordinates.len(), nnz, "{text}: number of non-zeros");
    assert!(
        coordinates.is_sorted_by(|a, b| a < b),
        "{text}: sorted, none twice"
    );
    let [rows, cols] = pattern.shape();
    assert!(
        coordinates
            .iter()
            .all(|&(row, col)| row < rows && col < cols),
        "{text}: in range"
    );
    assert_eq!(pattern.cols().len(), nnz);
    assert_eq!(
        pattern.row_offsets().last(),
        Some(&nnz),
        "{text}: last offset"
    );
}

/// What one update may change: `replaced` connections of the smallest magnitude leave, as many
/// that were not there enter with zeros, everything else keeps its bits at its coordinate.
fn assert_update(
    text: &str,
    before: &BTreeMap<String, Placed>,
    after: &BTreeMap<String, Placed>,
    replaced: usize,
) {
    assert!(
        before.keys().eq(after.keys()),
        "{text}: the optimizer's tensors"
    );
    let (old, new) = (&before["values"], &after["values"]);
    let coordinates = |placed: &Placed| placed.keys().copied().collect::<BTreeSet<_>>();
    let (old_at, new_at) = (coordinates(old), coordinates(new));
    let dropped: Vec<_> = old_at.difference(&new_at).collect();
    let grown: Vec<_> = new_at.difference(&old_at).collect();
    // A connection that was just dropped and grown again would be in neither list.
    assert_eq!(
        (dropped.len(), grown.len()),
        (replaced, replaced),
        "{text}: dropped and grown"
    );

    let magnitude = |at: &Coordinate| f64::from_bits(old[at]).abs();
    let largest_dropped = dropped.iter().map(|at| magnitude(at)).fold(0.0, f64::max);
    let kept = old_at.intersection(&new_at);
    let smallest_kept = kept.map(magnitude).fold(f64::INFINITY, f64::min);
    assert!(
        largest_dropped <= smallest_kept,
        "{text}: the smallest magnitudes leave"
    );

    for (name, old) in before {
        for (at, bits) in &after[name] {
            let expected = old.get(at).copied().unwrap_or(0);
            assert_eq!(*bits, expected, "{text}: `{name}` at {at:?}");
        }
    }
}

fn set<M: Module>(every: u64, fraction: f64, model: &M) -> Dst {
    DstConfig::set()
        .with_every(every)
        .with_drop_fraction(fraction)
        .with_seed(7)
        .init(model)
        .unwrap()
}

/// Fifty updates between optimizer steps, each checked by coordinate.
fn fifty_updates(backend: &Backend, name: &str, mut optim: ModuleOptimizer) {
    let mut net = Net::new(COUNTS, 1, &backend.autodiff());
    let ids = list_param_ids(&net);
    let mut dst = set(2, 0.3, &net);
    for step in 1..=100 {
        (net, optim, _) = train(net, optim, step);
        let before = placed(&net, &optim);
        (net, optim) = dst.step(net, optim);
        let after = placed(&net, &optim);
        let update = dst.last_update();
        assert_eq!(update.is_some(), step % 2 == 0);
        for (index, (before, after)) in before.iter().zip(&after).enumerate() {
            let text = format!("{name}, layer {index}, step {step} on {}", backend.name);
            let nnz = COUNTS[index];
            let replaced = match update {
                Some(_) => (0.3 * nnz as f64).round() as usize,
                None => 0,
            };
            assert_update(&text, before, after, replaced);
            assert_valid(&text, &patterns(&net)[index], nnz);
            if let Some(update) = update {
                let layer = &update.layers[index];
                assert_eq!(
                    (layer.nnz, layer.dropped, layer.grown),
                    (nnz, replaced, replaced)
                );
            }
        }
        assert_eq!(list_param_ids(&net), ids, "{name}: parameter ids");
    }
}

#[test]
fn values_and_moments_follow_their_coordinates() {
    for backend in backends() {
        for (name, optim) in optimizers() {
            // Elsewhere than on the host one optimizer of each kind: the update is the same code.
            if !backend.is_cube() || ["SGD with momentum", "AdamW"].contains(&name) {
                fifty_updates(&backend, name, optim);
            }
        }
    }
}

/// The record of the optimizer does not grow, since no state is left behind.
#[test]
fn the_optimizer_record_keeps_its_size() {
    let Some(backend) = flex() else { return };
    for (name, mut optim) in optimizers() {
        let mut net = Net::new(COUNTS, 1, &backend.autodiff());
        let mut dst = set(1, 0.3, &net);
        (net, optim, _) = train(net, optim, 0);
        let size = |optim: &ModuleOptimizer| {
            let reader = Reader::from_bytes(optim.to_record().into_bytes().unwrap()).unwrap();
            let scalars = reader.scalars().len();
            let tensors = reader.into_tensors().unwrap();
            (
                scalars,
                tensors.len(),
                tensors
                    .iter()
                    .map(|tensor| tensor.byte_len())
                    .sum::<usize>(),
            )
        };
        let expected = size(&optim);
        for step in 1..=100 {
            (net, optim) = dst.step(net, optim);
            (net, optim, _) = train(net, optim, step);
            assert_eq!(size(&optim), expected, "{name} after {step} updates");
        }
    }
}

/// Step counters belong to the optimizer, not to a connection: they go on.
#[test]
fn the_step_counter_goes_on() {
    let Some(backend) = flex() else { return };
    let mut net = Net::new(COUNTS, 1, &backend.autodiff());
    let mut optim = AdamConfig::new().init();
    let mut dst = set(1, 0.5, &net);
    for step in 1..=3 {
        (net, optim, _) = train(net, optim, step);
        (net, optim) = dst.step(net, optim);
        let reader = Reader::from_bytes(optim.to_record().into_bytes().unwrap()).unwrap();
        let times: Vec<_> = reader
            .scalars()
            .iter()
            .filter(|(name, _)| name.ends_with("time"))
            .map(|(_, &time)| u64::try_from(time).unwrap())
            .collect();
        assert!(
            !times.is_empty() && times.iter().all(|&time| time == step),
            "{times:?}"
        );
    }
}

/// Fraction 0, a fraction that rounds to 0, full and empty layers, steps after the last.
#[test]
fn updates_that_change_nothing() {
    for backend in backends() {
        let device = backend.autodiff();
        let over = |net: &Net| {
            let config = DstConfig::set().with_every(1).with_stop(Some(2));
            config.init_from(net, DstState::at_step(2)).unwrap()
        };
        type Case = (&'static str, [usize; 3], fn(&Net) -> Dst);
        let cases: [Case; 4] = [
            ("fraction 0", COUNTS, |net| set(1, 0.0, net)),
            ("a fraction that rounds to 0", COUNTS, |net| {
                set(1, 0.002, net)
            }),
            ("full, empty and single", [576, 0, 1], |net| {
                set(1, 0.5, net)
            }),
            ("after the last step", COUNTS, over),
        ];
        for (name, counts, dst) in cases {
            let net = Net::new(counts, 1, &device);
            let mut dst = dst(&net);
            let (mut net, mut optim, _) = train(net, AdamConfig::new().init(), 0);
            let before = (contents(net.clone().into_record()), placed(&net, &optim));
            (net, optim) = dst.step(net, optim);
            let text = format!("{name} on {}", backend.name);
            assert!(contents(net.clone().into_record()) == before.0, "{text}");
            assert!(placed(&net, &optim) == before.1, "{text}");
            if let Some(update) = dst.last_update() {
                assert!(
                    update
                        .layers
                        .iter()
                        .all(|layer| layer.dropped + layer.grown == 0)
                );
            }
            let (net, ..) = train(net, optim, 1);
            assert_eq!(net.first.nnz(), counts[0], "{text}");
        }
    }
}

/// A layer that is almost full can only grow into what is free.
#[test]
fn no_more_is_dropped_than_can_grow() {
    let Some(backend) = flex() else { return };
    let net = Net::new([573, 570, 2], 1, &backend.autodiff());
    let optim = SgdConfig::new().init();
    let mut dst = set(1, 0.999, &net);
    let (net, _) = dst.step(net, optim);
    let replaced: Vec<_> = dst
        .last_update()
        .unwrap()
        .layers
        .iter()
        .map(|layer| layer.dropped)
        .collect();
    assert_eq!(replaced, [3, 6, 1]);
    for (pattern, nnz) in patterns(&net).iter().zip([573, 570, 2]) {
        assert_valid("almost full", pattern, nnz);
    }
}

/// If what leaves was zero, and what enters is, the function is the same.
#[test]
fn replacing_zeros_keeps_the_output() {
    for backend in backends() {
        let device = backend.autodiff();
        let mut layer = SparseLinearConfig::new(WIDTH, WIDTH)
            .with_nnz(Some(100))
            .with_seed(Some(3))
            .init(&device);
        let numbers: Vec<f32> = (0..100)
            .map(|slot| ((slot % 10) as f32 - 3.0).max(0.0))
            .collect();
        layer.values = layer.values.map(|old| {
            Tensor::from_data(TensorData::new(numbers, [100]), &old.device()).require_grad()
        });
        let x = batch(0, &device).mul_scalar(8.0).round();
        let before = floats(&layer.forward(x.clone()));
        let pattern = layer.pattern().clone();
        let (layer, _) = set(1, 0.4, &layer).step(layer, SgdConfig::new().init());
        assert_eq!(layer.pattern().overlap(&pattern), Ok(60));
        assert_within(backend.name, &floats(&layer.forward(x)), &before, 1e-6);
    }
}

/// A new connection has to learn: it gets a gradient like any other.
#[test]
fn newcomers_learn() {
    for backend in backends() {
        let net = Net::new(COUNTS, 1, &backend.autodiff());
        let (net, optim, _) = train(net, AdamConfig::new().init(), 0);
        let old = patterns(&net)[0].clone();
        let (net, optim) = set(1, 0.3, &net).step(net, optim);
        let new = patterns(&net)[0].clone();
        let (net, ..) = train(net, optim, 1);
        let values = floats(&net.first.values.val());
        let moved = new
            .iter()
            .zip(values)
            .filter(|&((row, col), _)| !old.contains(row, col));
        let moved: Vec<_> = moved.map(|(_, value)| value).collect();
        assert_eq!(moved.len(), 30);
        assert!(
            moved.iter().filter(|&&value| value != 0.0).count() > 20,
            "{moved:?}"
        );
    }
}

#[test]
fn one_seed_gives_one_sequence_of_patterns() {
    let Some(backend) = flex() else { return };
    let run = |seed| {
        let mut net = Net::new(COUNTS, 1, &backend.autodiff());
        let mut optim = AdamConfig::new().init();
        let config = DstConfig::set().with_every(3).with_seed(seed);
        let mut dst = config.init(&net).unwrap();
        (1..=12)
            .map(|step| {
                (net, optim, _) = train(net.clone(), optim.clone(), step);
                (net, optim) = dst.step(net.clone(), optim.clone());
                patterns(&net)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
