mod learner;
mod progress;
mod run_dir;
mod topology;
mod trainer;

pub use learner::*;
pub use progress::*;
pub use run_dir::*;
pub use topology::*;
pub use trainer::*;
