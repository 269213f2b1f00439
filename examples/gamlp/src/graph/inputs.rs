use super::{LabelSeeds, Propagator};
use crate::FeatureMatrix;
use burn::tensor::{Device, Tensor, TensorData};

/// All that the network sees of a graph: the hops of every node, and its label embedding. The graph is
/// not needed any more.
#[derive(Debug, Clone)]
pub struct NodeInputs {
    hops: Vec<FeatureMatrix>,
    label_embedding: FeatureMatrix,
}

/// The inputs of some nodes.
#[derive(Debug, Clone)]
pub struct NodeBatch {
    /// Features as given, then those of every hop, each `[batch, features]`.
    pub hops: Vec<Tensor<2>>,
    /// `[batch, classes]`.
    pub label_embedding: Tensor<2>,
}

impl NodeInputs {
    /// Propagates features `hops` times and labels `label_hops` times.
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
            hops: core::iter::once(features).chain(propagated).collect(),
            label_embedding: seeds.embed(propagator, label_hops),
        }
    }

    /// Takes another label embedding, for the next stage of training.
    pub fn with_labels(
        mut self,
        seeds: &LabelSeeds,
        propagator: &Propagator,
        label_hops: usize,
    ) -> Self {
        self.label_embedding = seeds.embed(propagator, label_hops);
        self
    }

    /// The features as given, then those of every hop.
    pub fn hops(&self) -> &[FeatureMatrix] {
        &self.hops
    }

    /// The label embedding.
    pub fn label_embedding(&self) -> &FeatureMatrix {
        &self.label_embedding
    }

    /// The inputs of some nodes, in their order.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn batch(&self, nodes: &[u32], device: &Device) -> NodeBatch {
        let rows = |matrix: &FeatureMatrix| {
            let mut values = Vec::with_capacity(nodes.len() * matrix.width);
            for &node in nodes {
                values.extend_from_slice(matrix.row(node as usize));
            }
            let data = TensorData::new(values, [nodes.len(), matrix.width]);
            Tensor::from_data(data, device)
        };
        NodeBatch {
            hops: self.hops.iter().map(rows).collect(),
            label_embedding: rows(&self.label_embedding),
        }
    }
}
