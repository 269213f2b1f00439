use burn::tensor::Shape;
use rayon::prelude::*;

use crate::fused::base::{AdamWStep, CUBIC, LINEAR};

/// Elements that a task computes at least, so that small tensors are not cut up.
const LEAST: usize = 1 << 12;

/// Calls `compute` for every row of an output of `rows` rows.
fn by_row(rows: usize, width: usize, compute: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    let mut output = vec![0.0; rows * width];
    if output.is_empty() {
        return output;
    }
    let least = LEAST.div_ceil(width);
    output
        .par_chunks_mut(width)
        .with_min_len(least)
        .enumerate()
        .for_each(|(row, output)| compute(row, output));
    output
}

fn row(of: &[f32], index: usize, width: usize) -> &[f32] {
    &of[index * width..][..width]
}

fn dot(lhs: &[f32], rhs: &[f32]) -> f32 {
    lhs.iter().zip(rhs).map(|(lhs, rhs)| lhs * rhs).sum()
}

/// Rows of scores of which each sees one key more than the one before.
pub(super) struct Causal {
    rows: usize,
    queries: usize,
    keys: usize,
    scale: f32,
}

impl Causal {
    pub fn of(shape: &Shape, scale: f32) -> Self {
        let rank = shape.num_dims();
        let (queries, keys) = (shape[rank - 2], shape[rank - 1]);
        Self {
            rows: shape.num_elements() / keys.max(1),
            queries,
            keys,
            scale,
        }
    }

    fn visible(&self, row: usize) -> usize {
        row % self.queries + 1 + self.keys - self.queries
    }

    pub fn softmax(&self, scores: &[f32]) -> Vec<f32> {
        by_row(self.rows, self.keys, |index, weights| {
            let visible = self.visible(index);
            let scores = &row(scores, index, self.keys)[..visible];
            let weights = &mut weights[..visible];
            let highest = scores
                .iter()
                .fold(f32::MIN, |highest, score| highest.max(self.scale * score));
            for (weight, score) in weights.iter_mut().zip(scores) {
                *weight = (self.scale * score - highest).exp();
            }
            let factor = 1.0 / weights.iter().sum::<f32>();
            weights.iter_mut().for_each(|weight| *weight *= factor);
        })
    }

    pub fn backward(&self, weights: &[f32], grad: &[f32]) -> Vec<f32> {
        by_row(self.rows, self.keys, |index, output| {
            let visible = self.visible(index);
            let weights = &row(weights, index, self.keys)[..visible];
            let grad = &row(grad, index, self.keys)[..visible];
            let mean = dot(weights, grad);
            for ((output, weight), grad) in output.iter_mut().zip(weights).zip(grad) {
                *output = self.scale * weight * (grad - mean);
            }
        })
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

pub(super) fn gelu(x: &[f32]) -> Vec<f32> {
    x.par_iter()
        .with_min_len(LEAST)
        .map(|&x| x * sigmoid(x * (LINEAR + CUBIC * x * x)))
        .collect()
}

pub(super) fn gelu_backward(x: &[f32], grad: &[f32]) -> Vec<f32> {
    x.par_iter()
        .zip(grad)
        .with_min_len(LEAST)
        .map(|(&x, grad)| {
            let gate = sigmoid(x * (LINEAR + CUBIC * x * x));
            let slope = x * (LINEAR + 3.0 * CUBIC * x * x);
            grad * gate * (1.0 + slope * (1.0 - gate))
        })
        .collect()
}

/// A layer norm but for its bias.
pub(super) struct Norm<'a> {
    pub gamma: &'a [f32],
    pub epsilon: f32,
}

pub(super) struct NormGradients {
    pub x: Vec<f32>,
    pub gamma: Vec<f32>,
    pub beta: Vec<f32>,
}

impl Norm<'_> {
    /// Mean and inverse deviation.
    fn moments(&self, x: &[f32]) -> (f32, f32) {
        let count = x.len() as f32;
        let mean = x.iter().sum::<f32>() / count;
        let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / count;
        (mean, 1.0 / (variance + self.epsilon).sqrt())
    }

    pub fn apply(&self, x: &[f32], beta: &[f32]) -> Vec<f32> {
        let width = self.gamma.len();
        by_row(x.len() / width.max(1), width, |index, output| {
            let x = row(x, index, width);
            let (mean, inverse) = self.moments(x);
            for (((output, x), gamma), beta) in output.iter_mut().zip(x).zip(self.gamma).zip(beta) {
                *output = (x - mean) * inverse * gamma + beta;
            }
        })
    }

