//! The seam between Burn and the kernels: the [`SparseOps`] extension of a back end.

mod autodiff;
mod base;
pub mod composed;
pub mod dense;
mod index;
mod newest;
mod panel;
mod routine;
pub(crate) mod select;

pub use base::*;
pub use index::*;
pub use newest::newest_product;
pub(crate) use newest::note_product;
pub use panel::*;
pub use routine::*;
