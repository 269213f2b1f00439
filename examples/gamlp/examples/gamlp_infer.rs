//! Command line that measures inference; everything else is in the library part of this crate.

use clap::Parser;
use gamlp::{InferArgs, infer, print_err, print_out};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = InferArgs::parse();
    match infer(&args) {
        Ok(report) if args.json => {
            print_out(report.to_json());
            ExitCode::SUCCESS
        }
        Ok(report) => {
            print_out(report);
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_err(format_args!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}
