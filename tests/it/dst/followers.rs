//! What has one element per connection besides values and moments: averages of weights, factors of
//! learning rates, registered lists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use burn::module::Module;
use burn::optim::{AdamWConfig, SgdConfig};
use burn::tensor::{Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::dst::{
    LayerChange, PerSlot, SharedDst, density_factor, row_factors, scale_learning_rate, sparse_opt,
};
use snack_burn::prelude::*;

use super::presets::{Chain, train};
use crate::support::{assert_within, flex, floats};

/// The coordinate that each slot of each layer had at the beginning; `None` for newcomers.
struct Origins(BTreeMap<String, Vec<Option<u64>>>);

impl PerSlot for Origins {
    fn remap(&mut self, change: &LayerChange) {
        let list = self.0.get_mut(&change.name).expect("a known layer");
        assert_eq!(list.len(), change.before.nnz());
        *list = change.remap.apply_list(list, None);
        assert_eq!(list.len(), change.after.nnz());
    }
}

#[test]
fn registered_lists_follow_their_connections() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut net = Chain::new(&device);
    let origins = (0..3).map(|index| {
        let flats = net.layers[index].pattern().flats().map(Some).collect();
        (format!("layers.{index}"), flats)
    });
    let origins = Arc::new(Mutex::new(Origins(origins.collect())));
    let mut dst = DstConfig::set().with_every(1).init(&net).unwrap();
    dst.register(origins.clone());
    let mut optim = SgdConfig::new().init();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..5 {
        (_, net, _) = train(net, &mut optim, &mut dst, &mut rng);
    }
    for (name, list) in &origins.lock().unwrap().0 {
        let index: usize = name.rsplit('.').next().unwrap().parse().unwrap();
        let flats = net.layers[index].pattern().flats();
        let mut survivors = 0;
        for (flat, origin) in flats.zip(list) {
            assert!(origin.is_none_or(|origin| origin == flat));
            survivors += usize::from(origin.is_some());
        }
        assert!(survivors > 0 && survivors < list.len(), "{survivors}");
    }
}

/// An average of the model is another module of the same layers.
#[test]
fn averages_of_the_model_follow() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut net = Chain::new(&device);
    let mut average = net.clone();
    let mut dst = DstConfig::set_original().with_every(2).init(&net).unwrap();
    let mut optim = AdamWConfig::new().init();
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for _ in 0..6 {
        let before: Vec<BTreeMap<u64, f64>> = average
            .layers
            .iter()
            .map(|l| l.pattern().flats().zip(floats(&l.values.val())).collect())
            .collect();
        (_, net, _) = train(net, &mut optim, &mut dst, &mut rng);
        if let Some(changes) = dst.last_changes() {
            average = changes.apply_to(average);
        }
        assert_eq!(average.patterns(), net.patterns());
        for (layer, before) in average.layers.iter().zip(&before) {
            let values = layer.pattern().flats().zip(floats(&layer.values.val()));
            for (flat, value) in values {
                assert_eq!(value, before.get(&flat).copied().unwrap_or(0.0));
            }
        }
    }
    let other = Chain::new(&device);
    let changes = dst.last_changes().unwrap().clone();
    let attempt = std::panic::AssertUnwindSafe(move || changes.apply_to(other));
    let attempt = std::panic::catch_unwind(attempt);
    let text = crate::support::panic_text(attempt.err().unwrap());
    assert!(
        text.contains("layer `layers.0` has other coordinates"),
        "{text}"
    );
}

/// One step of plain SGD with the gradient 1 moves a weight by the rate times its factor.
#[test]
fn factors_of_the_learning_rate_follow_the_fan_in() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let layer = |nnz| {
        SparseLinearConfig::new(6, 5)
            .with_nnz(Some(nnz))
            .with_seed(Some(8))
            .init(&device)
    };
    let sgd = SgdConfig::new();
    let moved = |net: SparseLinear, optim: &mut burn::optim::ModuleOptimizer| {
        let before = net.values.val();
        let mut grads = burn::optim::GradientsParams::new();
        let ones = Tensor::<1>::ones([net.nnz()], &device.clone().inner());
        grads.register(net.values.id, ones);
        let net = optim.step(0.25, net, grads);
        (floats(&(before - net.values.val())), net)
    };

    let net = layer(13);
    let (mut optim, scaling) = sparse_opt(sgd.init(), sgd.build(), None, &net);
    let mut dst = DstConfig::set().with_every(1).init(&net).unwrap();
    dst.register(scaling);
    let expected = |net: &SparseLinear| -> Vec<f64> {
        let factors = row_factors(net.pattern());
        let slots = net.pattern().iter();
        slots
            .map(|(row, _)| 0.25 * f64::from(factors[row]))
            .collect()
    };
    let (found, net) = moved(net, &mut optim);
    assert_within("before", &found, &expected(&net), 1e-6);
    let fan_in = net.pattern().fan_in();
    let net = dst.step_mut(net, &mut optim);
    assert_ne!(
        net.pattern().fan_in(),
        fan_in,
        "rows have other numbers of inputs now"
    );
    let (found, net) = moved(net, &mut optim);
    assert_within("after", &found, &expected(&net), 1e-6);

    let net = layer(13);
    let (mut optim, scaling) = scale_learning_rate(sgd.init(), sgd.build(), None, &net);
    let config = DstConfig::dadp().with_every(1).with_drop_fraction(0.5);
    let config = config.with_prune(snack_burn::dst::PruneConfig::Magnitude);
    let mut dst = config.init(&net).unwrap();
    dst.register(scaling);
    let (found, net) = moved(net, &mut optim);
    assert_within("dense", &found, &[0.25 * 30.0 / 13.0; 13], 1e-6);
    let net = dst.step_mut(net, &mut optim);
    assert_eq!(net.nnz(), 6, "seven of thirteen have left");
    assert_eq!(density_factor(net.pattern()), 5.0);
    let (found, _) = moved(net, &mut optim);
    assert_within("sparser", &found, &[0.25 * 5.0; 6], 1e-6);
}

