//! Command line that writes text; everything else is in the library part of this crate.

use clap::Parser;
use gpt2::{GenerateArgs, print_err, write_text};
use std::process::ExitCode;

fn main() -> ExitCode {
    match write_text(&GenerateArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_err(format_args!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}
