mod interrupt;
mod log;
mod options;
mod progress;
mod run;
mod run_dir;
mod state;
mod trainer;

pub use interrupt::*;
pub use log::*;
pub use options::*;
pub use progress::*;
pub use run::*;
pub use run_dir::*;
pub use state::*;
pub use trainer::*;
