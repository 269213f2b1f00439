//! Dynamic sparse training: topology updates that prune and grow connections during training.
//!
//! An update is planned on the host from small data (a [`Prune`] criterion chooses the slots that
//! leave, a [`Grow`] criterion the coordinates that enter), which gives one [`Remap`] from new
//! slots to old ones. That remap is applied to values and optimizer states alike, so that they
//! cannot come apart.

mod config;
mod grow;
mod optimizer;
mod plan;
mod prune;
mod remap;
mod schedule;
mod updater;

pub use config::*;
pub use grow::*;
pub use optimizer::*;
pub use plan::*;
pub use prune::*;
pub use remap::*;
pub use schedule::*;
pub use updater::*;
