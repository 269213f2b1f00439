//! Times training steps with and without a topology update, whole: what an update adds, and which
//! share of the training time that is at an interval.
//!
//! `cargo bench --bench updates -- --help` lists the options.

#[path = "common/device.rs"]
mod device;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use burn::module::Module;
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Distribution, Tensor};
use clap::Parser;
use serde::Serialize;
use snack_burn::dst::{Anneal, GrowConfig, StatePolicy};
use snack_burn::prelude::*;

use device::DeviceName;

#[derive(Debug, Parser)]
#[command(name = "updates")]
struct Args {
    /// Back end; all but flex need the feature of that name.
    #[arg(long, value_enum, default_value = "flex")]
    device: DeviceName,
    /// Rules to time.
    #[arg(long, value_delimiter = ',', default_value = "set,rigl")]
    method: Vec<Preset>,
    /// Pairs of layers, up and down again.
    #[arg(long, default_value_t = 12)]
    pairs: usize,
    /// Narrow width.
    #[arg(long, default_value_t = 768)]
    narrow: usize,
    /// Wide width.
    #[arg(long, default_value_t = 3072)]
    wide: usize,
    /// Share of the coordinates that are no connections.
    #[arg(long, default_value_t = 0.9)]
    sparsity: f64,
    /// Samples of a step.
    #[arg(long, default_value_t = 512)]
    batch: usize,
    /// Share of the connections that an update replaces.
    #[arg(long, default_value_t = 0.3)]
    fraction: f64,
    /// Steps between updates, for the share of the training time.
    #[arg(long, default_value_t = 100)]
    every: u64,
    /// Steps of each kind that are timed, after one that is not.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Writes the rows to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Given by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    method: Preset,
    layers: usize,
    nnz: usize,
    batch: usize,
    replaced: usize,
    /// Medians: a step, a step whose factors are captured and that is updated after, and the updater
    /// alone.
    step_ms: f64,
    update_step_ms: f64,
    update_ms: f64,
    /// What an update adds to a step, as a share of `every` steps.
    overhead: f64,
    every: u64,
    device: String,
}

#[derive(Module, Debug)]
struct Net {
    layers: Vec<SparseLinear>,
}

impl Net {
    fn new(args: &Args, device: &Device) -> Self {
        let layer = |d_input, d_output, seed| {
            SparseLinearConfig::new(d_input, d_output)
                .with_sparsity(args.sparsity)
                .with_seed(Some(seed))
                .init(device)
        };
        let pair = |index: u64| {
            [
                layer(args.narrow, args.wide, 2 * index),
                layer(args.wide, args.narrow, 2 * index + 1),
            ]
        };
        Self {
            layers: (0..args.pairs as u64).flat_map(pair).collect(),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let pairs = self.layers.chunks(2);
        pairs.fold(x, |x, pair| {
            x.clone() + pair[1].forward(gelu(pair[0].forward(x)))
        })
    }

    fn nnz(&self) -> usize {
        self.layers.iter().map(SparseLinear::nnz).sum()
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("updates: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    if args.pairs == 0 || args.repeats == 0 || args.every == 0 {
        return Err("expected at least one pair, one repetition and an interval of 1".to_string());
    }
    let device = args.device.device()?.autodiff();
    device.seed(1);
    println!(
        "{:>16} {:>6} {:>9} {:>6} {:>9} {:>9} {:>15} {:>10} {:>9}",
        "method",
        "layers",
        "nnz",
        "batch",
        "replaced",
        "step ms",
        "update step ms",
        "update ms",
        "overhead"
    );
    let mut rows = Vec::new();
    for &method in &args.method {
        let row = measure(args, method, &device)?;
        println!(
            "{:>16} {:>6} {:>9} {:>6} {:>9} {:>9.2} {:>15.2} {:>10.2} {:>8.2}%",
            row.method.name(),
            row.layers,
            row.nnz,
            row.batch,
            row.replaced,
            row.step_ms,
            row.update_step_ms,
            row.update_ms,
            100.0 * row.overhead
        );
        rows.push(row);
    }
    match &args.json {
        Some(file) => {
            let text = serde_json::to_string_pretty(&rows).expect("rows are plain data");
            std::fs::write(file, text)
                .map_err(|error| format!("cannot write {}: {error}", file.display()))
        }
        None => Ok(()),
    }
}

fn measure(args: &Args, method: Preset, device: &Device) -> Result<Row, String> {
    let mut net = Net::new(args, device);
    let mut optim = AdamWConfig::new().init();
    let mut config = method
        .config(1_000_000)
        .with_drop_fraction(args.fraction)
        .with_anneal(Anneal::Constant)
        .with_every(2);
    config.schedule = None;
    if config.state == StatePolicy::LocalClock {
        config.state = StatePolicy::Zero;
    }
    if config.grow == GrowConfig::Nothing {
        return Err(format!("{method} prunes only, its steps become cheaper"));
    }
    let mut dst = config.init(&net).map_err(|error| error.to_string())?;
    let x = Tensor::<2>::random(
        [args.batch, args.narrow],
        Distribution::Normal(0.0, 1.0),
        device,
    );
    let (mut steps, mut update_steps, mut updates) = (Vec::new(), Vec::new(), Vec::new());
    let mut replaced = 0;
    for repetition in 0..2 * (args.repeats + 1) {
        let begin = Instant::now();
        net = train(net, &mut optim, x.clone());
        sync(device)?;
        let trained = Instant::now();
        net = dst.step_mut(net, &mut optim);
        sync(device)?;
        let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
        let update = dst.last_update();
        if repetition >= 2 {
            match update {
                Some(update) => {
                    update_steps.push(milliseconds);
                    updates.push(trained.elapsed().as_secs_f64() * 1e3);
                    replaced = update.layers.iter().map(|layer| layer.dropped).sum();
                }
                None => steps.push(milliseconds),
            }
        }
    }
    let (step_ms, update_step_ms) = (median(steps), median(update_steps));
    Ok(Row {
        method,
        layers: net.layers.len(),
        nnz: net.nnz(),
        batch: args.batch,
        replaced,
        step_ms,
        update_step_ms,
        update_ms: median(updates),
        overhead: (update_step_ms - step_ms).max(0.0) / (args.every as f64 * step_ms),
        every: args.every,
        device: args.device.name().to_string(),
    })
}

fn train(net: Net, optim: &mut ModuleOptimizer, x: Tensor<2>) -> Net {
    let loss = net.forward(x).powi_scalar(2).mean();
    let grads = GradientsParams::from_grads(loss.backward(), &net);
    optim.step(1e-4, net, grads)
}

fn sync(device: &Device) -> Result<(), String> {
    device.sync().map_err(|error| error.to_string())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
