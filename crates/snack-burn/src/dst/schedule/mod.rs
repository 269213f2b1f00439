//! When connections are replaced, and how many.
//!
//! A schedule is a plain value: a [`Timing`] and the numbers of its formula. Those whose turnover
//! falls over a run need a last step. [`Schedule::validate`] says what is wrong with one.

mod any;
mod base;
mod constant;
mod cosine;
mod follow_lr;
mod linear;
mod power;
mod stable_decay;
mod staircase;
mod timing;

#[cfg(test)]
mod tests;

pub use any::*;
pub use base::*;
pub use constant::*;
pub use cosine::*;
pub use follow_lr::*;
pub use linear::*;
pub use power::*;
pub use stable_decay::*;
pub use staircase::*;
pub use timing::*;
