//! Dynamic sparse training: topology updates that prune and grow connections during training.
//!
//! An update is planned on the host from small data (a [`Prune`] criterion chooses the slots that
//! leave, a [`Grow`] criterion the coordinates that enter), which gives one [`Remap`] from new
//! slots to old ones. That remap is applied to values and optimizer states alike, so that they
//! cannot come apart.
//!
//! # Words
//!
//! * **Slot**: the place of one connection in the lists of a layer: its values, and everything else
//!   with one element per connection, are in slot order, which is row by row, then by column. An
//!   update gives the connections other slots.
//! * **Remap**: where each slot after an update comes from, an old slot or nowhere; see [`Remap`].
//! * **Turnover**: the shares of the connections that an update drops and grows; see [`Turnover`].
//!   The turnover may change over the run, which is the annealing of its [`schedule`].
//! * **Fan-in**, **fan-out**: the number of connections of an output, and of an input. A
//!   [`Profile`] says how fan-ins differ within a layer.
//! * **Density**, **sparsity**: the share of the coordinates of a layer that are connections, and
//!   of those that are not. An [`Allocation`] gives each layer its own.
//! * **Epsilon** (of [`Allocation::ErdosRenyi`]): connections per input and output of a layer, so
//!   that `m x k` coordinates have `epsilon (m + k)` connections. It is another number than the
//!   epsilon of Adam.
//! * **Functional**: a connection on some path from an input of the network to an output. All
//!   others have no effect; see [`Functional`].
//! * **Dead**: an output without fan-in, or an input without fan-out.
//! * **Explored**: a coordinate that has been a connection at some time; see [`History`].
//! * **Panel**: some rows of the dense gradient, which is computed panel by panel from its
//!   **factors** (what came into the layer, and the gradient of what left it) and never whole; see
//!   [`GradientFactors`](crate::tensor::GradientFactors).
//! * **Frozen**: a layer whose values want no gradient, as after Burn's `no_grad`. No rule rewires
//!   it.
//! * **Fresh**: a connection that has just been grown. A [`FreshValue`] is what it begins with, a
//!   [`StatePolicy`] what the optimizer knows of it.

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
mod ranked;
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
pub use ranked::*;
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
