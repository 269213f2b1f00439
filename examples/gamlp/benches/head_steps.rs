//! Times training steps of R_GAMLP_RLU with a wide feature head, and that head on a single node.
//!
//! `cargo bench -p gamlp --bench head_steps -- --help` lists the options. A case starts from an empty
//! memory pool only in a process of its own.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor, TensorData};
use clap::Parser;
use gamlp::{
    BatchTargets, DeviceChoice, Gamlp, GamlpConfig, GpuMeter, OutputNetwork, Predictor, Repeat,
    Timing, WeightMode,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

#[derive(Debug, Parser)]
#[command(name = "head_steps")]
struct Args {
    /// Back end; all but flex need the feature of that name [default: the first that is compiled in]
    #[arg(long, value_enum)]
    device: Option<DeviceChoice>,
    /// Storage of the head.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "dense,masked,sparse"
    )]
    mode: Vec<WeightMode>,
    /// Sparsities of masked and sparse ones.
    #[arg(long, value_delimiter = ',', default_value = "0.9,0.95,0.99")]
    sparsity: Vec<f64>,
    /// Width of the head.
    #[arg(long, default_value_t = 5000)]
    head: usize,
    /// Width of the hidden layers.
    #[arg(long, default_value_t = 512)]
    hidden: usize,
    /// Nodes per step.
    #[arg(long, default_value_t = 4096)]
    batch: usize,
    /// Steps that are timed; 0: none.
    #[arg(long, default_value_t = 20)]
    steps: usize,
    /// Steps before them that are not.
    #[arg(long, default_value_t = 5)]
    warmup: usize,
    /// Runs of the head on a single node that are timed; 0: none.
    #[arg(long, default_value_t = 2000)]
    samples: usize,
    /// Products of a chain, which shares the cost of starting and waiting among them.
    #[arg(long, default_value_t = 100)]
    chain: usize,
    /// Writes the rows to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Given by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    mode: WeightMode,
    sparsity: Option<f64>,
    head: usize,
    hidden: usize,
    batch: usize,
    parameters: usize,
    device: String,
    training: Option<Training>,
    single: Option<Single>,
    /// Reserved by the memory pool of the device at the end, in MB; absent on the host.
    reserved_mb: Option<f64>,
}

/// A training step.
#[derive(Debug, Serialize)]
struct Training {
    /// Median of a step: forward, backward, Adam.
    step_ms: f64,
    /// Forward and backward alone.
    forward_backward_ms: f64,
    /// In use after the last step: weights, moments, indices and the batch.
    in_use_mb: Option<f64>,
    /// Energy of the GPU in millijoules a step, where NVML counts it.
    mj_per_step: Option<f64>,
    loss: f64,
}

