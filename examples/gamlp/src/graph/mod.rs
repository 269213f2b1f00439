mod adjacency;
mod inputs;
mod labels;
mod propagator;
mod synthetic;
mod task;

pub use adjacency::Adjacency;
pub use inputs::{NodeBatch, NodeInputs};
pub use labels::{LabelSeeds, ReliableSet};
pub use propagator::Propagator;
pub use synthetic::{SyntheticError, SyntheticGraph};
pub use task::NodeTask;
