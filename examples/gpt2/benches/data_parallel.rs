//! Times training steps of GPT-2 on one and on several devices, and counts the bytes that they reduce.
//!
//! `cargo bench -p gpt2 --bench data_parallel -- --help` lists the options. Every device has `--batch`
//! windows, whatever their number, so that efficiency is tokens per second over those of one device
//! times their number.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use clap::Parser;
use gpt2::fused::{FusedAdamW, FusedAdamWConfig};
use gpt2::{DeviceList, Gpt2Config, Gpt2Error, MlpMode, Precision, on_devices};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use snack_burn::dist::reduce_gradients;

#[derive(Debug, Clone, Parser)]
#[command(name = "data_parallel")]
struct Args {
    /// The devices, as in cuda:0,cuda:1.
    #[arg(long, default_value = "flex,flex")]
    devices: DeviceList,
    /// Storage of the MLP matrices.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "dense,sparse"
    )]
    mode: Vec<MlpMode>,
    /// Sparsities of masked and sparse ones.
    #[arg(long, value_delimiter = ',', default_value = "0.9,0.99")]
    sparsity: Vec<f64>,
    /// In which precision matrices are multiplied.
    #[arg(long, value_enum, default_value = "f32")]
    precision: Precision,
    /// Windows per step and device.
    #[arg(long, default_value_t = 8)]
    batch: usize,
    /// Tokens per window.
    #[arg(long, default_value_t = 1024)]
    context: usize,
    /// Blocks.
    #[arg(long, default_value_t = 12)]
    layers: usize,
    /// Width of the residual stream.
    #[arg(long, default_value_t = 768)]
    width: usize,
    /// Different tokens.
    #[arg(long, default_value_t = 50257)]
    vocabulary: usize,
    /// Steps that are timed.
    #[arg(long, default_value_t = 8)]
    steps: usize,
    /// Steps before them that are not.
    #[arg(long, default_value_t = 3)]
    warmup: usize,
    /// Writes the rows to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Given by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Serialize)]
