//! Factors of gradients that are missing, doubled, of another step, or not those of the gradient.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::optim::{GradientsAccumulator, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::activation::{gelu, relu};
use burn::tensor::{DType, Device, Tensor};
use snack_burn::dst::{Composed, Magnitude, SkipReason};
use snack_burn::prelude::*;

use super::probe::{Probe, Seen};
use crate::support::{Backend, assert_within, backends, flex, floats, tensor2};

const SIZES: [usize; 3] = [9, 7, 5];
const BATCH: usize = 8;

/// Two sparse layers, or the dense ones of the same weights.
#[derive(Module, Debug)]
struct Net<L: Module> {
    first: L,
    last: L,
}

fn sparse(device: &Device) -> Net<SparseLinear> {
    let layer = |index: usize| {
        SparseLinearConfig::new(SIZES[index], SIZES[index + 1])
            .with_sparsity(0.7)
            .with_seed(Some(index as u64))
            .init(device)
    };
    Net {
        first: layer(0),
        last: layer(1),
    }
}

fn dense(net: &Net<SparseLinear>) -> Net<Linear> {
    // A leaf of its own, so that the gradient is that of the weight alone.
    let leaf = |layer: &SparseLinear| {
        let linear = layer.to_linear();
        Linear {
            weight: Param::from_tensor(linear.weight.val().detach().require_grad()),
            bias: linear.bias,
        }
    };
    Net {
        first: leaf(&net.first),
        last: leaf(&net.last),
    }
}

fn batch(seed: usize, rows: usize, device: &Device) -> Tensor<2> {
    let numbers: Vec<f32> = (0..rows * SIZES[0])
        .map(|i| ((i + 7919 * seed) as f32 * 0.37).sin())
        .collect();
    tensor2(&numbers, [rows, SIZES[0]], device)
}

/// The mean over a batch of `BATCH`, so that parts of it add up.
fn loss(y: Tensor<2>) -> Tensor<1> {
    (y - 0.3).powi_scalar(2).sum() / BATCH as f64
}

fn step(
    net: Net<SparseLinear>,
    optim: &mut ModuleOptimizer,
    dst: &mut Dst,
    grads: GradientsParams,
) -> Net<SparseLinear> {
    let net = optim.step(0.05, net, grads);
    dst.step_mut(net, optim)
}

/// `[m k]`, row-major as sparse layers count.
fn weight_gradient(linear: &Linear, grads: &burn::tensor::Gradients) -> Vec<f64> {
    let grad = linear.weight.grad(grads).expect("a gradient");
    floats(&grad.transpose())
}

fn probe(net: &Net<SparseLinear>, config: DstConfig) -> (Dst, Probe) {
    let probe = Probe::default();
    let method = Composed::new(Magnitude, probe.clone());
    let dst = Dst::new(net, config.rule_of(method).unwrap(), 1, DstState::default());
    (dst.unwrap(), probe)
}

fn assert_seen(text: &str, seen: &[Seen], batch: usize, expected: &[(&str, Vec<f64>)]) {
    assert_eq!(seen.len(), expected.len(), "{text}: layers");
    for (seen, (name, gradient)) in seen.iter().zip(expected) {
        assert_eq!(seen.layer, *name, "{text}");
        assert_eq!(seen.batch, batch, "{text}: rows of the factors of {name}");
        let text = format!("{text}: gradient of {name}");
        assert_within(&text, &seen.gradient, gradient, 1e-4);
    }
}

fn gradients_of(net: &Net<SparseLinear>, x: Tensor<2>) -> Vec<(&'static str, Vec<f64>)> {
    let dense = dense(net);
    let y = dense.last.forward(gelu(dense.first.forward(x)));
    let grads = loss(y).backward();
    vec![
        ("first", weight_gradient(&dense.first, &grads)),
        ("last", weight_gradient(&dense.last, &grads)),
    ]
}

/// Where dense products may be of reduced precision, the reference is as bad as that.
fn exact(backend: &Backend) -> bool {
    backend.dense_tolerance() <= 1e-4
}

/// The gradient of the step of the update, of that step alone.
#[test]
fn an_update_sees_the_gradient_of_its_own_step() {
    for backend in backends().into_iter().filter(exact) {
        for (variant, device) in backend.autodiff_variants() {
            let mut net = sparse(&device);
            let mut optim = SgdConfig::new().init();
            let (mut dst, probe) = probe(&net, DstConfig::set().with_every(3));
            for number in 1..=7 {
                let x = batch(number, BATCH, &device);
                let expected = gradients_of(&net, x.clone());
                let y = net.last.forward(gelu(net.first.forward(x)));
                let grads = GradientsParams::from_grads(loss(y).backward(), &net);
                net = step(net, &mut optim, &mut dst, grads);
                let text = format!("step {number}, {variant} on {}", backend.name);
                let seen = probe.take();
                match number % 3 {
                    0 => assert_seen(&text, &seen, BATCH, &expected),
                    _ => assert!(seen.is_empty(), "{text}"),
                }
            }
            assert_eq!(dst.skipped(), 0);
        }
    }
}

