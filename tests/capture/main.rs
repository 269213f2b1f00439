//! Captured passes and training steps that differ from the eager ones: stale buffers, state that
//! does not move on, host reads that a recording refuses.
//!
//! A binary of its own with one test, because a device that records refuses much of what other
//! tests would do beside it.

#[allow(dead_code, unused_imports)]
#[path = "../it/support/mod.rs"]
mod support;

use burn::module::Module;
use burn::tensor::{Distribution, Tensor};
use snack_burn::capture::{Captured, store};
use snack_burn::prelude::*;

use std::panic::{AssertUnwindSafe, catch_unwind};

use support::{Backend, backends, floats, panic_text};

const STEPS: usize = 8;
/// Runs of a closure before the first replay: to warm up, and to record.
const RUNS_BEFORE: usize = 4;

fn layer(backend: &Backend) -> SparseLinear {
    SparseLinearConfig::new(48, 40)
        .with_sparsity(0.8)
        .with_seed(Some(3))
        .init(&backend.device.clone().autodiff())
}

/// A training step on a state of values and bias, as a closure that owns it.
fn training_step(layer: &SparseLinear, x: Tensor<2>) -> impl FnMut() -> Tensor<1> + 'static {
    let pattern = layer.pattern.clone();
    let mut values = layer.values.val().detach().inner();
    let mut bias = layer.bias.as_ref().expect("a bias").val().detach().inner();
    let mut layer = layer.clone();
    move || {
        layer.values = burn::module::Param::from_tensor(Tensor::from_inner(values.clone()));
        layer.bias = Some(burn::module::Param::from_tensor(Tensor::from_inner(
            bias.clone(),
        )));
        let x = x.clone().require_grad();
        let loss = layer.forward(x.clone()).square().mean();
        let grads = loss.backward();
        let values_grad = layer.values.val().grad(&grads).expect("values are tracked");
        let bias_tensor = layer.bias.as_ref().expect("a bias").val();
        let bias_grad = bias_tensor.grad(&grads).expect("the bias is tracked");
        assert!(x.grad(&grads).is_some());
        drop((grads, bias_tensor));
        layer.values =
            burn::module::Param::from_tensor(Tensor::zeros([pattern.pattern().nnz()], &x.device()));
        layer.bias = None;
        let stepped = values.clone() - values_grad * 0.5;
        store(&mut values, stepped);
        let stepped = bias.clone() - bias_grad * 0.5;
        store(&mut bias, stepped);
        loss.inner()
    }
}

#[test]
fn captured_and_eager_agree() {
    a_panic_while_recording_leaves_the_device_usable();
    a_captured_forward_pass_repeats();
    a_captured_training_step_has_the_losses_of_the_eager_one();
}

fn a_panic_while_recording_leaves_the_device_usable() {
    for backend in backends() {
        let x = Tensor::<1>::ones([2], &backend.device);
        for (panics_in, reads) in [(1, false), (RUNS_BEFORE, false), (0, true)] {
            let (x, mut run) = (x.clone(), 0);
            let attempt = catch_unwind(AssertUnwindSafe(|| {
                Captured::new(&backend.device, move || {
                    run += 1;
                    assert!(run != panics_in, "run {run} panics");
                    if reads {
                        assert_eq!(floats(&x), [1.0, 1.0]);
                    }
                    x.clone() * 3.0
                })
            }));
            let text = format!(
                "panic in run {panics_in}, reads {reads}, on {}",
                backend.name
            );
            // Reading is refused where a recording is made, and harmless elsewhere.
            if !reads {
                let text = panic_text(
                    attempt
                        .err()
                        .unwrap_or_else(|| panic!("{text} is passed on")),
                );
                assert!(text.contains("panics"), "{text}");
            }
            let after = Tensor::<1>::ones([3], &backend.device) * 4.0;
            assert_eq!(floats(&after), [4.0; 3], "{text}");
        }
    }
}

fn a_captured_forward_pass_repeats() {
    for backend in backends() {
        let layer = layer(&backend).valid();
        let device = &backend.device;
        let x = Tensor::<2>::random([3, 48], Distribution::Default, device);
        let expected = floats(&layer.forward(x.clone()));
        let captured_layer = layer.clone();
        let mut pass = Captured::new(device, move || captured_layer.forward(x.clone()));
        for _ in 0..3 {
            assert_eq!(floats(pass.replay()), expected, "on {}", backend.name);
        }
        assert_recorded(&backend, pass.is_hardware());
    }
}

fn a_captured_training_step_has_the_losses_of_the_eager_one() {
    for backend in backends() {
        let layer = layer(&backend);
        let device = backend.device.clone().autodiff();
        let x = Tensor::<2>::random([3, 48], Distribution::Default, &device);

        let mut eager = training_step(&layer, x.clone());
        let losses: Vec<f64> = (0..RUNS_BEFORE + STEPS)
            .map(|_| floats(&eager())[0])
            .collect();

        let mut captured = Captured::new(&device, training_step(&layer, x));
        let hardware = captured.is_hardware();
        let replayed: Vec<f64> = (0..STEPS).map(|_| floats(captured.replay())[0]).collect();

        let text = format!("on {}, hardware graph: {hardware}", backend.name);
        // Three runs warm up, and a fourth is recorded or run.
        let first = losses
            .iter()
            .position(|&loss| loss == replayed[0])
            .unwrap_or_else(|| panic!("{text}: {} is none of {losses:?}", replayed[0]));
        assert!(first <= RUNS_BEFORE, "{text}: starts at step {first}");
        let count = STEPS.min(losses.len() - first);
        assert_eq!(replayed[..count], losses[first..first + count], "{text}");
        assert!(replayed[STEPS - 1] < replayed[0], "{text}: the loss falls");
        assert_recorded(&backend, hardware);
    }
}

/// These record; a fallback would agree with the eager runs without showing anything.
fn assert_recorded(backend: &Backend, hardware: bool) {
    if matches!(backend.name, "cuda" | "wgpu") {
        assert!(hardware, "{} records a graph", backend.name);
    }
}
