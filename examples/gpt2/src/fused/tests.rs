//! Values against `f64` on the host, gradients against the derivatives of Burn's operations.

use super::*;
use burn::module::Param;
use burn::optim::{AdamWConfig, Optimizer};
use burn::tensor::activation::{gelu_approximate, log_softmax, softmax};
use burn::tensor::{DType, Device, TensorData, Tolerance};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn device() -> Device {
    Device::default().autodiff()
}

fn random<const D: usize>(dims: [usize; D], scale: f64, seed: u64) -> Tensor<D> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let data: Vec<f32> = (0..dims.iter().product())
        .map(|_| (rng.random_range(-1.0..1.0) * scale) as f32)
        .collect();
    Tensor::from_data(TensorData::new(data, dims), &device())
}

fn close<const D: usize>(found: Tensor<D>, expected: Tensor<D>) {
    let tolerance = Tolerance::<f32>::rel_abs(1e-4, 1e-5);
    found
        .into_data()
        .assert_approx_eq(&expected.into_data(), tolerance);
}

/// Compares a function and its derivatives with those of `expected`, at inputs that are leaves.
fn compare<const D: usize, const E: usize, const N: usize>(
    inputs: [Tensor<D>; N],
    found: impl Fn([Tensor<D>; N]) -> Tensor<E>,
    expected: impl Fn([Tensor<D>; N]) -> Tensor<E>,
) {
    let run = |function: &dyn Fn([Tensor<D>; N]) -> Tensor<E>| {
        let leaves = inputs.clone().map(|input| input.detach().require_grad());
        let output = function(leaves.clone());
        let dims = output.dims();
        let grads = (output.clone() * random(dims, 1.0, 99)).sum().backward();
        let grads = leaves.map(|leaf| leaf.grad(&grads).expect("every input is tracked"));
        (output.inner(), grads)
    };
    let (found, found_grads) = run(&found);
    let (expected, expected_grads) = run(&expected);
    close(found, expected);
    for (found, expected) in found_grads.into_iter().zip(expected_grads) {
        close(found, expected);
    }
}

/// The softmax of Burn under a mask of the lowest number.
fn masked_softmax(scores: Tensor<4>, scale: f64) -> Tensor<4> {
    let [_, _, queries, keys] = scores.dims();
    let mask = Tensor::<2>::full([queries, keys], f32::MIN, &scores.device())
        .triu((keys - queries) as i64 + 1)
        .reshape([1, 1, queries, keys]);
    softmax(scores.mul_scalar(scale) + mask, 3)
}

/// Attention by Burn's operations, head by head.
fn attention_of_burn(qkv: Tensor<3>, heads: usize) -> Tensor<3> {
    let [batch, tokens, width] = qkv.dims();
    let head_width = width / (3 * heads);
    let parts = qkv
        .reshape([batch, tokens, 3 * heads, head_width])
        .swap_dims(1, 2);
    let [query, key, value] = [0, 1, 2].map(|part| parts.clone().narrow(1, part * heads, heads));
    let scale = 1.0 / (head_width as f64).sqrt();
    let weights = masked_softmax(query.matmul(key.transpose()), scale);
    let mixed = weights.matmul(value).swap_dims(1, 2);
    mixed.reshape([batch, tokens, width / 3])
}

#[test]
fn causal_attention_is_that_of_burns_operations() {
    for ([batch, tokens, head_width], heads) in [
        ([1, 1, 1], 1),
        ([2, 5, 4], 3),
        ([1, 33, 7], 2),
        ([3, 17, 16], 1),
        ([1, 70, 6], 4),
    ] {
        compare(
            [random([batch, tokens, 3 * heads * head_width], 2.0, 31)],
            |[qkv]| causal_attention(qkv, heads),
            |[qkv]| attention_of_burn(qkv, heads),
        );
    }
}

