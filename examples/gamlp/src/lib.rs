#![doc = include_str!("../README.md")]

mod cli;
mod commands;
mod config;
mod data;
mod device;
mod error;
mod gpu_meter;
mod graph;
mod infer;
mod init;
mod model;
mod output;
mod report;
mod train;

pub use cli::*;
pub use commands::*;
pub use config::*;
pub use data::*;
pub use device::*;
pub use error::*;
pub use gpu_meter::*;
pub use graph::*;
pub use infer::*;
pub use init::*;
pub use model::*;
pub use output::{print_err, print_out};
pub use report::*;
pub use train::*;
