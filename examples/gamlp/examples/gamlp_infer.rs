//! Command line that measures inference; everything else is in the library part of this crate.

use clap::Parser;
use gamlp::{InferArgs, infer, print_err, print_out};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = InferArgs::parse();
    let printed = infer(&args).and_then(|report| {
        let printed = match args.json {
            true => print_out(report.to_json()),
            false => print_out(report),
        };
        Ok(printed?)
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_err(format_args!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}
