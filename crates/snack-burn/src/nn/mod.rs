//! Layers: the truly sparse [`SparseLinear`] and its dense twin [`MaskedLinear`].

mod config;
mod convert;
mod initializer;
mod masked_linear;
mod record;
mod sparse_layers;
mod sparse_linear;

pub use config::*;
pub use convert::*;
pub use initializer::*;
pub use masked_linear::*;
pub use record::*;
pub use sparse_layers::{SparseLayer, sparse_layers};
pub use sparse_linear::*;

pub(crate) use sparse_layers::{FoundLayer, NewWeights, find_layers, layer_label, replace_weights};
