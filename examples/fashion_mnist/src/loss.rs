use burn::tensor::{
    Tensor,
    activation::{log_softmax, sigmoid},
};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What training minimizes, and what is reported as the loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Squared error of sigmoid outputs
    Mse,
    /// Cross-entropy of softmax outputs
    CrossEntropy,
}

/// How the loss is differentiated.
///
/// The published SET program departs from the derivative of its loss in two places. The slope of
/// the sigmoid is evaluated at the output `a` instead of at the score, so that the gradient with
/// respect to the scores is `(a - y) s(a) (1 - s(a))` with `s` the sigmoid; the second factor is
/// between 0.197 and 0.25 where the true slope vanishes with the score. And what dropout leaves out
/// in the forward pass takes part in the backward pass: a unit that was left out passes its
/// gradient on. Its results depend on both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gradient {
    /// As in the published SET program, which departs from the derivative in two places
    Published,
    /// The derivative of the loss
    Exact,
}

impl core::fmt::Display for Gradient {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Published => "published",
            Self::Exact => "exact",
        })
    }
}

impl core::fmt::Display for Loss {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Mse => "mse",
            Self::CrossEntropy => "cross-entropy",
        })
    }
}

/// The loss of a batch.
#[derive(Debug, Clone)]
pub struct BatchLoss {
    /// What to differentiate, `[1]`: the sum over the classes, averaged over the batch.
    pub objective: Tensor<1>,
    /// What to report, `[1]`, without gradients: squared errors averaged over batch and classes, or
    /// the cross-entropy in nats.
    pub reported: Tensor<1>,
}

impl Loss {
    /// The loss of scores `[batch, classes]` against ones among zeros `[batch, classes]`. The
    /// objective of [`Mse`](Self::Mse) is half the squared error, or with
    /// [`Gradient::Published`] a number whose derivative is what the published program takes for
    /// that of it. The cross-entropy has the exact gradient only.
    pub fn batch(self, gradient: Gradient, scores: Tensor<2>, targets: Tensor<2>) -> BatchLoss {
        let [count, classes] = scores.dims();
        let (count, classes) = (count as f64, classes as f64);
        match (self, gradient) {
            (Self::Mse, Gradient::Published) => {
                let outputs = sigmoid(scores.clone().detach());
                let error = outputs.clone() - targets;
                let second = sigmoid(outputs);
                let slope = second.clone() * (second.neg() + 1.0);
                BatchLoss {
                    objective: (scores * (error.clone() * slope)).sum() / count,
                    reported: error.powi_scalar(2).mean().inner(),
                }
            }
            (Self::Mse, Gradient::Exact) => {
                let error = sigmoid(scores) - targets;
                let objective = error.powi_scalar(2).sum() / (2.0 * count);
                BatchLoss {
                    reported: objective.clone().inner() * (2.0 / classes),
                    objective,
                }
            }
            (Self::CrossEntropy, _) => {
                let objective = (log_softmax(scores, 1) * targets).sum().neg() / count;
                BatchLoss {
                    reported: objective.clone().inner(),
                    objective,
                }
            }
        }
    }

    /// What is reported for every sample, `[batch]`, from scores and ones among zeros
    /// `[batch, classes]`.
    pub fn samples(self, scores: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
        let losses = match self {
            Self::Mse => (sigmoid(scores) - targets).powi_scalar(2).mean_dim(1),
            Self::CrossEntropy => (log_softmax(scores, 1) * targets).sum_dim(1).neg(),
        };
        losses.squeeze_dim(1)
    }

