//! Dynamic sparse training: topology updates that prune and grow connections during training.
//!
//! An update is planned on the host from small data (a [`Prune`] criterion chooses the slots that
//! leave, a [`Grow`] criterion the coordinates that enter), which gives one [`Remap`] from new
//! slots to old ones. That remap is applied to values and optimizer states alike, so that they
//! cannot come apart.

mod allocation;
mod bits;
mod config;
mod error;
mod fresh;
mod grow;
mod history;
mod optimizer;
mod plan;
mod prune;
mod reachability;
mod remap;
pub mod schedule;
mod sparse_opt;
mod updater;

pub use crate::pattern::Profile;
pub use allocation::*;
pub use config::*;
pub use error::*;
pub use fresh::*;
pub use grow::*;
pub use history::*;
pub use optimizer::*;
pub use plan::*;
pub use prune::*;
pub use reachability::*;
pub use remap::*;
pub use schedule::{AnySchedule, Quotas, Schedule, ShareOf, Timing, Turnover};
pub use sparse_opt::*;
pub use updater::*;