#[test]
fn causal_attention_takes_views() {
    let expected = random([2, 9, 24], 1.0, 32);
    let view = expected.clone().swap_dims(0, 1);
    let contiguous = view.clone().swap_dims(0, 1);
    close(
        causal_attention(contiguous, 2),
        causal_attention(expected, 2),
    );
    let turned = Tensor::<3>::from_data(view.clone().into_data(), &device());
    close(causal_attention(view, 2), causal_attention(turned, 2));
}

#[test]
#[should_panic(expected = "expected a last axis of 3 x 4 heads, got 18")]
fn causal_attention_refuses_a_width_without_heads() {
    causal_attention(random([1, 2, 18], 1.0, 33), 4);
}

#[test]
fn causal_softmax_is_the_masked_one() {
    let shapes = [
        [1, 1, 1, 1],
        [2, 3, 5, 5],
        [1, 2, 33, 33],
        [1, 1, 130, 130],
        [1, 2, 3, 70],
        [1, 2, 1, 257],
    ];
    for (seed, dims) in shapes.into_iter().enumerate() {
        let scores = random(dims, 8.0, seed as u64);
        compare(
            [scores],
            |[scores]| causal_softmax(scores, 0.3),
            |[scores]| masked_softmax(scores, 0.3),
        );
    }
}

#[test]
fn causal_softmax_ignores_what_lies_ahead() {
    let scores = random([1, 1, 4, 4], 1.0, 1);
    let ahead = Tensor::<2>::ones([4, 4], &device())
        .triu(1)
        .reshape([1, 1, 4, 4]);
    let poisoned = scores.clone().mask_fill(ahead.clone().bool(), f32::NAN);
    let weights = causal_softmax(poisoned, 1.0);
    close(weights.clone(), causal_softmax(scores, 1.0));
    let total = (weights * ahead).sum().into_scalar::<f32>();
    assert_eq!(total, 0.0);
}

#[test]
fn causal_softmax_survives_large_scores() {
    let scores = random([1, 1, 16, 16], 3e4, 2);
    compare(
        [scores],
        |[scores]| causal_softmax(scores, 1.0),
        |[scores]| masked_softmax(scores, 1.0),
    );
}

#[test]
fn causal_softmax_takes_views() {
    let scores = random([2, 7, 3, 7], 2.0, 3);
    compare(
        [scores],
        |[scores]| causal_softmax(scores.swap_dims(1, 2), 0.5),
        |[scores]| masked_softmax(scores.swap_dims(1, 2), 0.5),
    );
}

#[test]
#[should_panic(expected = "expected at most as many queries as keys, got 3 and 2")]
fn causal_softmax_refuses_more_queries_than_keys() {
    causal_softmax(random([1, 1, 3, 2], 1.0, 1), 1.0);
}

#[test]
fn gelu_is_the_tanh_form() {
    for (seed, dims) in [[1, 1], [3, 5], [17, 64]].into_iter().enumerate() {
        let x = random(dims, 6.0, seed as u64);
        compare([x], |[x]| gelu_tanh(x), |[x]| gelu_approximate(x));
    }
    let far = Tensor::<1>::from_floats([-1e4, -30.0, 0.0, 30.0, 1e4], &device());
    let expected = Tensor::from_floats([0.0, 0.0, 0.0, 30.0, 1e4], &device());
    close(gelu_tanh(far), expected);
}

/// Width, rows and offset of a layer norm; `gamma` and `beta` are the last two rows of its input.
fn norms(input: Tensor<2>, fused: bool) -> Tensor<3> {
    let [rows, width] = input.dims();
    let x = input
        .clone()
        .narrow(0, 0, rows - 2)
        .reshape([1, rows - 2, width]);
    let part = |row| input.clone().narrow(0, row, 1).reshape([width]);
    let (gamma, beta) = (part(rows - 2), part(rows - 1));
    match fused {
        true => norm_rows(x, gamma, beta, 1e-5, FloatDType::F32),
        false => burn::tensor::module::layer_norm(x, gamma, Some(beta), 1e-5),
    }
}

#[test]
fn norm_rows_is_burns_layer_norm() {
    for (seed, dims) in [[3, 2], [6, 33], [70, 64], [200, 5], [4, 1500]]
        .into_iter()
        .enumerate()
    {
        let input = random(dims, 2.0, seed as u64);
        compare([input], |[x]| norms(x, true), |[x]| norms(x, false));
    }
}

