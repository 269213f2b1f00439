use super::Propagator;
use crate::{FeatureMatrix, GraphData};
use core::ops::ControlFlow;

/// Nodes whose predicted classes are certain enough to be used as labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReliableSet {
    /// The nodes, in the order of the candidates.
    pub nodes: Vec<u32>,
    /// The probabilities of the classes of each of them.
    pub probabilities: FeatureMatrix,
}

impl ReliableSet {
    /// Selects the candidates whose most probable class has more than `threshold`, the
    /// probabilities being the softmax of `logits / temperature`.
    ///
    /// # Panics
    ///
    /// Panics if there is no row of logits for a candidate.
    pub fn select(
        logits: &FeatureMatrix,
        candidates: impl IntoIterator<Item = u32>,
        threshold: f32,
        temperature: f32,
    ) -> Self {
        let mut found = Self {
            nodes: Vec::new(),
            probabilities: FeatureMatrix {
                width: logits.width,
                values: Vec::new(),
            },
        };
        for node in candidates {
            let row = softmax(logits.row(node as usize), temperature);
            if row.iter().copied().fold(0.0, f32::max) > threshold {
                found.nodes.push(node);
                found.probabilities.values.extend(row);
            }
        }
        found
    }
}

fn softmax(logits: &[f32], temperature: f32) -> Vec<f32> {
    let scaled = logits.iter().map(|x| x / temperature);
    let largest = scaled.clone().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = scaled.map(|x| (x - largest).exp()).collect();
    let total: f32 = powers.iter().sum();
    powers.iter().map(|power| power / total).collect()
}

/// What is known about the classes before the labels are propagated: one-hot rows for the nodes to learn
/// from, probabilities for reliable ones, zeros for all others.
///
/// A node's own label is not taken out: walks that return bring it back to the node, as in the
/// published code.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelSeeds(FeatureMatrix);

impl LabelSeeds {
    /// The labels of the nodes to learn from, and the probabilities of reliable nodes.
    ///
    /// # Panics
    ///
    /// Panics if a node to learn from has no label, or the probabilities are of another width than
    /// the number of classes.
    pub fn new(data: &GraphData, reliable: &ReliableSet) -> Self {
        let classes = data.labels.classes();
        let mut values = vec![0.0; data.nodes() * classes];
        for &node in &data.split.train {
            let label = data.labels.get(node);
            let label = label.expect("the nodes to learn from have labels") as usize;
            values[node as usize * classes + label] = 1.0;
        }
        for (index, &node) in reliable.nodes.iter().enumerate() {
            let start = node as usize * classes;
            values[start..start + classes].copy_from_slice(reliable.probabilities.row(index));
        }
        Self(FeatureMatrix {
            width: classes,
            values,
        })
    }

    /// The rows.
    pub fn matrix(&self) -> &FeatureMatrix {
        &self.0
    }

    /// The label embedding: the seeds propagated `hops` times.
    pub fn embed(&self, propagator: &Propagator, hops: usize) -> FeatureMatrix {
        propagator.last_hop(&self.0, hops)
    }

    /// Writes the label embedding into a matrix of the same shape. `done` is as in
    /// [`Propagator::hops_into`].
    ///
    /// # Panics
    ///
    /// Panics if the matrix is of another shape.
    pub fn embed_into(
        &self,
        propagator: &Propagator,
        hops: usize,
        embedding: &mut [f32],
        done: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        embedding.copy_from_slice(&self.0.values);
        propagator.last_hop_into(&self.0, hops, embedding, done)
    }
}
