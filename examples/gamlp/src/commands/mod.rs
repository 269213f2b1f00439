//! What the programs of this example do.

mod classify;
mod infer;
mod infer_report;
mod memory;
mod train;

pub use classify::{Classification, ClassifiedNode, classify};
pub use infer::{InferArgs, infer};
pub use infer_report::{InferReport, InferRow};
pub(crate) use train::load_task;
pub use train::run;