struct Row {
    devices: String,
    mode: MlpMode,
    sparsity: Option<f64>,
    precision: Precision,
    /// Windows per device.
    batch: usize,
    context: usize,
    /// Median of a step: forward, backward, reduction, AdamW.
    step_ms: f64,
    /// Median of the reduction alone.
    reduce_ms: f64,
    /// Of all devices.
    tokens_per_second: f64,
    /// Tokens per second over those of one device, by the number of devices.
    efficiency: Option<f64>,
    /// Bytes that a device reduces in a step.
    reduced_bytes: u64,
    /// Those of the MLP matrices.
    mlp_bytes: u64,
    /// Four bytes for each of their weights.
    mlp_expected_bytes: u64,
    loss: f64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("data_parallel: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    if args.steps == 0 || args.batch == 0 || args.context == 0 {
        return Err("expected at least one step, window and token".to_string());
    }
    let devices = args.devices.open().map_err(|error| error.to_string())?;
    println!(
        "{:>16} {:>7} {:>6} {:>9} {:>9} {:>9} {:>6} {:>11} {:>9} {:>9} {:>7}",
        "devices",
        "mode",
        "sp.",
        "step ms",
        "reduce",
        "tokens/s",
        "eff.",
        "reduced MB",
        "MLP MB",
        "4 nnz MB",
        "loss"
    );
    let mut rows = Vec::new();
    for &mode in &args.mode {
        let sparsities: Vec<Option<f64>> = match mode {
            MlpMode::Dense => vec![None],
            _ => args.sparsity.iter().copied().map(Some).collect(),
        };
        for sparsity in sparsities {
            let mut alone: Option<f64> = None;
            let mut counts = vec![1, devices.len()];
            counts.dedup();
            for count in counts {
                let mut row = measure(args, mode, sparsity, &devices[..count])
                    .map_err(|error| error.to_string())?;
                let alone = *alone.get_or_insert(row.tokens_per_second);
                row.efficiency = (count > 1).then(|| row.tokens_per_second / alone / count as f64);
                print(&row);
                rows.push(row);
                devices[..count].iter().for_each(Device::memory_cleanup);
            }
        }
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

fn print(row: &Row) {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "{:>16} {:>7} {:>6} {:>9.2} {:>9.2} {:>9.0} {:>6} {:>11.3} {:>9.3} {:>9.3} {:>7.4}",
        row.devices,
        row.mode.to_string(),
        row.sparsity.map_or("-".into(), |s| s.to_string()),
        row.step_ms,
        row.reduce_ms,
        row.tokens_per_second,
        row.efficiency.map_or("-".into(), |e| format!("{e:.3}")),
        mb(row.reduced_bytes),
        mb(row.mlp_bytes),
        mb(row.mlp_expected_bytes),
        row.loss
    );
}

/// The row of the first device.
fn measure(
    args: &Args,
    mode: MlpMode,
    sparsity: Option<f64>,
    devices: &[Device],
) -> Result<Row, Gpt2Error> {
    let heads = (args.width / 64).max(1);
    let config = Gpt2Config::new(args.layers, args.width, heads, args.context)
        .with_vocabulary(args.vocabulary)
        .with_mode(mode)
        .with_sparsity(sparsity.unwrap_or_default());
    config.validate()?;
    let names = DeviceList {
        indices: args.devices.indices[..devices.len()].to_vec(),
        ..args.devices.clone()
    };
    let (args, count) = (args.clone(), devices.len());
    on_devices(devices, move |device, ranks| {
        let tracked = device.clone().autodiff();
        let mut model = config.init(1, &tracked).with_precision(args.precision);
        let mut optim = ModuleOptimizer::from(FusedAdamW::new(FusedAdamWConfig {
            beta_1: 0.9,
            beta_2: 0.95,
            epsilon: 1e-8,
            weight_decay: 0.1,
        }));
        let seed = 2 * ranks.rank() as u64;
        let tokens = random_tokens(&args, seed, &tracked);
        let targets = random_tokens(&args, seed + 1, &tracked);
        let (mut steps, mut reductions, mut last) = (Vec::new(), Vec::new(), 0.0);
        // Whole steps first, then steps that wait before and after the reduction.
        let whole = args.warmup + args.steps;
        for step in 0..2 * args.steps + args.warmup {
            let begin = Instant::now();
            let loss = model.loss(tokens.clone(), targets.clone());
            let mut grads = GradientsParams::from_grads(loss.backward(), &model);
            if step < whole {
                grads = reduce_gradients(&*ranks, &model, grads)?;
            } else {
                sync(device);
                ranks.all_gather("begin", Vec::new())?;
                let begin = Instant::now();
                grads = reduce_gradients(&*ranks, &model, grads)?;
                sync(device);
                reductions.push(begin.elapsed().as_secs_f64() * 1e3);
            }
            model = optim.step(1e-4, model, grads);
            sync(device);
            if (args.warmup..whole).contains(&step) {
                steps.push(begin.elapsed().as_secs_f64() * 1e3);
            }
            last = f64::from(loss.inner().into_scalar::<f32>());
        }
        let step_ms = median(steps);
        let reduced = ranks.traffic().reduced / (2 * args.steps + args.warmup) as u64;
        let weights: usize = model
            .mlp_layers()
            .map(|layer| layer.nnz().unwrap_or(args.width * config.inner()))
            .sum();
        // Masked layers have gradients where their weights are held at zero.
        let dense = config.dense_parameter_count() - config.dense_mlp_weights();
        Ok(Row {
            devices: names.to_string(),
            mode,
            sparsity,
            precision: args.precision,
            batch: args.batch,
            context: args.context,
            step_ms,
            reduce_ms: median(reductions),
            tokens_per_second: (count * args.batch * args.context) as f64 / step_ms * 1e3,
            efficiency: None,
            reduced_bytes: reduced,
            mlp_bytes: reduced.saturating_sub(4 * dense as u64),
            mlp_expected_bytes: match count {
                1 => 0,
                _ => 4 * weights as u64,
            },
            loss: last,
        })
    })
}

fn random_tokens(args: &Args, seed: u64, device: &Device) -> Tensor<2, Int> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tokens: Vec<i32> = (0..args.batch * args.context)
        .map(|_| rng.random_range(0..args.vocabulary as i32))
        .collect();
    let data = TensorData::new(tokens, [args.batch, args.context]);
    Tensor::from_data(data, (device, DType::I32))
}

fn sync(device: &Device) {
    device
        .sync()
        .expect("the device computes what it was asked");
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
