//! Command line that measures perplexity; everything else is in the library part of this crate.

use clap::Parser;
use gpt2::{EvaluateArgs, evaluate, print_err};
use std::process::ExitCode;

fn main() -> ExitCode {
    match evaluate(&EvaluateArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_err(format_args!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}
