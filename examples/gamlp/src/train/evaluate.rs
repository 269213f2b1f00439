use crate::{FeatureMatrix, Gamlp, NodeTask};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

/// Fewest nodes of a pass without gradients, so that small training batches do not slow it down.
const FEWEST: usize = 1024;

/// Shares of the nodes that are classified correctly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Of the nodes to learn from, whose own labels are among their inputs.
    #[serde(rename = "train_accuracy")]
    pub train: f64,
    /// Of the nodes to select by.
    #[serde(rename = "valid_accuracy")]
    pub valid: f64,
    /// Of the nodes to judge by.
    #[serde(rename = "test_accuracy")]
    pub test: f64,
}

impl Accuracy {
    /// Measures a model in evaluation mode, in passes of about `batch` nodes.
    pub fn of(model: &Gamlp, task: &NodeTask, batch: usize, device: &Device) -> Self {
        let split = task.split();
        let of = |nodes: &[u32]| accuracy(model, task, nodes, batch, device);
        Self {
            train: of(&split.train),
            valid: of(&split.valid),
            test: of(&split.test),
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
            .forward(&batch.hops, batch.label_embedding)
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
        let logits = model.forward(&batch.hops, batch.label_embedding);
        values.extend(logits.into_data().iter::<f32>());
    }
    FeatureMatrix { width, values }
}
