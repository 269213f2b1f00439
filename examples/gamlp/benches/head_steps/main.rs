//! Times R_GAMLP_RLU with a wide feature head: the head and the whole network on a single node, and
//! training steps.
//!
//! `cargo bench -p gamlp --bench head_steps -- --help` lists the options.

mod args;
mod memory;
mod single;
mod table;
mod training;

use std::process::ExitCode;

use args::{Args, Part};
use burn::module::Module;
use burn::tensor::Device;
use clap::Parser;
use gamlp::{GamlpConfig, GpuMeter, Recipe, WeightMode};
use memory::{Memory, MemoryProbe};
use serde::Serialize;
use single::Served;
use training::Training;

/// What was measured of a storage of the head at a sparsity.
#[derive(Debug, Serialize)]
struct Row {
    mode: WeightMode,
    sparsity: Option<f64>,
    /// Width of the head.
    width: usize,
    hidden: usize,
    /// Numbers that are trained, of the whole network.
    parameters: usize,
    device: String,
    /// The square matrix of the head on one row, alone on the device.
    head: Option<Served>,
    /// The whole network on one node, alone on the device.
    network: Option<Served>,
    training: Option<Training>,
}

/// What all measurements need.
struct Bench<'a> {
    args: &'a Args,
    device: Device,
    meter: Option<GpuMeter>,
    memory: MemoryProbe,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("head_steps: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    args.check()?;
    let choice = args.device();
    let device = choice.open().map_err(|error| error.to_string())?;
    let bench = Bench {
        args,
        memory: MemoryProbe::new(&device, choice)?,
        device,
        meter: memory::meter(choice),
    };
    println!("{}", table::HEADER);
    let mut rows = Vec::new();
    for (mode, sparsity) in args.cases() {
        let row = bench.row(mode, sparsity)?;
        println!("{}", table::line(&row));
        rows.push(row);
        // After every row: a bench that is stopped has measured something.
        if let Some(file) = &args.json {
            let text = serde_json::to_string_pretty(&rows).expect("rows are plain data");
            std::fs::write(file, text)
                .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        }
    }
    Ok(())
}

impl Bench<'_> {
    fn row(&self, mode: WeightMode, sparsity: Option<f64>) -> Result<Row, String> {
        let Args {
            head: width,
            hidden,
            ..
        } = *self.args;
        let config = GamlpConfig {
            features: 100,
            classes: 47,
            ..Recipe::Snack.options().model
        }
        .with_hidden(hidden)
        .with_head(Some(width))
        .with_mode(mode)
        .with_sparsity(sparsity.unwrap_or_default());
        config.validate().map_err(|error| error.to_string())?;
        let serves = |part| self.args.serves(part);
        let head = serves(Part::Head).then(|| self.serve_head(&config));
        let network = serves(Part::Network).then(|| self.serve_network(&config));
        let training = match self.args.steps {
            0 => None,
            _ => Some(self.train(&config)?),
        };
        let model = config.init(1, &self.device);
        Ok(Row {
            mode,
            sparsity,
            width,
            hidden,
            parameters: model.trainable_parameters(),
            device: self.args.device().to_string(),
            head: head.transpose()?,
            network: network.transpose()?,
            training,
        })
    }

    fn sync(&self) -> Result<(), String> {
        self.device.sync().map_err(|error| error.to_string())
    }
}

/// Bytes of weights, and of what says which of them exist.
fn stored_bytes(module: &impl Module, indices: usize) -> usize {
    module.num_params() * size_of::<f32>() + indices
}
