//! Times the exact search for the largest gradients outside a pattern, as a topology update that
//! grows by gradient runs it: once per matrix, results on the host.
//!
//! `cargo bench --bench growth -- --help` lists the options.

#[path = "common/device.rs"]
mod device;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use burn::tensor::{DType, Device, Distribution, Tensor};
use clap::{Parser, ValueEnum};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use snack_burn::prelude::*;
use snack_burn::tensor::{Candidate, GradientFactors};

use device::DeviceName;

#[derive(Debug, Parser)]
#[command(name = "growth")]
struct Args {
    /// Back end; all but flex need the feature of that name.
    #[arg(long, value_enum, default_value = "flex")]
    device: DeviceName,
    /// Matrices of an update.
    #[arg(long, default_value_t = 24)]
    matrices: usize,
    /// Rows of a matrix.
    #[arg(long, default_value_t = 768)]
    rows: usize,
    /// Columns of a matrix.
    #[arg(long, default_value_t = 3072)]
    cols: usize,
    /// Share of the coordinates that are no connections.
    #[arg(long, default_value_t = 0.9)]
    sparsity: f64,
    /// Samples of the factors.
    #[arg(long, default_value_t = 8192)]
    batch: usize,
    /// Connections that grow, as a share of those that are there.
    #[arg(long, default_value_t = 0.3)]
    fraction: f64,
    /// Data type of the factors.
    #[arg(long, value_enum, default_value = "f32")]
    dtype: Precision,
    /// The same number of connections for each row instead of the largest of all.
    #[arg(long)]
    per_row: bool,
    /// Bytes of scratch.
    #[arg(long, default_value_t = GradientFactors::SCRATCH)]
    scratch_bytes: usize,
    /// Updates that are timed, after one that is not.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Seed of patterns and factors.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the row to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Given by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Precision {
    F32,
    F16,
    Bf16,
}

impl Precision {
    fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    matrices: usize,
    m: usize,
    k: usize,
    sparsity: f64,
    nnz: usize,
    batch: usize,
    grown: usize,
    per_row: bool,
    dtype: Precision,
    scratch_bytes: usize,
    /// All matrices, results on the host: the fastest repetition and the median.
    best_ms: f64,
    median_ms: f64,
    /// Multiplications and additions of the scores per time of the fastest repetition.
    tflops: f64,
    /// Largest difference to the sampled product at the same coordinates, over the largest score.
    err: f64,
    device: String,
}

/// A matrix and the factors of its gradient.
struct Problem {
    pattern: Pattern,
    factors: GradientFactors,
    /// Connections that grow, of all and of each row.
    count: usize,
    quotas: Vec<usize>,
}

impl Problem {
    fn draw(args: &Args, device: &Device, rng: &mut ChaCha8Rng) -> Result<Self, String> {
        let shape = [args.rows, args.cols];
        let nnz = nnz_of_sparsity(args)?;
        let pattern = Pattern::random(shape, nnz, rng).map_err(|error| error.to_string())?;
        let draw = |width| {
            let options = (device, args.dtype.dtype());
            Tensor::<2>::random([args.batch, width], Distribution::Normal(0.0, 1.0), options)
        };
        let count = (nnz as f64 * args.fraction).round() as usize;
        Ok(Self {
            pattern,
            factors: GradientFactors::new(draw(args.rows), draw(args.cols))
                .with_scratch_bytes(args.scratch_bytes),
            count,
            quotas: vec![count / args.rows.max(1); args.rows],
        })
    }

    fn grow(&self, per_row: bool) -> Result<Vec<Candidate>, String> {
        let found = match per_row {
            false => self.factors.top_k(&self.pattern, self.count),
            true => self.factors.top_k_per_row(&self.pattern, &self.quotas),
        };
        found.map_err(|error| error.to_string())
    }
}

fn nnz_of_sparsity(args: &Args) -> Result<usize, String> {
    match (0.0..=1.0).contains(&args.sparsity) {
        true => Ok(((1.0 - args.sparsity) * (args.rows * args.cols) as f64).round() as usize),
        false => Err(format!("--sparsity {}: expected 0..=1", args.sparsity)),
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("growth: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    if args.matrices == 0 || args.repeats == 0 {
        return Err("expected at least one matrix and one repetition".to_string());
    }
    let device = args.device.device()?;
    device.seed(args.seed);
    let mut rng = ChaCha8Rng::seed_from_u64(args.seed);
    let problems = (0..args.matrices)
        .map(|_| Problem::draw(args, &device, &mut rng))
        .collect::<Result<Vec<_>, _>>()?;
    let found = problems[0].grow(args.per_row)?;
    let err = error(&problems[0], &found)?;
    device.sync().map_err(|error| error.to_string())?;
    let mut times = Vec::new();
    for repetition in 0..=args.repeats {
        let begin = Instant::now();
        for problem in &problems {
            std::hint::black_box(problem.grow(args.per_row)?);
        }
        if repetition > 0 {
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    let work = 2.0 * (args.matrices * args.rows * args.cols * args.batch) as f64;
    let row = Row {
        matrices: args.matrices,
        m: args.rows,
        k: args.cols,
        sparsity: args.sparsity,
        nnz: problems[0].pattern.nnz(),
        batch: args.batch,
        grown: found.len(),
        per_row: args.per_row,
        dtype: args.dtype,
        scratch_bytes: args.scratch_bytes,
        best_ms: times[0],
        median_ms: times[times.len() / 2],
        tflops: work / times[0] / 1e9,
        err,
        device: format!("{} {device:?}", args.device.name()),
    };
    print(&row);
    match &args.json {
        Some(file) => {
            let text = serde_json::to_string(&row).expect("a row is plain data");
            std::fs::write(file, format!("[\n{text}\n]\n"))
                .map_err(|error| format!("cannot write {}: {error}", file.display()))
        }
        None => Ok(()),
    }
}

/// Compares with the sampled product, whose sums have another order.
fn error(problem: &Problem, found: &[Candidate]) -> Result<f64, String> {
    let mut found = found.to_vec();
    found.sort_by_key(|candidate| candidate.flat);
    let flats: Vec<u64> = found.iter().map(|candidate| candidate.flat).collect();
    let gradients = problem
        .factors
        .gradients(&flats)
        .map_err(|error| error.to_string())?;
    let largest = found.iter().map(Candidate::score).fold(0.0, f32::max);
    let difference = found
        .iter()
        .zip(gradients)
        .map(|(candidate, gradient)| (candidate.gradient - gradient).abs())
        .fold(0.0, f32::max);
    Ok(f64::from(difference) / f64::from(largest.max(f32::MIN_POSITIVE)))
}

fn print(row: &Row) {
    println!("device {}", row.device);
    println!(
        "{:>8} {:>6} {:>6} {:>6} {:>9} {:>6} {:>8} {:>5} {:>10} {:>10} {:>10} {:>8} {:>8}",
        "matrices",
        "m",
        "k",
        "sp.",
        "nnz",
        "batch",
        "grown",
        "dtype",
        "best ms",
        "median ms",
        "per matrix",
        "TFLOP/s",
        "err"
    );
    println!(
        "{:>8} {:>6} {:>6} {:>6} {:>9} {:>6} {:>8} {:>5} {:>10.3} {:>10.3} {:>10.3} {:>8.3} {:>8.1e}",
        row.matrices,
        row.m,
        row.k,
        row.sparsity,
        row.nnz,
        row.batch,
        row.grown,
        format!("{:?}", row.dtype).to_lowercase(),
        row.best_ms,
        row.median_ms,
        row.best_ms / row.matrices as f64,
        row.tflops,
        row.err
    );
}
