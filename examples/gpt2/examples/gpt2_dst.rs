//! Command line of the example; everything else is in the library part of this crate.

use clap::Parser;
use gpt2::{Args, EXIT_INTERRUPTED, Gpt2Error, Interrupt, Outcome, print_err, print_out};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = Interrupt::on_ctrl_c()
        .map_err(Gpt2Error::from)
        .and_then(|interrupt| gpt2::run(&args, &interrupt));
    let printed = outcome.and_then(|outcome| match outcome {
        Outcome::Finished { .. } => {
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
        Err(error) => {
            print_err(format_args!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}
