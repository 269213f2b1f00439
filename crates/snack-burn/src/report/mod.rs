//! What a sparse model looks like, and how it changes.
//!
//! [`DensityReport`] describes the sparse layers of a model at one moment: as a struct, as a table,
//! as JSON (it derives serde) or as CSV. [`TopologyLog`] keeps one for every topology update, with
//! what only a series knows: the overlap with the pattern before and with the first one, and the
//! share of coordinates that were ever active. With the feature `plot`, the module
//! `plot` draws both; with the feature `train`, `DensityMetric` and `TurnoverMetric` show them in Burn's
//! `Learner`.

#[cfg(feature = "plot")]
mod axis;
mod csv;
mod degrees;
mod density;
mod layer;
mod log;
mod memory;
mod table;

#[cfg(feature = "train")]
mod metric;
#[cfg(feature = "plot")]
pub mod plot;
#[cfg(test)]
mod tests;

pub use degrees::*;
pub use density::*;
pub use layer::*;
pub use log::*;
pub use memory::*;
#[cfg(feature = "train")]
pub use metric::*;
