//! What the programs of this example do.

mod train;

pub(crate) use train::load_task;
pub use train::run;
