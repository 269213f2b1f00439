//! RigL against a dense reference in f64 on the host, step for step, and its rule for connections
//! that return.

use std::f64::consts::PI;

use burn::module::Module;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::activation::tanh;
use burn::tensor::{Device, Tensor, TensorData};
use snack_burn::dst::FreshValue;
use snack_burn::prelude::*;

use crate::support::{assert_within, backends, flex, floats, tensor2};

const SIZES: [usize; 3] = [10, 8, 6];
const BATCH: usize = 5;
const RATE: f64 = 0.2;
const MOMENTUM: f64 = 0.9;
const STEPS: u64 = 30;
const EVERY: u64 = 3;
const STOP: u64 = 24;
const FRACTION: f64 = 0.3;

#[derive(Module, Debug)]
struct Net {
    first: SparseLinear,
    last: SparseLinear,
}

impl Net {
    fn new(device: &Device) -> Self {
        let layer = |index: usize, nnz| {
            SparseLinearConfig::new(SIZES[index], SIZES[index + 1])
                .with_nnz(Some(nnz))
                .with_seed(Some(index as u64 + 20))
                .init(device)
        };
        Self {
            first: layer(0, 24),
            last: layer(1, 15),
        }
    }

    fn layers(&self) -> [&SparseLinear; 2] {
        [&self.first, &self.last]
    }
}

fn input(step: u64) -> Vec<f64> {
    (0..BATCH * SIZES[0])
        .map(|i| (((i as f64) + 311.0 * step as f64) * 0.77).sin())
        .collect()
}

fn target(step: u64) -> Vec<f64> {
    (0..BATCH * SIZES[2])
        .map(|i| (((i as f64) + 17.0 * step as f64) * 1.31).cos())
        .collect()
}

/// A dense layer `[m, k]` under a mask, all in f64.
struct Dense {
    shape: [usize; 2],
    weight: Vec<f64>,
    velocity: Vec<f64>,
    mask: Vec<bool>,
    bias: Vec<f64>,
    bias_velocity: Vec<f64>,
}

impl Dense {
    fn of(layer: &SparseLinear) -> Self {
        let [m, k] = layer.weight_shape();
        let mut dense = Self {
            shape: [m, k],
            weight: vec![0.0; m * k],
            velocity: vec![0.0; m * k],
            mask: vec![false; m * k],
            bias: floats(&layer.bias.as_ref().unwrap().val()),
            bias_velocity: vec![0.0; m],
        };
        let values = floats(&layer.values.val());
        for (flat, value) in layer.pattern().flats().zip(values) {
            dense.weight[flat as usize] = value;
            dense.mask[flat as usize] = true;
        }
        dense
    }

    fn forward(&self, x: &[f64]) -> Vec<f64> {
        let [m, k] = self.shape;
        let mut y = Vec::new();
        for x in x.chunks(k) {
            for row in 0..m {
                let weights = &self.weight[row * k..(row + 1) * k];
                y.push(self.bias[row] + weights.iter().zip(x).map(|(w, x)| w * x).sum::<f64>());
            }
        }
        y
    }

    /// The dense gradient of the weight, of the bias and of the input.
    fn backward(&self, x: &[f64], grad: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let [m, k] = self.shape;
        let (mut weight, mut bias) = (vec![0.0; m * k], vec![0.0; m]);
        let mut input = vec![0.0; x.len()];
        for ((x, g), input) in x.chunks(k).zip(grad.chunks(m)).zip(input.chunks_mut(k)) {
            for row in 0..m {
                bias[row] += g[row];
                for col in 0..k {
                    weight[row * k + col] += g[row] * x[col];
                    input[col] += g[row] * self.weight[row * k + col];
                }
            }
        }
        (weight, bias, input)
    }

    /// SGD with momentum as Burn has it, of what exists.
    fn step(&mut self, weight: &[f64], bias: &[f64], first: bool) {
        let update = |value: &mut f64, velocity: &mut f64, grad: f64| {
            *velocity = if first {
                grad
            } else {
                grad * 0.9 + MOMENTUM * *velocity
            };
            *value -= RATE * *velocity;
        };
        for (at, &grad) in weight.iter().enumerate() {
            if self.mask[at] {
                update(&mut self.weight[at], &mut self.velocity[at], grad);
            }
        }
        for (at, &grad) in bias.iter().enumerate() {
            update(&mut self.bias[at], &mut self.bias_velocity[at], grad);
        }
    }

