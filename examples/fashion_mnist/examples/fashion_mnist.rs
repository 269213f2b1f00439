//! Command line of the example; everything else is in the library part of this crate.

use clap::Parser;
use fashion_mnist::{Args, FashionError, Outcome, print_err, print_out};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    match fashion_mnist::run(&args).and_then(|outcome| print(&args, &outcome)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_err(format_args!("error: {error}"));
            ExitCode::from(match error {
                FashionError::Config(_) | FashionError::DeviceNotCompiled { .. } => 2,
                _ => 1,
            })
        }
    }
}

fn print(args: &Args, outcome: &Outcome) -> Result<(), FashionError> {
    let printed = match args.json {
        true => {
            let text = serde_json::to_string_pretty(&outcome.results);
            print_out(text.expect("all keys are strings"))
        }
        false => print_out(format_args!(
            "{}\nresults: {}",
            outcome.results,
            outcome.dir.display()
        )),
    };
    printed.map_err(|source| FashionError::Output {
        dir: outcome.dir.clone(),
        source,
    })
}
