//! Results that differ from run to run because the order of additions does: the automatic routine
//! gives the same bits every time.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use crate::support::layers::{Loss, leaf};
use crate::support::{Case, backends, flex, floats, routines, tensor2, uniform};

const RUNS: usize = 50;

#[test]
fn fifty_identical_passes() {
    let mut rng = ChaCha8Rng::seed_from_u64(31);
    let (batch, d_input, d_output) = (64, 300, 200);
    let (x, c) = (
        uniform(batch * d_input, &mut rng),
        uniform(batch * d_output, &mut rng),
    );
    for backend in backends() {
        let device = backend.autodiff();
        let layer = SparseLinearConfig::new(d_input, d_output)
            .with_sparsity(0.9)
            .with_seed(Some(5))
            .init(&device);
        let pass = || {
            let input = leaf(&x, [batch, d_input], &device);
            let y = layer.forward(input.clone());
            let output = y.clone().into_data();
            let grads = Loss::Weighted.of(y, &c).backward();
            [
                output,
                input.grad(&grads).unwrap().into_data(),
                layer.values.grad(&grads).unwrap().into_data(),
                layer
                    .bias
                    .as_ref()
                    .and_then(|bias| bias.grad(&grads))
                    .unwrap()
                    .into_data(),
            ]
        };
        let first = pass();
        for run in 1..RUNS {
            for (what, (first, again)) in [
                "output",
                "input gradient",
                "value gradient",
                "bias gradient",
            ]
            .iter()
            .zip(first.iter().zip(pass()))
            {
                assert!(
                    first.as_bytes() == again.as_bytes(),
                    "{what} of run {run} differs from the first on {}",
                    backend.name
                );
            }
        }
    }
}

/// Every routine but the one that says otherwise, with rows that are shared by many planes.
#[test]
fn every_routine_repeats_its_bits() {
    let mut rng = ChaCha8Rng::seed_from_u64(33);
    let (m, k) = (150, 260);
    let dense_row = (0..k).map(|col| (70, col));
    let scattered = (0..m * k).step_by(7).map(|flat| (flat / k, flat % k));
    let case = Case::new("a dense row", [m, k], dense_row.chain(scattered), &mut rng);
    for backend in backends() {
        let device = &backend.device;
        for batch in [1, 3, 20] {
            let x = tensor2(&uniform(batch * k, &mut rng), [batch, k], device);
            let y = tensor2(&uniform(batch * m, &mut rng), [batch, m], device);
            let skipped = |routine: &str| matches!(routine, "coo_atomic" | "composed" | "panel");
            let repeats = |text: String, run: &dyn Fn() -> Vec<f64>| {
                let first = run();
                for _ in 0..3 {
                    assert_eq!(run(), first, "{text} at batch {batch} on {}", backend.name);
                }
            };
            let matrix = |routines| case.sparse(device).with_routines(routines);
            for routines in routines::spmm(&backend) {
                if !skipped(routines.spmm.name()) {
                    let run = || floats(&matrix(routines).spmm(x.clone()));
                    repeats(format!("{} forward", routines.spmm), &run);
                }
            }
            for routines in routines::spmm_transposed(&backend) {
                if !skipped(routines.spmm.name()) {
                    let run = || floats(&matrix(routines).spmm_transposed(y.clone()));
                    repeats(format!("{} transposed", routines.spmm), &run);
                }
            }
            for routines in routines::sddmm(&backend) {
                if !skipped(routines.sddmm.name()) {
                    let run = || floats(matrix(routines).sddmm(y.clone(), x.clone()).values());
                    repeats(format!("{} sampled", routines.sddmm), &run);
                }
            }
        }
    }
}

/// The host kernels share rows or samples among threads; how many there are decides nothing.
#[test]
fn the_number_of_threads_changes_no_bit() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut rng = ChaCha8Rng::seed_from_u64(67);
    // Large enough to be shared at any batch.
    let (d_input, d_output) = (1200, 1100);
    let layer = SparseLinearConfig::new(d_input, d_output)
        .with_sparsity(0.8)
        .with_seed(Some(5))
        .init(&device);
    for batch in [1, 7, 32, 48, 100] {
        let (x, c) = (
            uniform(batch * d_input, &mut rng),
            uniform(batch * d_output, &mut rng),
        );
        let pass = || {
            let input = leaf(&x, [batch, d_input], &device);
            let y = layer.forward(input.clone());
            let output = y.clone().into_data();
            let grads = Loss::Weighted.of(y, &c).backward();
            let input = input.grad(&grads).unwrap().into_data();
            [
                output,
                input,
                layer.values.grad(&grads).unwrap().into_data(),
            ]
        };
        let with_threads = |threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(pass)
        };
        let expected = with_threads(1);
        for threads in [2, 5, 64] {
            for (what, (found, expected)) in ["output", "input gradient", "value gradient"]
                .iter()
                .zip(with_threads(threads).iter().zip(&expected))
            {
                let same = found.as_bytes() == expected.as_bytes();
                assert!(
                    same,
                    "{what} of batch {batch} on {threads} threads and on one differ"
                );
            }
        }
    }
}

/// One seed, one layer: coordinates, values and bias.
#[test]
fn the_seed_decides_the_layer() {
    for backend in backends() {
        let config = SparseLinearConfig::new(40, 30).with_sparsity(0.8);
        let init = |seed| config.clone().with_seed(Some(seed)).init(&backend.device);
        let (first, again, other) = (init(1), init(1), init(2));
        assert_eq!(first.pattern(), again.pattern());
        assert_eq!(
            first.values.val().into_data(),
            again.values.val().into_data()
        );
        let bias = |layer: &SparseLinear| layer.bias.as_ref().unwrap().val().into_data();
        assert_eq!(bias(&first), bias(&again));
        assert_ne!(first.pattern(), other.pattern());
    }
}

/// Without a seed of its own a layer draws from the device, whose seed makes models repeatable.
/// The stream belongs to the process: no other test of this binary may draw from it.
#[test]
fn the_device_seed_decides_unseeded_layers() {
    let Some(backend) = flex() else { return };
    let config = SparseLinearConfig::new(40, 30).with_sparsity(0.8);
    let model = |seed| {
        backend.device.seed(seed);
        [config.init(&backend.device), config.init(&backend.device)]
    };
    let ([first, second], [again, _], [other, _]) = (model(1), model(1), model(2));
    assert_eq!(first.pattern(), again.pattern());
    assert_eq!(
        first.values.val().into_data(),
        again.values.val().into_data()
    );
    assert_ne!(first.pattern(), second.pattern(), "two layers of one model");
    assert_ne!(first.pattern(), other.pattern(), "two models");
}