fn targets(rows: usize, vocabulary: usize) -> Tensor<1, Int> {
    let targets: Vec<i32> = (0..rows).map(|row| (row * 7 % vocabulary) as i32).collect();
    Tensor::from_data(TensorData::new(targets, [rows]), &device())
}

#[test]
fn token_losses_are_the_picked_log_probabilities() {
    for (seed, [rows, vocabulary]) in [[1, 1], [3, 2], [5, 257], [9, 1003]]
        .into_iter()
        .enumerate()
    {
        let logits = random([rows, vocabulary], 20.0, seed as u64);
        compare(
            [logits],
            |[logits]| token_losses(logits, targets(rows, vocabulary), vocabulary),
            |[logits]| {
                let places = targets(rows, vocabulary).reshape([rows, 1]);
                log_softmax(logits, 1)
                    .gather(1, places)
                    .neg()
                    .reshape([rows])
            },
        );
    }
}

#[test]
fn half_precision_is_computed_in_single() {
    let dtype = match device().supports_dtype(DType::BF16) {
        true => FloatDType::BF16,
        false => FloatDType::F16,
    };
    if !device().supports_dtype(dtype) {
        eprintln!("skipped: {:?} has no half precision", device());
        return;
    }
    let x = random([1, 2, 9, 9], 3.0, 4);
    let low = x.clone().cast(dtype);
    let exact = low.clone().cast(FloatDType::F32);
    let tolerance = Tolerance::<f32>::rel_abs(1e-2, 1e-3);
    let same = |found: Tensor<4>, expected: Tensor<4>| {
        assert_eq!(found.dtype(), dtype.into());
        found
            .cast(FloatDType::F32)
            .into_data()
            .assert_approx_eq(&expected.into_data(), tolerance);
    };
    same(
        causal_softmax(low.clone(), 0.5),
        causal_softmax(exact.clone(), 0.5),
    );
    same(gelu_tanh(low.clone()), gelu_tanh(exact.clone()));
    let [gamma, beta] = [5, 6].map(|seed| random([9], 1.0, seed));
    let rows = x.reshape([2, 9, 9]);
    let normed = norm_rows(rows.clone(), gamma.clone(), beta.clone(), 1e-5, dtype);
    let expected = norm_rows(rows, gamma, beta, 1e-5, FloatDType::F32);
    same(normed.reshape([1, 2, 9, 9]), expected.reshape([1, 2, 9, 9]));

    let logits = low.reshape([18, 9]).require_grad();
    let losses = token_losses(logits.clone(), targets(18, 9), 9);
    assert_eq!(losses.dtype(), FloatDType::F32.into());
    close(
        losses.clone(),
        token_losses(exact.reshape([18, 9]), targets(18, 9), 9),
    );
    let grads = losses.sum().backward();
    assert_eq!(logits.grad(&grads).expect("tracked").dtype(), dtype.into());
}

#[test]
fn nothing_is_computed_from_nothing() {
    assert_eq!(
        causal_softmax(random([0, 2, 3, 3], 1.0, 1), 1.0).dims(),
        [0, 2, 3, 3]
    );
    assert_eq!(gelu_tanh(random([0, 3], 1.0, 1)).dims(), [0, 3]);
    assert_eq!(
        token_losses(random([0, 3], 1.0, 1), targets(0, 3), 3).dims(),
        [0]
    );
    let [gamma, beta] = [1, 2].map(|seed| random([4], 1.0, seed).require_grad());
    let x = random([0, 2, 4], 1.0, 1).require_grad();
    let y = norm_rows(x.clone(), gamma.clone(), beta, 1e-5, FloatDType::F32);
    assert_eq!(y.dims(), [0, 2, 4]);
    let grads = y.sum().backward();
    assert_eq!(x.grad(&grads).expect("tracked").dims(), [0, 2, 4]);
    close(
        gamma.grad(&grads).expect("tracked"),
        Tensor::zeros([4], &device().inner()),
    );
}

