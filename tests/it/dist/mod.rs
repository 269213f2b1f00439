//! Data-parallel training, with threads as ranks.

mod burn_ddp;
mod failures;
mod group;
#[cfg(feature = "train")]
mod learner;
mod training;
