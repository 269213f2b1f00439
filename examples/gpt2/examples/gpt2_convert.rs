//! Command line of the conversion of weights; everything else is in the library part of this crate.

use clap::Parser;
use gpt2::{ConvertArgs, print_err};
use std::process::ExitCode;

fn main() -> ExitCode {
    match gpt2::convert(&ConvertArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_err(format_args!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}
