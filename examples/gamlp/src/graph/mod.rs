mod adjacency;
mod labels;
mod propagator;
mod synthetic;

pub use adjacency::Adjacency;
pub use labels::{LabelSeeds, ReliableSet};
pub use propagator::Propagator;
pub use synthetic::{SyntheticError, SyntheticGraph};