/// A checkpointed block computes its forward pass again, and its factors count once.
#[test]
fn leading_axes_and_views_fold_into_the_batch() {
    for backend in backends().into_iter().filter(exact) {
        let device = backend.autodiff();
        let net = sparse(&device);
        let (mut dst, probe) = probe(&net, DstConfig::set().with_every(1));
        let x = batch(1, BATCH, &device);
        let expected = gradients_of(&net, x.clone());
        let x = x.reshape([2, 4, SIZES[0]]).swap_dims(0, 1);
        let y = net.last.forward(gelu(net.first.forward(x)));
        let y = y.swap_dims(0, 1).reshape([BATCH, SIZES[2]]);
        let grads = GradientsParams::from_grads(loss(y).backward(), &net);
        step(net, &mut SgdConfig::new().init(), &mut dst, grads);
        assert_seen(backend.name, &probe.take(), BATCH, &expected);
    }
}

/// In mixed precision the products are those of the rounded values, and the gradient is still that
/// of the layer.
#[test]
fn layers_in_mixed_precision_are_heard() {
    for backend in backends() {
        let device = backend.autodiff();
        if !backend.supports(DType::BF16) {
            eprintln!("{} does not support bf16", backend.name);
            continue;
        }
        let net = sparse(&device);
        let (mut dst, probe) = probe(&net, DstConfig::set().with_every(1));
        let x = batch(1, BATCH, &device);
        let expected = gradients_of(&net, x.clone());
        let y = net.first.forward(x.cast(DType::BF16));
        let y = net.last.forward(gelu(y)).cast(DType::F32);
        let grads = GradientsParams::from_grads(loss(y).backward(), &net);
        step(net, &mut SgdConfig::new().init(), &mut dst, grads);
        let seen = probe.take();
        assert_eq!(seen.len(), expected.len(), "{}", backend.name);
        for (seen, (name, gradient)) in seen.iter().zip(&expected) {
            let text = format!("gradient of {name} on {}", backend.name);
            assert_eq!(seen.layer, *name, "{text}");
            assert_within(&text, &seen.gradient, gradient, 3e-2);
        }
    }
}

/// Backward passes that are accumulated for one optimizer step make up one gradient: the pattern is
/// that of the whole batch.
#[test]
fn accumulated_passes_count_as_one_batch() {
    for backend in backends().into_iter().filter(exact) {
        let device = backend.autodiff();
        let x = batch(1, BATCH, &device);
        let whole = sparse(&device);
        let expected = gradients_of(&whole, x.clone());
        for parts in [1, 2, 4] {
            let net = whole.clone();
            let (mut dst, probe) = probe(&net, DstConfig::set().with_every(1));
            let mut accumulator = GradientsAccumulator::new();
            for part in x.clone().chunk(parts, 0) {
                let y = net.last.forward(gelu(net.first.forward(part)));
                let grads = GradientsParams::from_grads(loss(y).backward(), &net);
                accumulator.accumulate(&net, grads);
            }
            let mut optim = SgdConfig::new().init();
            step(net, &mut optim, &mut dst, accumulator.grads());
            let text = format!("{parts} parts on {}", backend.name);
            assert_seen(&text, &probe.take(), BATCH, &expected);
        }
    }
}

#[test]
fn accumulation_does_not_change_the_pattern_of_rigl() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let x = batch(1, BATCH, &device);
    let whole = sparse(&device);
    let patterns: Vec<[Pattern; 2]> = [1, 4]
        .into_iter()
        .map(|parts| {
            let net = whole.clone();
            let mut dst = DstConfig::rigl(100).with_every(1).init(&net).unwrap();
            let mut accumulator = GradientsAccumulator::new();
            for part in x.clone().chunk(parts, 0) {
                let y = net.last.forward(gelu(net.first.forward(part)));
                let grads = GradientsParams::from_grads(loss(y).backward(), &net);
                accumulator.accumulate(&net, grads);
            }
            let mut optim = SgdConfig::new().init();
            let net = step(net, &mut optim, &mut dst, accumulator.grads());
            [net.first, net.last].map(|layer| layer.pattern().clone())
        })
        .collect();
    assert_eq!(patterns[0], patterns[1]);
    assert_ne!(&patterns[0][0], whole.first.pattern());
}

