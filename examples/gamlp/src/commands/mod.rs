//! What the programs of this example do.

mod infer;
mod infer_report;
mod memory;
mod train;

pub use infer::{InferArgs, infer};
pub use infer_report::{InferReport, InferRow};
pub(crate) use train::load_task;
pub use train::run;