    /// The published rule on dense tensors: keep the largest weights, then take the largest
    /// gradients of all that is not kept; what was there keeps weight and momentum.
    fn rigl(&mut self, grad: &[f64], fraction: f64) {
        let active: Vec<usize> = (0..self.mask.len()).filter(|&at| self.mask[at]).collect();
        let count = (fraction * active.len() as f64).round() as usize;
        let mut by_magnitude = active;
        by_magnitude.sort_by(|&a, &b| self.weight[a].abs().total_cmp(&self.weight[b].abs()));
        let before = self.mask.clone();
        by_magnitude[..count]
            .iter()
            .for_each(|&at| self.mask[at] = false);
        let mut others: Vec<usize> = (0..self.mask.len()).filter(|&at| !self.mask[at]).collect();
        others.sort_by(|&a, &b| grad[b].abs().total_cmp(&grad[a].abs()));
        others[..count].iter().for_each(|&at| self.mask[at] = true);
        for (at, was) in before.into_iter().enumerate() {
            if !(self.mask[at] && was) {
                self.weight[at] = 0.0;
                self.velocity[at] = 0.0;
            }
        }
    }
}

fn fraction(step: u64) -> Option<f64> {
    let over = step > STOP || !step.is_multiple_of(EVERY);
    (!over).then(|| FRACTION / 2.0 * (1.0 + (PI * step as f64 / STOP as f64).cos()))
}

#[test]
fn equals_a_dense_reference_step_for_step() {
    for backend in backends() {
        if backend.dense_tolerance() > 1e-4 {
            continue;
        }
        let device = backend.autodiff();
        let mut net = Net::new(&device);
        let mut reference = net.layers().map(Dense::of);
        let config = DstConfig::rigl(32)
            .with_every(EVERY)
            .with_drop_fraction(FRACTION);
        assert_eq!(config.stop, Some(STOP));
        let mut dst = config.init(&net).unwrap();
        let momentum = MomentumConfig::new().with_momentum(MOMENTUM);
        let mut optim = SgdConfig::new().with_momentum(Some(momentum)).init();
        let mut replaced = 0;
        let mut returned = 0;
        for step in 1..=STEPS {
            let (x, t) = (input(step), target(step));
            let narrow = |list: &[f64]| list.iter().map(|&f| f as f32).collect::<Vec<_>>();
            let hidden = tanh(
                net.first
                    .forward(tensor2(&narrow(&x), [BATCH, SIZES[0]], &device)),
            );
            let y = net.last.forward(hidden);
            let loss = (y - tensor2(&narrow(&t), [BATCH, SIZES[2]], &device))
                .powi_scalar(2)
                .mean();
            let grads = GradientsParams::from_grads(loss.backward(), &net);
            net = optim.step(RATE, net, grads);
            net = dst.step_mut(net, &mut optim);

            let [first, last] = &mut reference;
            let hidden: Vec<f64> = first.forward(&x).into_iter().map(f64::tanh).collect();
            let y = last.forward(&hidden);
            let grad: Vec<f64> = y
                .iter()
                .zip(&t)
                .map(|(y, t)| 2.0 * (y - t) / y_len() as f64)
                .collect();
            let (last_weight, last_bias, into) = last.backward(&hidden, &grad);
            let grad: Vec<f64> = into
                .iter()
                .zip(&hidden)
                .map(|(g, h)| g * (1.0 - h * h))
                .collect();
            let (first_weight, first_bias, _) = first.backward(&x, &grad);
            first.step(&first_weight, &first_bias, step == 1);
            last.step(&last_weight, &last_bias, step == 1);
            if let Some(fraction) = fraction(step) {
                first.rigl(&first_weight, fraction);
                last.rigl(&last_weight, fraction);
            }

            let text = format!("step {step} on {}", backend.name);
            for (layer, dense) in net.layers().into_iter().zip(&reference) {
                let flats: Vec<u64> = layer.pattern().flats().collect();
                let expected: Vec<u64> = (0..dense.mask.len() as u64)
                    .filter(|&at| dense.mask[at as usize])
                    .collect();
                assert_eq!(flats, expected, "{text}: pattern");
                let values: Vec<f64> = flats.iter().map(|&at| dense.weight[at as usize]).collect();
                assert_within(&text, &floats(&layer.values.val()), &values, 1e-4);
            }
            if let Some(update) = dst.last_update() {
                replaced += update.layers.iter().map(|l| l.dropped).sum::<usize>();
                returned += update.layers.iter().map(|l| l.returned).sum::<usize>();
            }
        }
        assert!(replaced > 10, "{replaced} replaced");
        assert!(returned > 0, "some connections returned");
    }
}

fn y_len() -> usize {
    BATCH * SIZES[2]
}

