//! Command line that writes text; everything else is in the library part of this crate.

use clap::Parser;
use gpt2::{GenerateArgs, Gpt2Error, print_err, write_text};
use std::process::ExitCode;

fn main() -> ExitCode {
    match write_text(&GenerateArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_err(format_args!("error: {error}"));
            ExitCode::from(match error {
                Gpt2Error::Config(_) | Gpt2Error::DeviceNotCompiled { .. } => 2,
                _ => 1,
            })
        }
    }
}
