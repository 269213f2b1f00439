use crate::{FeatureMatrix, Gamlp, NodeTask, Part};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use core::fmt;
use serde::{Deserialize, Serialize};

/// Fewest nodes of a pass without gradients, so that small training batches do not slow it down.
const FEWEST: usize = 1024;

/// Shares of the nodes that are classified correctly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Of the nodes to learn from, whose own labels are among their inputs; absent if it was not asked
    /// for.
    #[serde(
        rename = "train_accuracy",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub train: Option<f64>,
    /// Of the nodes to select by.
    #[serde(rename = "valid_accuracy")]
    pub valid: f64,
    /// Of the nodes to judge by; absent if it was not asked for.
    #[serde(
        rename = "test_accuracy",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub test: Option<f64>,
}

impl Accuracy {
    /// Measures a model in evaluation mode on the nodes to select by and those of `parts`, in passes
    /// of about `batch` nodes.
    pub fn of(
        model: &Gamlp,
        task: &NodeTask,
        parts: &[Part],
        batch: usize,
        device: &Device,
    ) -> Self {
        let of = |part: Part| accuracy(model, task, part.of(task.split()), batch, device);
        let asked = |part: Part| parts.contains(&part).then(|| of(part));
        Self {
            train: asked(Part::Train),
            valid: of(Part::Valid),
            test: asked(Part::Test),
        }
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "validation accuracy {:.4}", self.valid)?;
        match self.test {
            Some(test) => write!(f, ", test accuracy {test:.4}"),
            None => Ok(()),
        }
    }
}

/// The share of `nodes` that a model in evaluation mode classifies correctly, in passes of about
/// `batch` nodes; waits for the device once.
///
/// # Panics
///
/// Panics if a node has no class.
pub fn accuracy(
    model: &Gamlp,
    task: &NodeTask,
    nodes: &[u32],
    batch: usize,
    device: &Device,
) -> f64 {
    let right = nodes.chunks(batch.max(FEWEST)).map(|nodes| {
        let batch = task.batch(nodes, device);
        let found = model
            .forward(batch.hops, batch.label_embedding)
            .argmax(1)
            .cast(DType::I32);
        let expected = TensorData::new(task.classes_of(nodes), [nodes.len(), 1]);
        let expected = Tensor::<2, Int>::from_data(expected, (device, DType::I32));
        found.equal(expected).int().sum()
    });
    let right = right.reduce(|sum, count| sum + count);
    let right = right.map_or(0, |sum| sum.into_scalar::<i64>());
    right as f64 / nodes.len().max(1) as f64
}

/// The logits of all nodes of a graph, of a model in evaluation mode.
pub fn all_logits(model: &Gamlp, task: &NodeTask, batch: usize, device: &Device) -> FeatureMatrix {
    let width = task.classes();
    let mut values = Vec::with_capacity(task.nodes() * width);
    let nodes: Vec<u32> = (0..task.nodes() as u32).collect();
    for nodes in nodes.chunks(batch.max(FEWEST)) {
        let batch = task.batch(nodes, device);
        let logits = model.forward(batch.hops, batch.label_embedding);
        values.extend(logits.into_data().iter::<f32>());
    }
    FeatureMatrix { width, values }
}
