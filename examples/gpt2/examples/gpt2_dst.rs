//! Command line of the example; everything else is in the library part of this crate.

use clap::Parser;
use gpt2::{Args, EXIT_INTERRUPTED, Gpt2Error, Interrupt, Outcome, print_err, print_out};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = Interrupt::on_ctrl_c()
        .map_err(Gpt2Error::from)
        .and_then(|interrupt| gpt2::run(&args, &interrupt));
    match outcome {
        Ok(outcome @ Outcome::Finished { .. }) => {
            print_out(outcome);
            ExitCode::SUCCESS
        }
        Ok(outcome @ Outcome::Interrupted { .. }) => {
            print_err(outcome);
            ExitCode::from(EXIT_INTERRUPTED)
        }
        Err(error) => {
            print_err(format_args!("error: {error}"));
            ExitCode::from(match error {
                Gpt2Error::Config(_) | Gpt2Error::DeviceNotCompiled { .. } => 2,
                _ => 1,
            })
        }
    }
}
