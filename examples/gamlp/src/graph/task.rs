use super::{Adjacency, LabelSeeds, NodeBatch, NodeInputs, Propagator, ReliableSet};
use crate::{GamlpError, GraphData, GraphId, NodeSplit};
use burn::tensor::Device;

/// A graph made ready for a network: hops and label embedding of every node, and the classes to learn.
#[derive(Debug, Clone)]
pub struct NodeTask {
    id: GraphId,
    /// Without features, which are among the inputs.
    data: GraphData,
    /// `None` if no other labels are to be propagated.
    propagator: Option<Propagator>,
    inputs: NodeInputs,
    label_hops: usize,
}

impl NodeTask {
    /// Propagates features `hops` times and the labels to learn from `label_hops` times, on `device`.
    ///
    /// # Errors
    ///
    /// [`GamlpError::TooFewNodes`] if a batch cannot have two nodes; [`GamlpError::Graph`] if the
    /// graph does not fit into a sparse matrix.
    ///
    /// # Panics
    ///
    /// Panics if a node of a split has no label.
    pub fn new(
        id: GraphId,
        mut data: GraphData,
        [hops, label_hops]: [usize; 2],
        device: &Device,
    ) -> Result<Self, GamlpError> {
        let found = data.split.train.len();
        if found < 2 {
            return Err(GamlpError::TooFewNodes {
                name: id.name,
                found,
            });
        }
        let adjacency = Adjacency::new(&data).map_err(|source| GamlpError::Graph {
            name: id.name.clone(),
            source,
        })?;
        let propagator = Propagator::new(&adjacency, &device.clone().without_autodiff());
        let features = core::mem::take(&mut data.features);
        let seeds = LabelSeeds::new(&data, &ReliableSet::default());
        let inputs = NodeInputs::new(features, &seeds, &propagator, [hops, label_hops]);
        // Only the propagator needs them from here on.
        data.edges = Vec::new();
        Ok(Self {
            id,
            data,
            propagator: Some(propagator),
            inputs,
            label_hops,
        })
    }

    /// Takes probabilities of reliable nodes for labels, beside the labels to learn from.
    ///
    /// # Panics
    ///
    /// Panics after [`without_graph`](Self::without_graph).
    pub fn with_reliable(mut self, reliable: &ReliableSet) -> Self {
        let propagator = self.propagator.as_ref();
        let propagator = propagator.expect("NodeTask::with_reliable: the graph is still there");
        let seeds = LabelSeeds::new(&self.data, reliable);
        self.inputs = self.inputs.with_labels(&seeds, propagator, self.label_hops);
        self
    }

    /// Frees the memory of the graph on the device, if no other labels are to be propagated.
    pub fn without_graph(mut self) -> Self {
        if let Some(propagator) = self.propagator.take() {
            let device = propagator.matrix().device();
            drop(propagator);
            device.memory_cleanup();
        }
        self
    }

    /// The inputs of some nodes, in their order.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn batch(&self, nodes: &[u32], device: &Device) -> NodeBatch {
        self.inputs.batch(nodes, device)
    }

    /// The classes of some nodes, in their order.
    ///
    /// # Panics
    ///
    /// Panics if a node has no class.
    pub fn classes_of(&self, nodes: &[u32]) -> Vec<i32> {
        let label = |&node| {
            let label = self.data.labels.get(node);
            label.expect("nodes of a split have labels") as i32
        };
        nodes.iter().map(label).collect()
    }

    /// Which nodes serve for what.
    pub fn split(&self) -> &NodeSplit {
        &self.data.split
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.data.nodes()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.data.labels.classes()
    }

    /// Number of features of a node.
    pub fn features(&self) -> usize {
        self.inputs.hops()[0].width
    }

    /// Hops and label embedding of all nodes.
    pub fn inputs(&self) -> &NodeInputs {
        &self.inputs
    }

    /// What tells the graph from others.
    pub fn id(&self) -> &GraphId {
        &self.id
    }

    /// Share of the nodes to judge by that have the most frequent class of the nodes to learn from:
    /// what a constant answer reaches.
    pub fn constant_accuracy(&self) -> f64 {
        let mut counts = vec![0_usize; self.classes()];
        for class in self.classes_of(&self.data.split.train) {
            counts[class as usize] += 1;
        }
        let most = (0..counts.len()).rev().max_by_key(|&class| counts[class]);
        let most = most.unwrap_or_default() as i32;
        let test = self.classes_of(&self.data.split.test);
        let right = test.iter().filter(|&&class| class == most).count();
        right as f64 / test.len().max(1) as f64
    }
}