/// The head on one row.
#[derive(Debug, Serialize)]
struct Single {
    /// Operation by operation.
    eager: Timing,
    /// As a recorded graph, where the device has such.
    captured: Timing,
    hardware: bool,
    /// Median of one product in a recorded chain of them, in microseconds.
    chained_us: f64,
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
    if args.batch < 2 || args.chain == 0 {
        return Err("expected a batch of at least two nodes and a chain of one product".into());
    }
    let choice = args.device.unwrap_or_else(DeviceChoice::first);
    let device = choice.open().map_err(|error| error.to_string())?;
    println!(
        "{:>7} {:>6} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "mode",
        "sp.",
        "step ms",
        "fwd+bwd",
        "reserved",
        "in use",
        "mJ",
        "eager us",
        "capt. us",
        "chain us",
        "param.",
        "loss"
    );
    let mut rows = Vec::new();
    for &mode in &args.mode {
        let sparsities: Vec<Option<f64>> = match mode {
            WeightMode::Dense => vec![None],
            _ => args.sparsity.iter().copied().map(Some).collect(),
        };
        for sparsity in sparsities {
            let row = measure(args, mode, sparsity, &device, choice)?;
            print(&row);
            rows.push(row);
            device.memory_cleanup();
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
    let number = |value: Option<f64>, digits: usize| {
        value.map_or("-".into(), |value| format!("{value:.digits$}"))
    };
    let training = row.training.as_ref();
    let single = row.single.as_ref();
    println!(
        "{:>7} {:>6} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7}",
        row.mode.to_string(),
        row.sparsity.map_or("-".into(), |s| s.to_string()),
        number(training.map(|t| t.step_ms), 2),
        number(training.map(|t| t.forward_backward_ms), 2),
        number(row.reserved_mb, 0),
        number(training.and_then(|t| t.in_use_mb), 0),
        number(training.and_then(|t| t.mj_per_step), 0),
        number(single.map(|s| s.eager.median_us), 1),
        number(single.map(|s| s.captured.median_us), 1),
        number(single.map(|s| s.chained_us), 2),
        row.parameters,
        number(training.map(|t| t.loss), 4),
    );
}

fn measure(
    args: &Args,
    mode: WeightMode,
    sparsity: Option<f64>,
    device: &Device,
    choice: DeviceChoice,
) -> Result<Row, String> {
    let config = GamlpConfig::products()
        .with_output_layers(2)
        .with_label_layers(2)
        .with_hidden(args.hidden)
        .with_head(Some(args.head))
        .with_mode(mode)
        .with_sparsity(sparsity.unwrap_or_default());
    config.validate().map_err(|error| error.to_string())?;
    let meter = GpuMeter::open(0).filter(|_| choice == DeviceChoice::Cuda);
    let model = config.init(1, &device.clone().autodiff());
    let parameters = model.trainable_parameters();
    let (model, training) = match args.steps {
        0 => (model, None),
        _ => {
            let (model, training) = train(args, &config, model, device, meter.as_ref())?;
            (model, Some(training))
        }
    };
    let single = match args.samples {
        0 => None,
        _ => Some(single(args, &model.valid(), device, meter.as_ref())?),
    };
    let usage = device.memory_pool_usage();
    Ok(Row {
        mode,
        sparsity,
        head: args.head,
        hidden: args.hidden,
        batch: args.batch,
        parameters,
        device: choice.to_string(),
        training,
        single,
        reserved_mb: usage.map(|usage| usage.bytes_reserved as f64 / 1e6),
    })
}

fn train(
    args: &Args,
    config: &GamlpConfig,
    mut model: Gamlp,
    device: &Device,
    meter: Option<&GpuMeter>,
) -> Result<(Gamlp, Training), String> {
    let tracked = device.clone().autodiff();
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut matrix = |width: usize| {
        let values: Vec<f32> = (0..args.batch * width)
            .map(|_| rng.random::<f32>() - 0.5)
            .collect();
        let data = TensorData::new(values, [args.batch, width]);
        Tensor::<2>::from_data(data, &tracked)
    };
    let hops: Vec<_> = (0..=config.hops).map(|_| matrix(config.features)).collect();
    let labels = matrix(config.classes);
    let classes = (0..args.batch).map(|row| (row % config.classes) as i32);
    let targets = BatchTargets::new(classes.collect(), &tracked);

    let mut optim = AdamConfig::new().init();
    let (mut steps, mut passes, mut last) = (Vec::new(), Vec::new(), 0.0);
    let energy = || Some(meter?.read()?.energy_mj);
    let mut before = None;
    for step in 0..args.warmup + args.steps {
        if step == args.warmup {
            before = energy();
        }
        let begin = Instant::now();
        let loss = targets.loss(model.forward(&hops, labels.clone()));
        let grads = GradientsParams::from_grads(loss.backward(), &model);
        sync(device)?;
        let passed = begin.elapsed();
        model = optim.step(1e-3, model, grads);
        sync(device)?;
        if step >= args.warmup {
            steps.push(begin.elapsed().as_secs_f64() * 1e3);
            passes.push(passed.as_secs_f64() * 1e3);
        }
        last = f64::from(loss.inner().into_scalar::<f32>());
    }
    let used = before.zip(energy()).map(|(before, after)| after - before);
    let usage = device.memory_pool_usage();
    let training = Training {
        step_ms: median(steps),
        forward_backward_ms: median(passes),
        in_use_mb: usage.map(|usage| usage.bytes_in_use as f64 / 1e6),
        mj_per_step: used.map(|used| used as f64 / args.steps as f64),
        loss: last,
    };
    Ok((model, training))
}

fn single(
    args: &Args,
    model: &Gamlp,
    device: &Device,
    meter: Option<&GpuMeter>,
) -> Result<Single, String> {
    let OutputNetwork::Head(head) = &model.output else {
        return Err("the model has no feature head".into());
    };
    let repeat = Repeat {
        warmup: 100.min(args.samples),
        runs: args.samples,
    };
    let time = |products: usize, record: bool, repeat: Repeat| {
        let layer = head.wide.clone();
        let input = Tensor::ones([1, layer.width()], device);
        let mut predictor = Predictor::new(input, record, move |x| {
            (0..products).fold(x, |x, _| layer.forward(x))
        });
        let timing = Timing::of_forward(&mut predictor, repeat, meter, device);
        let timing = timing.map_err(|error| error.to_string())?;
        Ok::<_, String>((timing, predictor.is_hardware()))
    };
    let (eager, _) = time(1, false, repeat)?;
    let (captured, hardware) = time(1, true, repeat)?;
    let chains = Repeat {
        warmup: 3,
        runs: (args.samples / args.chain).max(1),
    };
    let (chain, _) = time(args.chain, true, chains)?;
    Ok(Single {
        eager,
        captured,
        hardware,
        chained_us: chain.median_us / args.chain as f64,
    })
}

fn sync(device: &Device) -> Result<(), String> {
    device.sync().map_err(|error| error.to_string())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
