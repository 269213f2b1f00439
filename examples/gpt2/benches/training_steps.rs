//! Times training steps of GPT-2 and reads the memory that the device has reserved for them.
//!
//! `cargo bench -p gpt2 --bench training_steps -- --help` lists the options. A case starts from an empty
//! memory pool only in a process of its own.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use clap::Parser;
use gpt2::fused::{FusedAdamW, FusedAdamWConfig};
use gpt2::{DeviceChoice, Gpt2Config, GpuMeter, MlpMode, Precision};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// Forward and backward passes that are timed alone, after as many that are not: without the optimizer
/// operations are fused in another way, and their kernels compiled.
const PASSES: usize = 3;

#[derive(Debug, Parser)]
#[command(name = "training_steps")]
struct Args {
    /// Back end; all but flex need the feature of that name [default: the first that is compiled in]
    #[arg(long, value_enum)]
    device: Option<DeviceChoice>,
    /// Storage of the MLP matrices.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "dense,masked,sparse"
    )]
    mode: Vec<MlpMode>,
    /// Sparsities of masked and sparse ones.
    #[arg(long, value_delimiter = ',', default_value = "0.9,0.99")]
    sparsity: Vec<f64>,
    /// In which precision matrices are multiplied.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "f32")]
    precision: Vec<Precision>,
    /// Windows per step.
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
    /// Computes cheap operations again in the backward pass.
    #[arg(long)]
    checkpointing: bool,
    /// Writes the rows to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Given by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    mode: MlpMode,
    sparsity: Option<f64>,
    precision: Precision,
    batch: usize,
    context: usize,
    parameters: usize,
    /// Median of a step: forward, backward, AdamW.
    step_ms: f64,
    /// Forward and backward alone.
    forward_backward_ms: f64,
    tokens_per_second: f64,
    /// Reserved by the memory pool of the device at the end, in MB; absent on the host.
    reserved_mb: Option<f64>,
    /// In use after the last step: weights, moments, indices.
    in_use_mb: Option<f64>,
    /// What all processes have on the GPU, where NVML says so.
    nvml_mb: Option<f64>,
    /// Energy of the GPU in millijoules a step, where NVML counts it.
    mj_per_step: Option<f64>,
    loss: f64,
    device: String,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("training_steps: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    if args.steps == 0 || args.batch == 0 || args.context == 0 {
        return Err("expected at least one step, window and token".to_string());
    }
    let choice = args.device.unwrap_or_else(DeviceChoice::first);
    let device = choice.open().map_err(|error| error.to_string())?;
    println!(
        "{:>7} {:>6} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9} {:>7}",
        "mode",
        "sp.",
        "prec.",
        "step ms",
        "fwd+bwd",
        "tokens/s",
        "reserved",
        "in use",
        "mJ",
        "param.",
        "loss"
    );
    let mut rows = Vec::new();
    for &precision in &args.precision {
        for &mode in &args.mode {
            let sparsities: Vec<Option<f64>> = match mode {
                MlpMode::Dense => vec![None],
                _ => args.sparsity.iter().copied().map(Some).collect(),
            };
            for sparsity in sparsities {
                let row = measure(args, mode, sparsity, precision, &device, choice)?;
                let mb = |mb: Option<f64>| mb.map_or("-".into(), |mb| format!("{mb:.0}"));
                println!(
                    "{:>7} {:>6} {:>5} {:>9.2} {:>9.2} {:>9.0} {:>9} {:>9} {:>8} {:>9} {:>7.4}",
                    row.mode.to_string(),
                    row.sparsity.map_or("-".into(), |s| s.to_string()),
                    row.precision.to_string(),
                    row.step_ms,
                    row.forward_backward_ms,
                    row.tokens_per_second,
                    mb(row.reserved_mb),
                    mb(row.in_use_mb),
                    mb(row.mj_per_step),
                    row.parameters,
                    row.loss
                );
                rows.push(row);
                device.memory_cleanup();
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

fn measure(
    args: &Args,
    mode: MlpMode,
    sparsity: Option<f64>,
    precision: Precision,
    device: &Device,
    choice: DeviceChoice,
) -> Result<Row, String> {
    let heads = (args.width / 64).max(1);
    let config = Gpt2Config::new(args.layers, args.width, heads, args.context)
        .with_vocabulary(args.vocabulary)
        .with_mode(mode)
        .with_sparsity(sparsity.unwrap_or_default());
    config.validate().map_err(|error| error.to_string())?;
    let tracked = match args.checkpointing {
        true => device.clone().autodiff().gradient_checkpointing(),
        false => device.clone().autodiff(),
    };
    let mut model = config.init(1, &tracked).with_precision(precision);
    let mut optim = ModuleOptimizer::from(FusedAdamW::new(FusedAdamWConfig {
        beta_1: 0.9,
        beta_2: 0.95,
        epsilon: 1e-8,
        weight_decay: 0.1,
    }));
    let tokens = random_tokens(args, 1, &tracked);
    let targets = random_tokens(args, 2, &tracked);
    let (mut steps, mut passes, mut last) = (Vec::new(), Vec::new(), 0.0);
    let meter = GpuMeter::open(0).filter(|_| choice == DeviceChoice::Cuda);
    let energy = || meter.as_ref()?.read().map(|reading| reading.energy_mj);
    let mut before = None;
    for step in 0..args.warmup + args.steps {
        if step == args.warmup {
            before = energy();
        }
        let begin = Instant::now();
        let loss = model.loss(tokens.clone(), targets.clone());
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        model = optim.step(1e-4, model, grads);
        sync(device)?;
        if step >= args.warmup {
            steps.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        last = f64::from(loss.inner().into_scalar::<f32>());
    }
    let used = before.zip(energy()).map(|(before, after)| after - before);
    for pass in 0..2 * PASSES {
        let begin = Instant::now();
        let loss = model.loss(tokens.clone(), targets.clone());
        drop(GradientsParams::from_grads(loss.backward(), &model));
        sync(device)?;
        if pass >= PASSES {
            passes.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    let step_ms = median(steps);
    let usage = device.memory_pool_usage();
    let mb = |bytes: u64| bytes as f64 / 1e6;
    Ok(Row {
        mode,
        sparsity,
        precision,
        batch: args.batch,
        context: args.context,
        parameters: config.parameter_count(),
        step_ms,
        forward_backward_ms: median(passes),
        tokens_per_second: (args.batch * args.context) as f64 / step_ms * 1e3,
        reserved_mb: usage.as_ref().map(|usage| mb(usage.bytes_reserved)),
        in_use_mb: usage.as_ref().map(|usage| mb(usage.bytes_in_use)),
        nvml_mb: meter
            .as_ref()
            .and_then(GpuMeter::read)
            .map(|reading| mb(reading.used_bytes)),
        mj_per_step: used.map(|used| used as f64 / args.steps as f64),
        loss: last,
        device: choice.to_string(),
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

fn sync(device: &Device) -> Result<(), String> {
    device.sync().map_err(|error| error.to_string())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
