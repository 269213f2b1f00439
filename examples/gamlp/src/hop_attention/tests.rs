//! Values and gradients against Burn's operations, one by one as the paper defines them.

use super::*;
use crate::ScoreActivation;
use burn::tensor::activation::{leaky_relu, relu, sigmoid, softmax};
use burn::tensor::{Device, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const ACTIVATIONS: [ScoreActivation; 3] = [
    ScoreActivation::Relu,
    ScoreActivation::LeakyRelu,
    ScoreActivation::Sigmoid,
];

fn random<const D: usize>(dims: [usize; D], rng: &mut ChaCha8Rng) -> Tensor<D> {
    let data: Vec<f32> = (0..dims.iter().product())
        .map(|_| rng.random_range(-1.0..1.0))
        .collect();
    Tensor::from_data(TensorData::new(data, dims), &Device::default().autodiff())
}

/// Factors as dropout makes them: many zeros.
fn factors(dims: [usize; 2], rng: &mut ChaCha8Rng) -> Tensor<2> {
    let drawn = random(dims, rng);
    let kept = drawn.clone().greater_elem(0.2);
    Tensor::zeros_like(&drawn).mask_fill(kept, 2.5)
}

/// [`attend_hops`] by Burn's operations.
fn by_operations(
    hops: Tensor<3>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    factors: Option<Tensor<2>>,
    activation: ScoreActivation,
) -> Tensor<2> {
    let [count, _, width] = hops.dims();
    let hop = |k: usize| hops.clone().narrow(0, k, 1).squeeze_dim::<2>(0);
    let mean = |scores: &[Tensor<2>]| {
        let seen = scores.len();
        let mut shares = softmax(Tensor::cat(scores.to_vec(), 1), 1);
        if let Some(factors) = &factors {
            shares = shares
                * factors
                    .clone()
                    .narrow(1, super::share_count(seen - 1), seen);
        }
        (0..seen)
            .map(|k| hop(k) * shares.clone().narrow(1, k, 1))
            .reduce(|sum, term| sum + term)
            .unwrap()
    };
    let mut scores = Vec::new();
    for k in 0..count {
        let before = match k {
            0 => hop(0),
            _ => mean(&scores),
        };
        let both = Tensor::cat(vec![before, hop(k)], 1);
        assert_eq!(both.dims()[1], 2 * width);
        // A sum rather than a product, which GPUs may compute with rounded operands.
        let score = (both * weight.clone().transpose()).sum_dim(1) + bias.clone().unsqueeze();
        scores.push(match activation {
            ScoreActivation::Relu => relu(score),
            ScoreActivation::LeakyRelu => leaky_relu(score, ScoreActivation::LEAK),
            ScoreActivation::Sigmoid => sigmoid(score),
        });
    }
    mean(&scores)
}

/// Within a few roundings of the largest number: gradients of weights are sums over all hops of all nodes.
fn close<const D: usize>(found: Tensor<D>, expected: Tensor<D>, what: &str) {
    assert_eq!(found.dims(), expected.dims(), "{what}");
    let (found, expected) = (found.into_data(), expected.into_data());
    let pairs = || found.iter::<f64>().zip(expected.iter::<f64>());
    let largest = pairs().map(|(_, y)| y.abs()).fold(1.0, f64::max);
    let far = pairs().map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
    assert!(far <= 1e-5 * largest, "{what}: {far:e} of {largest}");
}

/// Compares values and all gradients for `[hops, batch, width]`.
fn compare([count, batch, width]: [usize; 3], drops: bool, activation: ScoreActivation) {
    let what = format!("{count} hops of {batch} nodes, {width} wide, {activation:?}");
    let rng = &mut ChaCha8Rng::seed_from_u64((count * 1000 + batch * 10 + width) as u64);
    let inputs = (
        random([count, batch, width], rng),
        // Scores of about one, whatever the width: large ones magnify their roundings.
        random([2 * width, 1], rng) / (width as f64).sqrt(),
        random([1], rng),
    );
    let factors = drops.then(|| factors([batch, super::share_count(count)], rng));
    let slope = random([batch, width], rng);
    type Attend =
        fn(Tensor<3>, Tensor<2>, Tensor<1>, Option<Tensor<2>>, ScoreActivation) -> Tensor<2>;
    let run = |attend: Attend| {
        let (hops, weight, bias) = inputs.clone();
        let (hops, weight, bias) = (
            hops.require_grad(),
            weight.require_grad(),
            bias.require_grad(),
        );
        let output = attend(
            hops.clone(),
            weight.clone(),
            bias.clone(),
            factors.clone(),
            activation,
        );
        let grads = (output.clone() * slope.clone()).sum().backward();
        let grads = (
            hops.grad(&grads).unwrap(),
            weight.grad(&grads).unwrap(),
            bias.grad(&grads).unwrap(),
        );
        (output.inner(), grads)
    };
    let (found, of) = run(attend_hops);
    let (expected, expected_of) = run(by_operations);
    close(found, expected, &what);
    close(of.0, expected_of.0, &what);
    close(of.1, expected_of.1, &what);
    close(of.2, expected_of.2, &what);
}

#[test]
fn values_and_gradients_are_those_of_the_operations() {
    for activation in ACTIVATIONS {
        for drops in [false, true] {
            for dims in [[1, 1, 1], [1, 5, 3], [2, 3, 7], [6, 130, 33], [3, 70, 300]] {
                compare(dims, drops, activation);
            }
        }
    }
}

#[test]
fn many_hops() {
    compare([15, 4, 9], true, ScoreActivation::LeakyRelu);
}

/// Strided hops, a part of a larger weight, turned factors, and a gradient that is one number for all.
#[test]
fn inputs_may_be_views() {
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    let (count, batch, width) = (4, 3, 5);
    let hops = random([batch, count + 2, width], rng)
        .swap_dims(0, 1)
        .narrow(0, 1, count);
    let weight = random([2, 2 * width + 3], rng)
        .narrow(1, 3, 2 * width)
        .narrow(0, 1, 1);
    let (weight, bias) = (weight.transpose(), random([1], rng));
    let factors = factors([super::share_count(count), batch], rng).transpose();
    let run = |copies: bool| {
        let hops = match copies {
            true => Tensor::from_data(hops.to_data(), &hops.device()),
            false => hops.clone(),
        };
        let weight = match copies {
            true => Tensor::from_data(weight.to_data(), &weight.device()),
            false => weight.clone(),
        };
        let factors = match copies {
            true => Tensor::from_data(factors.to_data(), &factors.device()),
            false => factors.clone(),
        };
        let (hops, weight) = (hops.detach().require_grad(), weight.detach().require_grad());
        let activation = ScoreActivation::Sigmoid;
        let output = attend_hops(
            hops.clone(),
            weight.clone(),
            bias.clone(),
            Some(factors),
            activation,
        );
        let grads = output.clone().sum().backward();
        (
            output.inner(),
            hops.grad(&grads).unwrap(),
            weight.grad(&grads).unwrap(),
        )
    };
    let (found, expected) = (run(false), run(true));
    close(found.0, expected.0, "views");
    close(found.1, expected.1, "views");
    close(found.2, expected.2, "views");
}

/// Features as given have no gradient.
#[test]
fn hops_need_not_be_tracked() {
    let rng = &mut ChaCha8Rng::seed_from_u64(2);
    let hops = random([3, 4, 5], rng);
    let (weight, bias) = (random([10, 1], rng), random([1], rng));
    let run = |tracked: bool| {
        let hops = match tracked {
            true => hops.clone().require_grad(),
            false => hops.clone(),
        };
        let (weight, bias) = (weight.clone().require_grad(), bias.clone().require_grad());
        let output = attend_hops(
            hops,
            weight.clone(),
            bias.clone(),
            None,
            ScoreActivation::Relu,
        );
        let grads = output.sum().backward();
        (weight.grad(&grads).unwrap(), bias.grad(&grads).unwrap())
    };
    let (found, expected) = (run(false), run(true));
    close(found.0, expected.0, "weight");
    close(found.1, expected.1, "bias");
}

#[test]
fn no_nodes_have_no_gradients() {
    let device = Device::default().autodiff();
    let hops = Tensor::zeros([3, 0, 2], &device).require_grad();
    let weight = Tensor::full([4, 1], f32::INFINITY, &device).require_grad();
    let bias = Tensor::ones([1], &device).require_grad();
    let activation = ScoreActivation::Relu;
    let output = attend_hops(hops.clone(), weight.clone(), bias.clone(), None, activation);
    assert_eq!(output.dims(), [0, 2]);
    let grads = output.sum().backward();
    assert_eq!(hops.grad(&grads).unwrap().dims(), [3, 0, 2]);
    let of_bias = bias.grad(&grads).unwrap().into_data();
    of_bias.assert_eq(&TensorData::from([0.0f32]), true);
    let of_weight = weight.grad(&grads).unwrap().into_data();
    of_weight.assert_eq(&TensorData::from([[0.0f32]; 4]), true);
}

#[test]
fn a_score_that_is_no_number_stays_so() {
    let device = Device::default();
    for activation in ACTIVATIONS {
        let weight = Tensor::full([2, 1], f32::NAN, &device);
        let hops = Tensor::ones([2, 1, 1], &device);
        let found = attend_hops(hops, weight, Tensor::zeros([1], &device), None, activation);
        assert!(found.into_scalar::<f32>().is_nan(), "{activation:?}");
    }
}

#[test]
fn shares_far_apart_do_not_overflow() {
    let device = Device::default();
    let hops = Tensor::<3>::from_data([[[300.0f32]], [[-300.0]], [[1.0]]], &device);
    let weight = Tensor::from_data([[1.0f32], [1.0]], &device);
    let bias = Tensor::zeros([1], &device);
    let found = attend_hops(hops, weight, bias, None, ScoreActivation::Relu);
    let [value] = found.into_data().iter::<f32>().collect::<Vec<_>>()[..] else {
        panic!("there is one node");
    };
    // Scores of 600, 0 and 301.
    assert_eq!(value, 300.0);
}

#[test]
#[should_panic(expected = "expected hops of some width, got 0 of 2")]
fn no_hops_are_refused() {
    let device = Device::default();
    let weight = Tensor::zeros([4, 1], &device);
    let bias = Tensor::zeros([1], &device);
    attend_hops(
        Tensor::zeros([0, 3, 2], &device),
        weight,
        bias,
        None,
        ScoreActivation::Relu,
    );
}

#[test]
#[should_panic(expected = "axis 1 expected 6, got 3")]
fn factors_of_another_number_of_hops_are_refused() {
    let device = Device::default();
    let weight = Tensor::zeros([4, 1], &device);
    let bias = Tensor::zeros([1], &device);
    let factors = Some(Tensor::ones([3, 3], &device));
    attend_hops(
        Tensor::zeros([3, 3, 2], &device),
        weight,
        bias,
        factors,
        ScoreActivation::Relu,
    );
}
