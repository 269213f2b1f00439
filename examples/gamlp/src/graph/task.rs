use super::{
    DeviceRows, HopKind, LabelSeeds, NodeBatch, NodeInputs, Preparation, Propagator, ReliableSet,
    storage::Storage,
};
use crate::{GamlpError, GraphData, GraphId, NodeSplit};
use burn::tensor::Device;
use core::ops::ControlFlow;

/// A graph made ready for a network: hops and label embedding of every node, and the classes to learn.
#[derive(Debug, Clone)]
pub struct NodeTask {
    id: GraphId,
    /// Without features, which are among the inputs.
    data: GraphData,
    /// `None` if no other labels are to be propagated.
    propagator: Option<Propagator>,
    inputs: NodeInputs,
    storage: Storage,
    device_rows: Option<DeviceRows>,
    device_bytes: u64,
    label_hops: usize,
}

impl NodeTask {
    /// Propagates features `hops` times and the labels to learn from `label_hops` times, on `device`,
    /// and keeps them in memory.
    ///
    /// # Errors
    ///
    /// As [`prepare`](Self::prepare).
    ///
    /// # Panics
    ///
    /// Panics if a node of a split has no label.
    pub fn new(
        id: GraphId,
        data: GraphData,
        hops: [usize; 2],
        device: &Device,
    ) -> Result<Self, GamlpError> {
        Self::prepare(id, data, &Preparation::in_memory(hops), device)
    }

    /// Propagates features and the labels to learn from on `device`, or finds them where an earlier run
    /// has left them.
    ///
    /// # Errors
    ///
    /// [`GamlpError::TooFewNodes`] if a batch cannot have two nodes; [`GamlpError::Graph`] if the
    /// graph does not fit into a sparse matrix; [`GamlpError::HopFiles`] if a file cannot be written;
    /// [`GamlpError::Interrupted`] if the [interrupt](Preparation::interrupt) comes.
    ///
    /// # Panics
    ///
    /// Panics if a node of a split has no label.
    pub fn prepare(
        id: GraphId,
        mut data: GraphData,
        preparation: &Preparation,
        device: &Device,
    ) -> Result<Self, GamlpError> {
        let found = data.split.train.len();
        if found < 2 {
            return Err(GamlpError::TooFewNodes {
                name: id.name,
                found,
            });
        }
        let storage = preparation.storage(&id, &data);
        let (inputs, propagator) = preparation.inputs(&id, &mut data, &storage, device)?;
        let device_rows = DeviceRows::new(&inputs, &data.split, preparation.device_bytes, device);
        Ok(Self {
            id,
            data,
            propagator,
            inputs,
            storage,
            device_rows,
            device_bytes: preparation.device_bytes,
            label_hops: preparation.label_hops,
        })
    }

    /// Takes probabilities of reliable nodes for labels, beside the labels to learn from. Their embedding
    /// lies where the other matrices do, in a file that goes with the task where that is in files.
    ///
    /// # Errors
    ///
    /// [`GamlpError::HopFiles`] if that file cannot be written.
    ///
    /// # Panics
    ///
    /// Panics after [`without_graph`](Self::without_graph).
    pub fn with_reliable(mut self, reliable: &ReliableSet) -> Result<Self, GamlpError> {
        let propagator = self.propagator.as_ref();
        let propagator = propagator.expect("NodeTask::with_reliable: the graph is still there");
        let seeds = LabelSeeds::new(&self.data, reliable);
        let device = propagator.matrix().device();
        let hops = self.label_hops;
        let embed = |embedding: &mut [f32]| {
            let go_on = &mut || ControlFlow::Continue(());
            let all = seeds.embed_into(propagator, hops, embedding, go_on);
            debug_assert!(all.is_continue());
        };
        let shape = [self.nodes(), self.classes()];
        let embedding = self
            .storage
            .fill_unnamed(HopKind::Labels(hops), shape, embed)
            .map_err(|source| self.storage.failure(source))?;
        self.inputs = self.inputs.with_labels(embedding);
        // The old rows go before the new ones come.
        self.device_rows = None;
        let split = &self.data.split;
        self.device_rows = DeviceRows::new(&self.inputs, split, self.device_bytes, &device);
        Ok(self)
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

    /// The inputs of some nodes, in their order: from the device if all of them have rows there, and from
    /// the host if not.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn batch(&self, nodes: &[u32], device: &Device) -> NodeBatch {
        let rows = self.device_rows.as_ref();
        let found = rows.and_then(|rows| rows.batch(nodes, device.is_autodiff()));
        found.unwrap_or_else(|| self.inputs.batch(nodes, device))
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

    /// The class of a node, if the graph gives it one.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn label_of(&self, node: u32) -> Option<u32> {
        self.data.labels.get(node)
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
        self.inputs.hops()[0].width()
    }

    /// Number of nodes whose inputs are on the device.
    pub fn rows_on_device(&self) -> usize {
        self.device_rows.as_ref().map_or(0, DeviceRows::len)
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