    pub fn backward(&self, x: &[f32], grad: &[f32]) -> NormGradients {
        let width = self.gamma.len();
        let rows = x.len() / width.max(1);
        let count = width as f32;
        let of_x = by_row(rows, width, |index, output| {
            let (x, grad) = (row(x, index, width), row(grad, index, width));
            let (mean, inverse) = self.moments(x);
            let (mut sum, mut moment) = (0.0, 0.0);
            for ((x, grad), gamma) in x.iter().zip(grad).zip(self.gamma) {
                sum += grad * gamma;
                moment += grad * gamma * (x - mean) * inverse;
            }
            for (((output, x), grad), gamma) in output.iter_mut().zip(x).zip(grad).zip(self.gamma) {
                let normal = (x - mean) * inverse;
                *output = inverse * (grad * gamma - (sum + normal * moment) / count);
            }
        });
        let (mut gamma, mut beta) = (vec![0.0; width], vec![0.0; width]);
        for index in 0..rows {
            let (x, grad) = (row(x, index, width), row(grad, index, width));
            let (mean, inverse) = self.moments(x);
            for (((gamma, beta), x), grad) in gamma.iter_mut().zip(&mut beta).zip(x).zip(grad) {
                *gamma += grad * (x - mean) * inverse;
                *beta += grad;
            }
        }
        NormGradients {
            x: of_x,
            gamma,
            beta,
        }
    }
}

/// The highest logit and the sum of exponentials of what the others lack to it.
fn exponentials(logits: &[f32]) -> (f32, f32) {
    let highest = logits.iter().fold(f32::MIN, |highest, &x| highest.max(x));
    (highest, logits.iter().map(|x| (x - highest).exp()).sum())
}

/// Rows of logits of which the first `vocabulary` count.
pub(super) struct Losses {
    pub columns: usize,
    pub vocabulary: usize,
}

impl Losses {
    fn row<'a>(&self, logits: &'a [f32], index: usize) -> &'a [f32] {
        &row(logits, index, self.columns)[..self.vocabulary]
    }

    pub fn forward(&self, logits: &[f32], targets: &[usize]) -> Vec<f32> {
        targets
            .par_iter()
            .enumerate()
            .map(|(index, &target)| {
                let logits = self.row(logits, index);
                let (highest, sum) = exponentials(logits);
                sum.ln() + highest - logits[target]
            })
            .collect()
    }

    pub fn backward(&self, logits: &[f32], targets: &[usize], grad: &[f32]) -> Vec<f32> {
        by_row(targets.len(), self.columns, |index, output| {
            let logits = self.row(logits, index);
            let (highest, sum) = exponentials(logits);
            let factor = grad[index] / sum;
            for (output, x) in output.iter_mut().zip(logits) {
                *output = factor * (x - highest).exp();
            }
            output[targets[index]] -= grad[index];
        })
    }
}

/// Weights, first and second moments after a step.
pub(super) fn adamw(state: &mut [Vec<f32>; 3], grad: &[f32], step: AdamWStep) {
    let [weight, first, second] = state;
    weight
        .par_iter_mut()
        .zip(first)
        .zip(second)
        .zip(grad)
        .with_min_len(LEAST)
        .for_each(|(((weight, first), second), &grad)| {
            [*weight, *first, *second] = step.apply(*weight, grad, *first, *second);
        });
}

/// A cache of keys and values, of which the first places are filled.
pub(super) struct Cached {
    pub heads: usize,
    pub places: usize,
    pub head_width: usize,
    pub seen: usize,
    pub scale: f32,
}

impl Cached {
    pub fn attend(&self, query: &[f32], cache: &[f32]) -> Vec<f32> {
        let width = self.head_width;
        by_row(query.len() / width, width, |index, output| {
            let (sample, head) = (index / self.heads, index % self.heads);
            let part = |of: usize| {
                let first = (sample * 2 + of) * self.heads + head;
                row(cache, first, self.places * width)
            };
            let (keys, values, query) = (part(0), part(1), row(query, index, width));
            let scores: Vec<f32> = keys
                .chunks(width)
                .take(self.seen)
                .map(|key| self.scale * dot(query, key))
                .collect();
            let (highest, sum) = exponentials(&scores);
            for (score, value) in scores.iter().zip(values.chunks(width)) {
                let weight = (score - highest).exp() / sum;
                for (output, value) in output.iter_mut().zip(value) {
                    *output += weight * value;
                }
            }
        })
    }
}
