mod interrupt;
mod log;
mod method;
mod options;
mod progress;
mod run;
mod run_dir;
mod state;
mod trainer;

pub use interrupt::*;
pub use log::*;
pub(crate) use method::{method_parser, profile_of};
pub use options::*;
pub use progress::*;
pub use run::*;
pub use run_dir::*;
pub use state::*;
pub use trainer::*;
