#![doc = include_str!("../README.md")]

mod cli;
mod commands;
mod config;
mod data;
mod error;
mod graph;
mod hop_attention;
mod infer;
mod init;
mod model;
mod report;
mod train;

pub use cli::*;
pub use commands::*;
pub use config::*;
pub use data::*;
pub use error::*;
pub use example_support::{
    DeviceChoice, EXIT_INTERRUPTED, GpuMeter, GpuReading, Interrupt, OutputError, print_err,
    print_out,
};
pub use graph::*;
pub use hop_attention::*;
pub use infer::*;
pub use init::*;
pub use model::*;
pub use report::*;
pub use train::*;
