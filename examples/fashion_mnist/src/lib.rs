#![doc = include_str!("../README.md")]

mod cli;
mod connections;
mod data;
mod device;
mod error;
mod loss;
mod method;
mod model;
mod optimizer;
mod options;
mod output;
mod results;
mod stats;
mod train;

pub use cli::*;
pub use connections::*;
pub use data::*;
pub use device::*;
pub use error::*;
pub use loss::*;
pub use method::*;
pub use model::*;
pub use optimizer::*;
pub use options::*;
pub use output::{print_err, print_out};
pub use results::*;
pub use stats::*;
pub use train::*;
