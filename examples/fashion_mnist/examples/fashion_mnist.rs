//! Command line of the example; everything else is in the library part of this crate.

use clap::Parser;
use fashion_mnist::{Args, FashionError, print_err, print_out};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    match fashion_mnist::run(&args) {
        Ok(outcome) if args.json => {
            let text = serde_json::to_string_pretty(&outcome.results);
            print_out(text.expect("all keys are strings"));
            ExitCode::SUCCESS
        }
        Ok(outcome) => {
            print_out(&outcome.results);
            print_out(format_args!("results: {}", outcome.dir.display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_err(format_args!("error: {error}"));
            ExitCode::from(match error {
                FashionError::Config(_) | FashionError::DeviceNotCompiled { .. } => 2,
                _ => 1,
            })
        }
    }
}
