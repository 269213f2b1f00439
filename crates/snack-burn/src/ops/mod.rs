//! The seam between Burn and the kernels: the [`SparseOps`] extension of a back end.

mod autodiff;
mod base;
pub mod composed;
mod index;
mod routine;

pub use base::*;
pub use index::*;
pub use routine::*;