/// One layer, one sample: the gradient at `(i, j)` is `g_i x_j` by the choice of weights and input.
fn returning(device: &Device, fresh: FreshValue) -> (SparseLinear, Dst, ModuleOptimizer) {
    let pattern = Pattern::from_sorted_flats([2, 4], [0, 1, 5, 6]).unwrap();
    let mut layer = SparseLinearConfig::new(4, 2)
        .with_nnz(Some(4))
        .with_bias(false)
        .with_seed(Some(1))
        .init(device);
    layer.pattern = DevicePattern::new(pattern, device);
    layer.values = layer.values.map(|old| {
        let values = TensorData::from([0.5f32, 0.1, 0.2, 0.9]);
        Tensor::from_data(values, &old.device()).require_grad()
    });
    let config = DstConfig::rigl(100)
        .with_every(1)
        .with_drop_fraction(0.5)
        .with_anneal(snack_burn::dst::Anneal::Constant)
        .with_fresh(fresh);
    let mut dst = config.init(&layer).unwrap();
    let momentum = MomentumConfig::new().with_momentum(0.5).with_dampening(0.0);
    let mut optim = SgdConfig::new().with_momentum(Some(momentum)).init();
    // The loss is `y_0 - 10 y_1`, so that the gradient is `[x, -10 x]`.
    let x = tensor2(&[0.001, 0.04, 0.002, 0.003], [1, 4], device);
    let y = layer.forward(x);
    let loss = (y * tensor2(&[1.0, -10.0], [1, 2], device)).sum();
    let grads = GradientsParams::from_grads(loss.backward(), &layer);
    let layer = optim.step(1e-3, layer, grads);
    let layer = dst.step_mut(layer, &mut optim);
    (layer, dst, optim)
}

fn velocity(layer: &SparseLinear, optim: &ModuleOptimizer) -> Vec<f64> {
    let reader = burn_pack::Reader::from_bytes(optim.to_record().into_bytes().unwrap()).unwrap();
    let tensors = reader.into_tensors().unwrap().into_iter();
    let mut tensors = tensors.filter(|t| t.param_id == Some(layer.values.id.val()));
    let tensor = tensors.next().expect("a velocity");
    assert!(tensor.name.ends_with("velocity"));
    let (_, dtype, shape, _, bytes) = tensor.into_parts().unwrap();
    TensorData::from_bytes(bytes, shape, dtype).iter().collect()
}

/// The two smallest, `(0, 1)` and `(1, 1)`, leave; of the eight coordinates the largest gradients
/// are those of `(1, 1)`, which was just dropped, then `(0, 1)` too, then `(1, 3)`.
#[test]
fn a_connection_that_was_just_dropped_may_return() {
    for backend in backends() {
        let fresh = FreshValue::KeepIfReturned(Box::new(FreshValue::Zero));
        let (layer, dst, optim) = returning(&backend.autodiff(), fresh);
        let update = &dst.last_update().unwrap().layers[0];
        assert_eq!((update.dropped, update.grown, update.returned), (0, 0, 2));
        let flats: Vec<u64> = layer.pattern().flats().collect();
        assert_eq!(flats, [0, 1, 5, 6], "{}", backend.name);
        // As if they had stayed: the values after the step, and their momenta.
        let expected = [0.5 - 1e-6, 0.1 - 4e-5, 0.2 + 4e-4, 0.9 + 2e-5];
        assert_within("values", &floats(&layer.values.val()), &expected, 1e-6);
        let expected = [0.001, 0.04, -0.4, -0.02];
        assert_within("velocity", &velocity(&layer, &optim), &expected, 1e-6);
    }
}

/// Without that rule the best of the others enter, with zeros.
#[test]
fn without_returns_a_dropped_connection_stays_out() {
    for backend in backends() {
        let (layer, dst, optim) = returning(&backend.autodiff(), FreshValue::Zero);
        let update = &dst.last_update().unwrap().layers[0];
        assert_eq!((update.dropped, update.grown, update.returned), (2, 2, 0));
        let flats: Vec<u64> = layer.pattern().flats().collect();
        let text = "the gradients at 4 and 7 are -0.01 and -0.03";
        assert_eq!(flats, [0, 4, 6, 7], "{text} on {}", backend.name);
        let values = floats(&layer.values.val());
        assert_eq!((values[1], values[3]), (0.0, 0.0));
        let velocity = velocity(&layer, &optim);
        assert_eq!((velocity[1], velocity[3]), (0.0, 0.0));
    }
}

/// A cosine that has fallen to nothing, at its end and beyond.
#[test]
fn an_annealed_turnover_that_rounds_to_nothing_changes_nothing() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut net = Net::new(&device);
    let mut optim = SgdConfig::new().init();
    let config = DstConfig::rigl(40).with_every(1);
    let mut dst = config.init_from(&net, DstState::at_step(26)).unwrap();
    let before = net.first.pattern().clone();
    for step in 27..=40 {
        let narrow: Vec<f32> = input(step).iter().map(|&f| f as f32).collect();
        let x = tensor2(&narrow, [BATCH, SIZES[0]], &device);
        let loss = net
            .last
            .forward(tanh(net.first.forward(x)))
            .powi_scalar(2)
            .mean();
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        net = optim.step(RATE, net, grads);
        net = dst.step_mut(net, &mut optim);
        let update = dst.last_update();
        assert_eq!(update.is_some(), step < 30, "step {step}");
        if let Some(update) = update {
            assert!(
                update
                    .layers
                    .iter()
                    .all(|l| l.dropped + l.grown + l.returned == 0)
            );
            assert_eq!(update.skipped, None);
        }
    }
    assert_eq!(net.first.pattern(), &before);
    assert_eq!(dst.skipped(), 0);
}
