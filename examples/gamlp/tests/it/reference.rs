//! The network computed again on the host in double precision, with plain loops and in the order
//! in which the paper defines it.

use crate::support::Weights;
use gamlp::{GamlpConfig, ScoreActivation};

/// A matrix, row by row.
#[derive(Debug, Clone)]
pub struct Matrix {
    pub width: usize,
    pub values: Vec<f64>,
}

impl Matrix {
    pub fn new(width: usize, values: Vec<f64>) -> Self {
        Self { width, values }
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks(self.width)
    }

    fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self::new(self.width, self.values.iter().map(|&x| f(x)).collect())
    }

    fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
        assert_eq!(self.width, other.width);
        let pairs = self.values.iter().zip(&other.values);
        Self::new(self.width, pairs.map(|(&x, &y)| f(x, y)).collect())
    }

    fn beside(&self, other: &Self) -> Self {
        let rows = self.rows().zip(other.rows());
        let values = rows.flat_map(|(x, y)| x.iter().chain(y).copied()).collect();
        Self::new(self.width + other.width, values)
    }
}

/// Batch statistics, or running ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Training,
    Evaluation,
}

/// The network of `config` with these weights.
pub struct Reference<'a> {
    pub config: &'a GamlpConfig,
    pub weights: &'a Weights,
    pub phase: Phase,
}

impl Reference<'_> {
    pub fn logits(&self, hops: &[Matrix], labels: &Matrix) -> Matrix {
        let transformed: Vec<_> = match self.config.pre_process {
            true => hops
                .iter()
                .enumerate()
                .map(|(k, x)| {
                    self.feed_forward(&format!("process.{k}"), 2, self.config.batch_norm, x)
                })
                .collect(),
            false => hops.to_vec(),
        };
        let mut combined = self.attend(&transformed);
        if self.config.residual {
            let residual = self.linear("res_fc", &hops[0]);
            combined = self.prelu("prelu.weight", &combined.zip(&residual, |x, y| x + y));
        }
        let from_labels = self.feed_forward("label_fc", self.config.label_layers, true, labels);
        self.output(&combined).zip(&from_labels, |x, y| x + y)
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        crate::support::doubles(&self.weights.get(name).values)
    }

    /// `x W^T + b`.
    fn linear(&self, name: &str, x: &Matrix) -> Matrix {
        let weight = self.numbers(&format!("{name}.weight"));
        let bias = self.numbers(&format!("{name}.bias"));
        let row = |x: &[f64]| -> Vec<f64> {
            let outputs = weight.chunks(x.len()).zip(&bias);
            outputs.map(|(w, b)| b + dot(w, x)).collect()
        };
        Matrix::new(bias.len(), x.rows().flat_map(row).collect())
    }

    /// `x W`.
    fn product(&self, name: &str, x: &Matrix) -> Matrix {
        let weight = self.numbers(name);
        let width = weight.len() / x.width;
        let column = |j: usize| weight.iter().skip(j).step_by(width).copied().collect();
        let columns: Vec<Vec<f64>> = (0..width).map(column).collect();
        let row = |x: &[f64]| -> Vec<f64> { columns.iter().map(|w| dot(w, x)).collect() };
        Matrix::new(width, x.rows().flat_map(row).collect())
    }

    fn prelu(&self, name: &str, x: &Matrix) -> Matrix {
        let slope = self.numbers(name)[0];
        x.map(|x| if x > 0.0 { x } else { slope * x })
    }

    fn norm(&self, name: &str, x: &Matrix) -> Matrix {
        let part = |part: &str| self.numbers(&format!("{name}.{part}"));
        let (gamma, beta) = (part("weight"), part("bias"));
        let (mut means, mut variances) = (part("running_mean"), part("running_var"));
        if self.phase == Phase::Training {
            let count = (x.values.len() / x.width) as f64;
            for j in 0..x.width {
                let column = || x.rows().map(|row| row[j]);
                means[j] = column().sum::<f64>() / count;
                variances[j] = column().map(|x| (x - means[j]).powi(2)).sum::<f64>() / count;
            }
        }
        let row = |row: &[f64]| -> Vec<f64> {
            let scaled = row
                .iter()
                .enumerate()
                .map(|(j, x)| (x - means[j]) / (variances[j] + 1e-5).sqrt() * gamma[j] + beta[j]);
            scaled.collect()
        };
        Matrix::new(x.width, x.rows().flat_map(row).collect())
    }

    fn feed_forward(&self, name: &str, layers: usize, batch_norm: bool, x: &Matrix) -> Matrix {
        let mut x = self.linear(&format!("{name}.layers.0"), x);
        for i in 1..layers {
            if batch_norm {
                x = self.norm(&format!("{name}.bns.{}", i - 1), &x);
            }
            x = self.prelu(&format!("{name}.prelu.weight"), &x);
            x = self.linear(&format!("{name}.layers.{i}"), &x);
        }
        x
    }

    fn attend(&self, hops: &[Matrix]) -> Matrix {
        let activate = |x: f64| match self.config.activation {
            ScoreActivation::Relu => x.max(0.0),
            ScoreActivation::LeakyRelu => x.max(0.2 * x),
            ScoreActivation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        };
        let mut scores = vec![
            self.linear("lr_att", &hops[0].beside(&hops[0]))
                .map(activate),
        ];
        for hop in &hops[1..] {
            let mean = weighted(&scores, hops);
            scores.push(self.linear("lr_att", &mean.beside(hop)).map(activate));
        }
        weighted(&scores, hops)
    }

    fn output(&self, input: &Matrix) -> Matrix {
        let (layers, alpha) = (self.config.output_layers, self.config.alpha);
        let layer = |i: usize, x: &Matrix| {
            let name = format!("lr_output.layers.{i}");
            let product = self.product(&format!("{name}.weight"), x);
            self.norm(&format!("{name}.bias"), &product)
        };
        let with_input = |y: Matrix, x: &Matrix| match y.width == x.width {
            true => y.zip(x, |y, x| y + x),
            false => y,
        };
        let mut x = with_input(layer(0, input), input);
        let start = x.clone();
        for i in 1..layers {
            x = self.prelu("lr_output.prelu.weight", &x);
            x = match i == layers - 1 {
                true => with_input(layer(i, &x), &x),
                false => {
                    let mixed = x.zip(&start, |x, s| (1.0 - alpha) * x + alpha * s);
                    with_input(layer(i, &mixed), &x)
                }
            };
        }
        x
    }
}

/// The sum of the first hops, weighted by the softmax of the scores of each row.
fn weighted(scores: &[Matrix], hops: &[Matrix]) -> Matrix {
    let mut sum = hops[0].map(|_| 0.0);
    for row in 0..scores[0].values.len() {
        let powers: Vec<f64> = scores.iter().map(|s| s.values[row].exp()).collect();
        let total: f64 = powers.iter().sum();
        for (power, hop) in powers.iter().zip(hops) {
            let slots = row * hop.width..(row + 1) * hop.width;
            for (sum, x) in sum.values[slots.clone()].iter_mut().zip(&hop.values[slots]) {
                *sum += power / total * x;
            }
        }
    }
    sum
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}
