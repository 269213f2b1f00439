//! Data-parallel training, with threads of the CPU as ranks, and with two GPUs where there are two.

mod altered;
mod burn_ddp;
mod failures;
mod group;
#[cfg(feature = "train")]
mod learner;
mod reductions;
mod training;
#[cfg(feature = "cuda")]
mod two_gpus;
mod windows;
