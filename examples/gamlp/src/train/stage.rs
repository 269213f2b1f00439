use super::{BatchTargets, Batches, EpochOrder, TrainOptions, all_logits};
use crate::{Gamlp, GamlpError, NodeBatch, NodeTask, ReliableSet};
use burn::tensor::Device;

/// What a stage of training learns from.
///
/// The first one has labels alone. Every other one also learns the nodes that the best model of the
/// stage before is certain of: their probabilities are propagated like labels, and are targets.
#[derive(Debug, Clone)]
pub struct Stage {
    task: NodeTask,
    reliable: ReliableSet,
    batches: Batches,
}

impl Stage {
    /// The first stage, without the graph if there is no other.
    pub fn first(task: NodeTask, options: &TrainOptions) -> Self {
        let task = match options.stages() {
            1 => task.without_graph(),
            _ => task,
        };
        Self::new(task, ReliableSet::default(), options, 0)
    }

    /// Stage number `index`, taught by the best model of the stage before, in evaluation mode and on
    /// `device`.
    ///
    /// # Errors
    ///
    /// [`GamlpError::HopFiles`] if its label embedding cannot be kept in a file where it must.
    pub fn next(
        self,
        teacher: &Gamlp,
        options: &TrainOptions,
        index: usize,
        device: &Device,
    ) -> Result<Self, GamlpError> {
        let logits = all_logits(teacher, &self.task, options.batch, device);
        let split = self.task.split();
        let candidates = split.valid.iter().chain(&split.test).copied();
        let reliable =
            ReliableSet::select(&logits, candidates, options.threshold, options.temperature);
        let task = self.task.with_reliable(&reliable)?;
        Ok(Self::new(task, reliable, options, index))
    }

    fn new(task: NodeTask, reliable: ReliableSet, options: &TrainOptions, index: usize) -> Self {
        let seed = options.stage_seed(index);
        let train = task.split().train.len();
        let batches = Batches::new(train, reliable.nodes.len(), options.batch, seed);
        let batches = match options.drop_last {
            true => batches.without_partial(),
            false => batches,
        };
        Self {
            task,
            reliable,
            batches,
        }
    }

    /// The graph, whose label embedding is that of the stage.
    pub fn task(&self) -> &NodeTask {
        &self.task
    }

    /// As [`task`](Self::task), by value.
    pub fn into_task(self) -> NodeTask {
        self.task
    }

    /// The nodes that the stage before is certain of.
    pub fn reliable(&self) -> &ReliableSet {
        &self.reliable
    }

    /// How an epoch is cut into batches.
    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// Inputs and targets of a step of an epoch, and its number of nodes.
    pub(crate) fn batch(
        &self,
        order: &EpochOrder,
        step: usize,
        gamma: f64,
        device: &Device,
    ) -> (NodeBatch, BatchTargets, usize) {
        let [learned, reliable] = order.batch(step);
        let train = &self.task.split().train;
        let mut nodes: Vec<u32> = learned.iter().map(|&i| train[i as usize]).collect();
        let classes = self.task.classes_of(&nodes);
        nodes.extend(reliable.iter().map(|&i| self.reliable.nodes[i as usize]));
        let targets = BatchTargets::new(classes, device).with_reliable(
            &self.reliable,
            reliable,
            gamma,
            device,
        );
        (self.task.batch(&nodes, device), targets, nodes.len())
    }
}

impl TrainOptions {
    /// Seed of a stage: of its initial values, batches and topology updates.
    pub(crate) fn stage_seed(&self, stage: usize) -> u64 {
        self.seed.wrapping_add(stage as u64)
    }
}
