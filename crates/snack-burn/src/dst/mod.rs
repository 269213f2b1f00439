//! Dynamic sparse training: topology updates that prune and grow connections during training.
//!
//! An update is planned on the host from small data (a [`Prune`] criterion chooses the slots that
//! leave, a [`Grow`] criterion the coordinates that enter), which gives one [`Remap`] from new
//! slots to old ones. That remap is applied to values and optimizer states alike, so that they
//! cannot come apart.

mod allocation;
mod bits;
mod collect;
mod composed;
mod config;
mod error;
mod factors;
mod fresh;
mod grow;
mod history;
mod host_factors;
mod identity;
#[cfg(feature = "train")]
mod learner;
mod method;
mod optim;
mod per_slot;
mod plan;
mod presets;
mod prune;
mod reachability;
mod remap;
pub mod schedule;
mod scope;
mod shared;
mod sign_flip;
mod signals;
mod slots;
mod sparse_opt;
mod srigl;
mod state;
mod state_policy;
mod update;
mod updater;
mod view;

pub use crate::pattern::Profile;
pub use crate::tensor::Candidate;
pub use allocation::*;
pub use composed::*;
pub use config::*;
pub use error::*;
pub use factors::*;
pub use fresh::*;
pub use grow::*;
pub use history::*;
pub use host_factors::*;
#[cfg(feature = "train")]
pub use learner::*;
pub use method::*;
pub use optim::*;
pub use per_slot::*;
pub use plan::*;
pub use presets::*;
pub use prune::*;
pub use reachability::*;
pub use remap::*;
pub use schedule::{AnySchedule, Quotas, Schedule, ShareOf, Timing, Turnover};
pub use scope::*;
pub use shared::*;
pub use sign_flip::*;
pub use signals::*;
pub use sparse_opt::*;
pub use srigl::*;
pub use state::*;
pub use state_policy::*;
pub use update::*;
pub use updater::*;
pub use view::*;