/// A window of several optimizer steps collects the gradients of all of them.
#[test]
fn a_window_collects_several_steps() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut net = sparse(&device);
    let mut optim = SgdConfig::new().init();
    let (mut dst, probe) = probe(&net, DstConfig::set().with_every(5).with_accumulate(3));
    let mut sums = [vec![0.0; 63], vec![0.0; 35]];
    for number in 1..=10 {
        let x = batch(number, BATCH, &device);
        if (number - 1) % 5 >= 2 {
            for (sum, (_, gradient)) in sums.iter_mut().zip(gradients_of(&net, x.clone())) {
                sum.iter_mut().zip(gradient).for_each(|(sum, g)| *sum += g);
            }
        }
        let y = net.last.forward(gelu(net.first.forward(x)));
        let grads = GradientsParams::from_grads(loss(y).backward(), &net);
        net = step(net, &mut optim, &mut dst, grads);
        let seen = probe.take();
        assert_eq!(seen.len(), if number % 5 == 0 { 2 } else { 0 });
        if number % 5 == 0 {
            let [first, last] = sums.map(|sum| sum);
            assert_seen(
                "window",
                &seen,
                3 * BATCH,
                &[("first", first), ("last", last)],
            );
            sums = [vec![0.0; 63], vec![0.0; 35]];
        }
    }
}

/// A layer that is used twice, once through its sparse tensor and once transposed.
#[test]
fn all_uses_of_a_layer_count() {
    for backend in backends().into_iter().filter(exact) {
        let device = backend.autodiff();
        let layer = |bias: bool| {
            SparseLinearConfig::new(6, 6)
                .with_nnz(Some(12))
                .with_bias(bias)
                .with_seed(Some(4))
                .init(&device)
        };
        for bias in [true, false] {
            let net = layer(bias);
            let x = tensor2(
                &floats(&batch(3, 4, &device))
                    .iter()
                    .map(|&f| f as f32)
                    .take(24)
                    .collect::<Vec<_>>(),
                [4, 6],
                &device,
            );
            let linear = net.to_linear();
            let weight = linear.weight.val().detach().require_grad();
            let bias = linear.bias.as_ref().map(|bias| bias.val().detach());
            let apply = |x: Tensor<2>| match &bias {
                Some(bias) => x.matmul(weight.clone()) + bias.clone().unsqueeze(),
                None => x.matmul(weight.clone()),
            };
            let y = relu(apply(relu(apply(x.clone()))));
            let y = y.matmul(weight.clone()).matmul(weight.clone().transpose());
            let grads = (y.powi_scalar(2).sum()).backward();
            let expected = floats(&weight.grad(&grads).unwrap().transpose());

            let probe = Probe::default();
            let method = Composed::new(Magnitude, probe.clone());
            let rule = DstConfig::set().with_every(1).rule_of(method).unwrap();
            let mut dst = Dst::new(&net, rule, 1, DstState::default()).unwrap();
            let y = relu(net.forward(relu(net.forward(x))));
            let y = net.weight().spmm_transposed(net.weight().spmm(y));
            let grads = y.powi_scalar(2).sum().backward();
            let grads = GradientsParams::from_grads(grads, &net);
            let mut optim = SgdConfig::new().init();
            let net = optim.step(0.0, net, grads);
            dst.step(net, optim);
            let seen = probe.take();
            assert_eq!(seen[0].batch, 16, "four uses");
            assert_within(backend.name, &seen[0].gradient, &expected, 1e-4);
        }
    }
}

/// Replicas of one step count once the updater knows of them; a clone that trains by itself, or the
/// same model after an optimizer step that the updater did not see, never does.
#[test]
fn replicas_count_and_strangers_do_not() {
    for backend in backends().into_iter().filter(exact) {
        let device = backend.autodiff();
        let net = sparse(&device);
        let x = batch(1, BATCH, &device);
        let expected = gradients_of(&net, x.clone());
        let (mut dst, probe) = probe(&net, DstConfig::set().with_every(1));
        let stranger = SgdConfig::new().init().step(
            0.1,
            net.clone(),
            gradients(&net.clone().fork(&device), x.clone()),
        );
        gradients(&stranger, x.clone());
        let replicas = [net.clone().fork(&device), net.clone().fork(&device)];
        let mut sum = burn::optim::MultiGradientsParams::default();
        for (replica, part) in replicas.iter().zip(x.chunk(2, 0)) {
            dst.listen_to(replica);
            sum.grads.push((gradients(replica, part), device.clone()));
        }
        let mut optim = SgdConfig::new().init();
        let net = optim.step_multi(0.1, net, sum);
        dst.step(net, optim);
        assert_seen(backend.name, &probe.take(), BATCH, &expected);
    }
}

fn gradients(net: &Net<SparseLinear>, x: Tensor<2>) -> GradientsParams {
    let y = net.last.forward(gelu(net.first.forward(x)));
    GradientsParams::from_grads(loss(y).backward(), net)
}

