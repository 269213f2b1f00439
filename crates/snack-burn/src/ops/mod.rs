//! The seam between Burn and the kernels: the [`SparseOps`] extension of a back end.

mod autodiff;
mod base;
pub mod composed;
pub mod dense;
mod index;
mod panel;
mod routine;
pub(crate) mod select;

pub use base::*;
pub use index::*;
pub use panel::*;
pub use routine::*;
