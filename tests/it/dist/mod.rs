//! Data-parallel training, with threads as ranks.

mod burn_ddp;
mod failures;
mod group;
mod training;
