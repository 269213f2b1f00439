mod log;
mod method;
mod options;
mod pictures;
mod progress;
mod run;
mod run_dir;
mod state;
mod trainer;

pub use log::*;
pub(crate) use method::{method_parser, profile_of};
pub use options::*;
pub use pictures::*;
pub use progress::*;
pub use run::*;
pub use run_dir::*;
pub use state::*;
pub use trainer::*;
