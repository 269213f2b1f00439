//! Which connections lie on a path through the network.
//!
//! Above 99 % sparsity, random updates cut the paths from inputs to outputs, and most connections
//! come to nothing. [`LayerGraph`] says how layers are connected, [`Functional`] which connections
//! of a layer lie on a path, and [`Functional::sample`] draws new ones that do ("reachability-guided
//! dynamic sparse training", 2026).

mod expected;
mod functional;
mod graph;
mod sample;

#[cfg(test)]
mod tests;

pub use expected::*;
pub use functional::*;
pub use graph::*;
pub use sample::*;