#[test]
fn padding_takes_no_part_in_losses() {
    compare(
        [random([5, 300], 4.0, 1)],
        |[logits]| token_losses(logits, targets(5, 257), 257),
        |[logits]| {
            let logits = logits.narrow(1, 0, 257);
            token_losses(logits, targets(5, 257), 257)
        },
    );
}

#[test]
fn adamw_is_burns() {
    let config = FusedAdamWConfig {
        beta_1: 0.9,
        beta_2: 0.95,
        epsilon: 1e-8,
        weight_decay: 0.1,
    };
    let fused = FusedAdamW::new(config);
    let burns = AdamWConfig::new()
        .with_beta_1(config.beta_1)
        .with_beta_2(config.beta_2)
        .with_epsilon(config.epsilon)
        .with_weight_decay(config.weight_decay)
        .build();
    for dims in [[1, 1], [3, 5], [32, 64]] {
        let weight = random(dims, 1.0, 1).inner();
        let (mut found, mut expected) = (weight.clone(), weight);
        let (mut found_state, mut expected_state) = (None, None);
        for step in 0..5 {
            let grad = random(dims, 1.0, 10 + step).inner();
            (found, found_state) = fused.step(1e-2, found, grad.clone(), found_state);
            (expected, expected_state) = burns.step(1e-2, expected, grad, expected_state);
        }
        close(found, expected);
        let (found, expected) = (
            found_state.unwrap().momentum,
            expected_state.unwrap().momentum,
        );
        assert_eq!(found.time, expected.time);
        close(found.moment_1, expected.moment_1);
        close(found.moment_2, expected.moment_2);
    }
}

#[test]
fn few_rows_are_multiplied_as_by_burn() {
    let shapes = [[1, 1, 1], [1, 768, 40], [3, 33, 100], [2, 5, 257]];
    for [rows, inputs, outputs] in shapes {
        let x = random([rows, inputs], 1.0, 1).inner();
        let weight = random([inputs, outputs], 1.0, 2).inner();
        let bias = random([outputs], 1.0, 3).inner();
        let layer = Linear {
            weight: Param::from_tensor(weight.clone()),
            bias: Some(Param::from_tensor(bias.clone())),
        };
        let product = x.clone().matmul(weight.clone());
        let tolerance = Tolerance::<f32>::rel_abs(1e-2, 1e-2);
        let same = |found: Tensor<2>, expected: Tensor<2>| {
            found
                .into_data()
                .assert_approx_eq(&expected.into_data(), tolerance);
        };
        same(
            project_rows(x.clone(), &layer),
            product.clone() + bias.unsqueeze(),
        );
        same(compare_rows(x, weight.transpose()), product);
    }
}

#[test]
fn attending_is_the_softmax_over_the_filled_places() {
    for [batch, heads, places, width, place] in [
        [1, 1, 1, 1, 0],
        [2, 3, 40, 8, 17],
        [1, 2, 700, 64, 699],
        [1, 1, 9, 600, 4],
    ] {
        let query = random([batch, heads, 1, width], 2.0, 1).inner();
        let cache = random([batch, 2 * heads, places, width], 2.0, 2).inner();
        let filled = cache.clone().narrow(2, 0, place + 1);
        let poison = Tensor::full(
            [batch, 2 * heads, places - place - 1, width],
            f32::NAN,
            &cache.device(),
        );
        let poisoned = match place + 1 == places {
            true => cache,
            false => Tensor::cat(vec![filled.clone(), poison], 2),
        };
        let keys = filled.clone().narrow(1, 0, heads);
        let values = filled.narrow(1, heads, heads);
        let scores = (query.clone() * keys)
            .sum_dim(3)
            .swap_dims(2, 3)
            .mul_scalar(0.3);
        let expected = (softmax(scores, 3).swap_dims(2, 3) * values).sum_dim(2);
        let at = Tensor::<1, Int>::from_data([place as i32], &query.device());
        close(attend(query, poisoned, at, 0.3), expected);
    }
}
