//! Topology updates of whole models.

mod apply;
mod base;
mod clocks;
mod decide;
mod follow;
mod gather;
mod rule;

pub use base::*;
pub use rule::*;
