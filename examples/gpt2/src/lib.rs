#![doc = include_str!("../README.md")]

mod checkpoint;
mod cli;
mod commands;
mod config;
mod data;
mod decode;
mod error;
mod eval;
pub mod fused;
mod init;
mod memory;
mod model;
mod report;
mod sample;
mod text;
mod train;

pub use checkpoint::*;
pub use cli::*;
pub use commands::*;
pub use config::*;
pub use data::*;
pub use decode::*;
pub use error::*;
pub use eval::*;
pub use example_support::{
    DeviceChoice, DeviceList, EXIT_INTERRUPTED, GpuMeter, GpuReading, Interrupt, OutputError,
    print_err, print_out,
};
pub use init::*;
pub use model::*;
pub use report::*;
pub use sample::*;
pub use text::*;
pub use train::*;
