//! Command line that measures inference, or classifies nodes; everything else is in the library part of this crate.

use clap::Parser;
use gamlp::{GamlpError, InferArgs, classify, infer, print_err, print_out};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = InferArgs::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_err(format_args!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(args: &InferArgs) -> Result<(), GamlpError> {
    let printed = if args.classify.is_empty() {
        let report = infer(args)?;
        match args.json {
            true => print_out(report.to_json()),
            false => print_out(report),
        }
    } else {
        let found = classify(args)?;
        match args.json {
            true => print_out(found.to_json()),
            false => print_out(found),
        }
    };
    Ok(printed?)
}
