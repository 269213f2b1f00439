//! Command line that trains; everything else is in the library part of this crate.

use clap::Parser;
use gamlp::{Args, EXIT_INTERRUPTED, GamlpError, Interrupt, Outcome, print_err, print_out};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = Interrupt::on_ctrl_c()
        .map_err(GamlpError::from)
        .and_then(|interrupt| gamlp::run(&args, &interrupt));
    let printed = outcome.and_then(|outcome| match outcome {
        Outcome::Finished { .. } | Outcome::Prepared { .. } => {
            print_out(outcome)?;
            Ok(ExitCode::SUCCESS)
        }
        Outcome::Interrupted { .. } => {
            print_err(outcome);
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
    });
    match printed {
        Ok(code) => code,
        Err(error @ GamlpError::Interrupted) => {
            print_err(&error);
            ExitCode::from(error.exit_code())
        }
        Err(error) => {
            print_err(format_args!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}