    /// What is reported for one sample, from its scores and its class.
    pub fn of_sample(self, scores: &[f32], label: usize) -> f64 {
        let scores: Vec<f64> = scores.iter().map(|&score| score.into()).collect();
        match self {
            Self::Mse => {
                let error = |(class, score): (usize, &f64)| {
                    let target = f64::from(u8::from(class == label));
                    (1.0 / (1.0 + (-score).exp()) - target).powi(2)
                };
                scores.iter().enumerate().map(error).sum::<f64>() / scores.len() as f64
            }
            Self::CrossEntropy => {
                let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|score| (score - highest).exp()).sum();
                sum.ln() + highest - scores[label]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::for_tests;

    const SCORES: [[f32; 3]; 2] = [[0.5, -1.0, 2.0], [0.0, 3.0, -0.25]];
    const LABELS: [usize; 2] = [2, 0];

    fn sigmoid64(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    /// Loss and gradient of the scores.
    fn run(loss: Loss, gradient: Gradient) -> (f64, Vec<f64>) {
        let device = for_tests().autodiff();
        let scores = Tensor::<2>::from_data(SCORES, &device).require_grad();
        let mut targets = [[0.0_f32; 3]; 2];
        for (row, label) in targets.iter_mut().zip(LABELS) {
            row[label] = 1.0;
        }
        let batch = loss.batch(
            gradient,
            scores.clone(),
            Tensor::from_data(targets, &device),
        );
        let grads = batch.objective.backward();
        let gradient = scores.grad(&grads).unwrap().into_data();
        (
            batch.reported.into_scalar::<f64>(),
            gradient.iter::<f64>().collect(),
        )
    }

    fn check(loss: Loss, taken: Gradient, gradient: impl Fn(f64, f64, &[f64], usize) -> f64) {
        let (reported, found) = run(loss, taken);
        let mut expected = Vec::new();
        let mut mean = 0.0;
        for (scores, label) in SCORES.iter().zip(LABELS) {
            mean += loss.of_sample(scores, label) / 2.0;
            let scores: Vec<f64> = scores.iter().map(|&s| s.into()).collect();
            for (class, &score) in scores.iter().enumerate() {
                let target = f64::from(u8::from(class == label));
                expected.push(gradient(score, target, &scores, class) / 2.0);
            }
        }
        assert!((reported - mean).abs() < 1e-6, "{reported} {mean}");
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn the_squared_error_has_the_true_gradient() {
        check(Loss::Mse, Gradient::Exact, |score, target, _, _| {
            let output = sigmoid64(score);
            (output - target) * output * (1.0 - output)
        });
    }

    #[test]
    fn the_published_gradient_takes_the_slope_at_the_output() {
        check(Loss::Mse, Gradient::Published, |score, target, _, _| {
            let output = sigmoid64(score);
            let second = sigmoid64(output);
            (output - target) * second * (1.0 - second)
        });
    }

    #[test]
    fn cross_entropy_has_the_gradient_of_softmax() {
        check(
            Loss::CrossEntropy,
            Gradient::Exact,
            |score, target, scores, _| {
                let sum: f64 = scores.iter().map(|score| score.exp()).sum();
                score.exp() / sum - target
            },
        );
    }

    #[test]
    fn samples_agree_on_device_and_host() {
        let device = for_tests();
        for loss in [Loss::Mse, Loss::CrossEntropy] {
            let targets = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]];
            let scores = Tensor::<2>::from_data(SCORES, &device);
            let found = loss.samples(scores, Tensor::from_data(targets, &device));
            let found: Vec<f64> = found.into_data().iter::<f64>().collect();
            for ((found, scores), label) in found.iter().zip(SCORES).zip(LABELS) {
                let expected = loss.of_sample(&scores, label);
                assert!(
                    (found - expected).abs() < 1e-6,
                    "{loss}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn losses_of_samples_by_hand() {
        assert!((Loss::Mse.of_sample(&[0.0, 0.0], 1) - 0.25).abs() < 1e-12);
        assert!((Loss::CrossEntropy.of_sample(&[0.0, 0.0], 1) - 2_f64.ln()).abs() < 1e-12);
        assert!((Loss::CrossEntropy.of_sample(&[1e4, 0.0], 1) - 1e4).abs() < 1e-9);
    }
}