#[test]
fn some_rows_estimate_the_gradient() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let net = sparse(&device);
    let x = batch(1, BATCH, &device);
    let expected = gradients_of(&net, x.clone());
    let mut sum = vec![0.0; 35];
    let mut seen_rows = Vec::new();
    let draws = 400;
    for seed in 0..draws {
        let probe = Probe::default();
        let config = DstConfig::set().with_every(1).with_max_rows(Some(2));
        let method = Composed::new(Magnitude, probe.clone());
        let rule = config.rule_of(method).unwrap();
        let mut dst = Dst::new(&net, rule, seed, DstState::default()).unwrap();
        let y = net.last.forward(gelu(net.first.forward(x.clone())));
        let grads = GradientsParams::from_grads(loss(y).backward(), &net);
        step(net.clone(), &mut SgdConfig::new().init(), &mut dst, grads);
        let seen = probe.take();
        assert_eq!(seen[1].batch, 2);
        for (sum, gradient) in sum.iter_mut().zip(&seen[1].gradient) {
            *sum += gradient / f64::from(draws as u32);
        }
        seen_rows.push(seen[1].gradient[0].to_bits());
    }
    // Two of eight rows: the mean of 400 estimates is within a few per cent.
    assert_within("mean of the estimates", &sum, &expected[1].1, 0.15);
    seen_rows.sort_unstable();
    seen_rows.dedup();
    assert!(seen_rows.len() > 10, "other rows for other seeds");
}

/// An update whose gradient is not a number does not happen, and is counted.
#[test]
fn non_finite_gradients_skip_the_update() {
    for backend in backends() {
        let device = backend.autodiff();
        let mut net = sparse(&device);
        let mut optim = SgdConfig::new().init();
        let config = DstConfig::rigl(100).with_every(2);
        let mut dst = config.init(&net).unwrap();
        let start = net.first.pattern().clone();
        for (number, factor) in [1.0, f32::INFINITY, 1.0, f32::NAN, 1.0, 1.0]
            .into_iter()
            .enumerate()
        {
            let x = batch(number, BATCH, &device);
            let y = net.last.forward(gelu(net.first.forward(x)));
            let grads = (loss(y) * factor).backward();
            let grads = GradientsParams::from_grads(grads, &net);
            // As a loop with loss scaling does: the step is not taken.
            if factor.is_finite() {
                net = optim.step(0.05, net, grads);
            }
            net = dst.step_mut(net, &mut optim);
            if !factor.is_finite() {
                let update = dst.last_update().unwrap();
                let reason = SkipReason::NonFiniteGradient {
                    layer: "first".into(),
                };
                assert_eq!(update.skipped, Some(reason), "{update}");
                assert!(update.layers.iter().all(|l| l.dropped + l.grown == 0));
                assert_eq!(net.first.pattern(), &start, "on {}", backend.name);
            }
        }
        assert_eq!(dst.skipped(), 2);
        assert_ne!(net.first.pattern(), &start);
        assert_eq!(dst.state().skipped, 2);
    }
}

/// Without a backward pass there is no gradient to grow by.
#[test]
fn no_backward_pass_no_update() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let net = sparse(&device);
    let mut dst = DstConfig::rigl(100).with_every(1).init(&net).unwrap();
    let before = net.first.pattern().clone();
    let (net, optim) = dst.step(net, SgdConfig::new().init());
    let update = dst.last_update().unwrap();
    assert_eq!(update.skipped, Some(SkipReason::NoGradient));
    assert_eq!(dst.skipped(), 1);
    assert_eq!(net.first.pattern(), &before);
    assert!(optim.to_record().is_empty());
}

/// A layer that takes no part in the loss, or is frozen, stays; the others are updated.
#[test]
fn layers_without_a_gradient_stay() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut net = sparse(&device);
    net.first = net.first.no_grad();
    let before = [net.first.pattern().clone(), net.last.pattern().clone()];
    let mut dst = DstConfig::rigl(100).with_every(1).init(&net).unwrap();
    let y = net
        .last
        .forward(gelu(net.first.forward(batch(1, BATCH, &device))));
    let grads = GradientsParams::from_grads(loss(y).backward(), &net);
    let net = step(net, &mut SgdConfig::new().init(), &mut dst, grads);
    let update = dst.last_update().unwrap();
    assert_eq!(update.skipped, None);
    let listed: Vec<_> = update.layers.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(listed, ["last"], "a frozen layer is not listed");
    assert!(update.layers[0].dropped > 0);
    assert_eq!(net.first.pattern(), &before[0]);
    assert_ne!(net.last.pattern(), &before[1]);
    assert!(!net.first.values.is_require_grad());
}
