#![doc = include_str!("../README.md")]

mod config;
mod init;
mod model;

pub use config::*;
pub use init::*;
pub use model::*;
