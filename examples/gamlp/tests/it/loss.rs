//! The loss of reliable label utilization, against numbers computed by hand.

use crate::support::{device, distance};
use burn::tensor::Tensor;
use gamlp::{BatchTargets, FeatureMatrix, ReliableSet};

const LOGITS: [[f32; 3]; 3] = [[1.0, 0.0, -1.0], [0.5, 0.5, 0.0], [-2.0, 1.0, 0.3]];

fn log_softmax(row: &[f32]) -> Vec<f64> {
    let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
    row.iter().map(|&x| f64::from(x) - total.ln()).collect()
}

#[test]
fn labels_alone_give_the_cross_entropy() {
    let device = device();
    let targets = BatchTargets::new(vec![0, 2, 1], &device);
    let loss = targets.loss(Tensor::from_floats(LOGITS, &device));
    let expected = [(0, 0), (1, 2), (2, 1)].map(|(row, class)| -log_softmax(&LOGITS[row])[class]);
    let expected = expected.iter().sum::<f64>() / 3.0;
    assert!(distance(&loss, &[expected]) < 1e-6);
}

#[test]
fn reliable_rows_add_their_divergence_in_proportion() {
    let device = device();
    let set = ReliableSet {
        nodes: vec![8, 9, 4],
        probabilities: FeatureMatrix {
            width: 3,
            values: vec![0.0, 0.0, 1.0, 0.9, 0.1, 0.0, 0.2, 0.7, 0.1],
        },
    };
    let gamma = 0.25;
    let targets = BatchTargets::new(vec![1], &device).with_reliable(&set, &[2, 1], gamma, &device);
    let loss = targets.loss(Tensor::from_floats(LOGITS, &device));

    let divergence = |logits: &[f32], q: [f64; 3]| {
        let logs = log_softmax(logits);
        let sum: f64 = q
            .iter()
            .zip(logs)
            .map(|(q, log)| q * ((q + 1e-8).ln() - log))
            .sum();
        q.iter().copied().fold(0.0, f64::max) * sum
    };
    let first = divergence(&LOGITS[1], [0.2, 0.7, 0.1]);
    let second = divergence(&LOGITS[2], [0.9, 0.1, 0.0]);
    let learned = -log_softmax(&LOGITS[0])[1];
    let expected = learned / 3.0 + gamma * (first + second) / 2.0 * 2.0 / 3.0;
    assert!(distance(&loss, &[expected]) < 1e-6);
}
