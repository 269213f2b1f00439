#![doc = include_str!("../README.md")]

mod checkpoint;
mod cli;
mod commands;
mod config;
mod data;
mod decode;
mod device;
mod error;
mod eval;
pub mod fused;
mod gpu_meter;
mod init;
mod model;
mod output;
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
pub use device::*;
pub use error::*;
pub use eval::*;
pub use gpu_meter::*;
pub use init::*;
pub use model::*;
pub use output::{print_err, print_out};
pub use report::*;
pub use sample::*;
pub use text::*;
pub use train::*;