/// With the same number of inputs everywhere SparseOpt is the optimizer itself, bit for bit.
#[test]
fn equal_fan_ins_change_nothing() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let net = Chain::new(&device);
    let config = AdamWConfig::new();
    let (mut scaled, _) = sparse_opt(config.init(), config.build(), None, &net);
    let mut plain = config.init();
    let mut nets = [net.clone(), net];
    for (net, optim) in nets.iter_mut().zip([&mut scaled, &mut plain]) {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut dst = DstConfig::static_pattern().init(net).unwrap();
        for _ in 0..3 {
            (_, *net, _) = train(net.clone(), optim, &mut dst, &mut rng);
        }
    }
    let [a, b] = nets.map(|net| crate::support::records::contents(net.into_record()));
    assert!(a == b);
}

/// Slots that are younger than the grace period stay, however small their values.
#[test]
fn young_connections_are_spared() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut layer = SparseLinearConfig::new(10, 10)
        .with_nnz(Some(20))
        .with_seed(Some(1))
        .init(&device);
    let mut optim = SgdConfig::new().init();
    let config = DstConfig::set().with_every(1).with_drop_fraction(0.25);
    let mut dst = config.with_grace(3).init(&layer).unwrap();
    let mut born: BTreeMap<u64, u64> = layer.pattern().flats().map(|flat| (flat, 0)).collect();
    for step in 1..=12u64 {
        // No training: newcomers are at 0, the smallest of all.
        layer = dst.step_mut(layer, &mut optim);
        let flats: Vec<u64> = layer.pattern().flats().collect();
        for (flat, birth) in &born {
            if !flats.contains(flat) {
                assert!(
                    *birth == 0 || step - birth >= 3,
                    "step {step}: born at {birth}"
                );
            }
        }
        born = flats
            .into_iter()
            .map(|flat| (flat, born.get(&flat).copied().unwrap_or(step)))
            .collect();
    }
    // Without grace the newcomers of a step are those that leave at the next.
    assert!(born.values().filter(|birth| **birth > 0).count() > 10);
}

/// The same updater through a handle, and an optimizer that was never stepped.
#[test]
fn a_handle_is_the_same_updater() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let net = Chain::new(&device);
    let config = DstConfig::set().with_every(2);
    let mut plain = config.init(&net).unwrap();
    let shared = SharedDst::from(config.init(&net).unwrap());
    let handle = shared.clone();
    let (mut a, mut b) = (net.clone(), net);
    let mut optims = [AdamWConfig::new().init(), AdamWConfig::new().init()];
    for step in 1..=4 {
        a = plain.step_mut(a, &mut optims[0]);
        b = handle.step(b, &mut optims[1]);
        assert_eq!(a.patterns(), b.patterns());
        assert_eq!((shared.steps(), shared.skipped()), (step, 0));
        assert_eq!(shared.state(), plain.state());
        assert_eq!(shared.last_update(), plain.last_update().cloned());
    }
    assert_eq!(shared.lock().steps(), 4);
    assert_eq!(shared.rewired(), plain.rewired());
    assert_ne!(shared.state(), DstState::at_step(4));
    assert!(optims.iter().all(|optim| optim.to_record().is_empty()));
}

/// What has ever been active, with uniform growth and with growth where nothing has been.
#[test]
fn exploration_is_counted() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let explored = |grow| {
        let mut layer = SparseLinearConfig::new(20, 20)
            .with_nnz(Some(40))
            .with_seed(Some(2))
            .init(&device);
        let config = DstConfig::set().with_every(1).with_grow(grow);
        let mut dst = config.init(&layer).unwrap();
        dst.track_history(&layer);
        for _ in 0..30 {
            layer = dst.step_mut(layer, &mut SgdConfig::new().init());
        }
        dst.history("").unwrap().explored()
    };
    use snack_burn::dst::{GrowConfig, expected_exploration};
    let uniform = explored(GrowConfig::Uniform);
    let expected = expected_exploration(400, 40, 12, 30);
    assert!(
        (uniform - expected).abs() < 0.06,
        "{uniform}, expected {expected}"
    );
    assert_eq!(
        explored(GrowConfig::Unfired),
        1.0,
        "40 + 30 * 12 coordinates"
    );
}

/// The state of half-precision values, and fresh numbers in their type.
#[test]
fn half_precision_values_move_too() {
    use burn::tensor::DType;
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut layer = SparseLinearConfig::new(8, 8)
        .with_nnz(Some(16))
        .with_seed(Some(2))
        .init(&device);
    let data = layer.values.val().into_data().convert_dtype(DType::F16);
    layer.values = layer
        .values
        .map(|old| Tensor::from_data(data.clone(), (&old.device(), DType::F16)).require_grad());
    let before: BTreeMap<u64, f64> = layer
        .pattern()
        .flats()
        .zip(TensorData::iter::<f64>(&data))
        .collect();
    let mut dst = DstConfig::set_original()
        .with_every(1)
        .init(&layer)
        .unwrap();
    let layer = dst.step_mut(layer, &mut SgdConfig::new().init());
    let values = layer.values.val();
    assert_eq!(values.dtype(), DType::F16);
    let mut fresh = 0;
    for (flat, value) in layer.pattern().flats().zip(floats(&values)) {
        match before.get(&flat) {
            Some(kept) => assert_eq!(value, *kept),
            None => fresh += usize::from(value != 0.0),
        }
    }
    assert_eq!(fresh, 5);
}
