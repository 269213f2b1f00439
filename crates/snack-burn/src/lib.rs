//! Truly sparse neural networks for [Burn](burn).

mod backend;

pub mod checkpoint;
pub mod dst;
pub mod error;
pub mod nn;
pub mod ops;
pub mod pattern;
pub mod prelude;
pub mod tensor;

pub use error::SparseError;
