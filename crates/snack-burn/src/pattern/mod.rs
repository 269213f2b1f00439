//! Which entries of a sparse matrix are non-zero.
//!
//! Everything here runs on the host and knows neither tensors nor devices. A matrix is `m x k`:
//! `m` rows (the outputs of a layer) and `k` columns (its inputs). The *canonical order* is
//! row-major, strictly increasing and free of duplicates; a *slot* is a position in that order; the
//! *flat* index of a coordinate is `row * k + col`, a 64-bit number because `m * k` may exceed
//! `2^32`. Whoever receives a [`Pattern`] may trust that all of this holds.

mod access;
mod apportion;
mod base;
mod builder;
mod check;
mod dense;
mod distinct;
mod fan_in;
mod fmt;
mod inactive;
mod normal;
mod profile;
mod random;
mod region;
mod sets;
mod shape;
mod sparsity;
mod transpose;
mod triples;
mod validate;
mod value;

#[cfg(test)]
mod properties;

pub use base::*;
pub use profile::*;
pub use region::*;
pub use sparsity::*;
pub use transpose::*;
pub use triples::*;
pub use value::*;

pub(crate) use apportion::apportion;
pub(crate) use distinct::{draw_distinct, members};
