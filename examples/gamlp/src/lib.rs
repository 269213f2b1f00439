#![doc = include_str!("../README.md")]

mod config;
mod data;
mod graph;
mod init;
mod model;

pub use config::*;
pub use data::*;
pub use graph::*;
pub use init::*;
pub use model::*;
