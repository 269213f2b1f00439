use super::{LabelSeeds, NodeMatrix, Propagator};
use crate::FeatureMatrix;
use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;
use std::borrow::Borrow;

/// Fewest rows that a thread copies.
const ROWS: usize = 256;

/// All that the network sees of a graph: the hops of every node, and its label embedding. The graph is
/// not needed any more.
#[derive(Debug, Clone)]
pub struct NodeInputs {
    hops: Vec<NodeMatrix>,
    label_embedding: NodeMatrix,
}

/// The inputs of some nodes.
#[derive(Debug, Clone)]
pub struct NodeBatch {
    /// `[batch, hops, features]`: features as given, then those of every hop.
    pub hops: Tensor<3>,
    /// `[batch, classes]`.
    pub label_embedding: Tensor<2>,
}

impl NodeInputs {
    /// Propagates features `hops` times and labels `label_hops` times, in memory.
    ///
    /// # Panics
    ///
    /// Panics if features, labels and graph are of different numbers of nodes.
    pub fn new(
        features: FeatureMatrix,
        seeds: &LabelSeeds,
        propagator: &Propagator,
        [hops, label_hops]: [usize; 2],
    ) -> Self {
        let propagated = propagator.hops(&features, hops);
        Self {
            hops: core::iter::once(features)
                .chain(propagated)
                .map(NodeMatrix::from)
                .collect(),
            label_embedding: seeds.embed(propagator, label_hops).into(),
        }
    }

    /// Takes matrices that were propagated before: the features as given, then those of every hop, and
    /// the label embedding.
    pub fn from_matrices(hops: Vec<NodeMatrix>, label_embedding: NodeMatrix) -> Self {
        Self {
            hops,
            label_embedding,
        }
    }

    /// Takes another label embedding, for the next stage of training.
    pub fn with_labels(self, label_embedding: NodeMatrix) -> Self {
        Self {
            label_embedding,
            ..self
        }
    }

    /// The features as given, then those of every hop.
    pub fn hops(&self) -> &[NodeMatrix] {
        &self.hops
    }

    /// The label embedding.
    pub fn label_embedding(&self) -> &NodeMatrix {
        &self.label_embedding
    }

    /// The inputs of some nodes, in their order.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn batch(&self, nodes: &[u32], device: &Device) -> NodeBatch {
        let (hops, labels) = (&self.hops, &self.label_embedding);
        let features = hops[0].width();
        let shape = [nodes.len(), hops.len(), features];
        NodeBatch {
            hops: Tensor::from_data(TensorData::new(rows(hops, nodes), shape), device),
            label_embedding: Tensor::from_data(
                TensorData::new(rows(&[labels], nodes), [nodes.len(), labels.width()]),
                device,
            ),
        }
    }
}

/// The rows of some nodes in several matrices of one width, node by node.
fn rows(matrices: &[impl Borrow<NodeMatrix> + Sync], nodes: &[u32]) -> Vec<f32> {
    let width = matrices[0].borrow().width();
    let mut values = vec![0.0; nodes.len() * matrices.len() * width];
    let rows = values.par_chunks_exact_mut(matrices.len() * width);
    rows.zip(nodes)
        .with_min_len(ROWS)
        .for_each(|(rows, &node)| {
            for (row, matrix) in rows.chunks_exact_mut(width).zip(matrices) {
                row.copy_from_slice(matrix.borrow().row(node as usize));
            }
        });
    values
}
