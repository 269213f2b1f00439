use crate::{
    AllocationChoice, ConfigError, Connections, Dataset, DeviceChoice, EpochRecord, EpochWriter,
    FashionError, Gradient, Init, Loss, Method, OptimizerChoice, Options, Progress, Results,
    RunDir, RunResult, Trainer, learn,
    output::{counted, grouped, short},
};
use burn::tensor::Device;
use clap::Parser;
use snack_burn::report::TopologyLog;
use std::path::{Path, PathBuf};

/// Where results without `--out` go, as `runs/fashion-mnist-001` and so on.
const RUNS: &str = "runs";
const PREFIX: &str = "fashion-mnist";

/// Trains the sparse MLP of the SET authors on Fashion-MNIST.
///
/// Without options: SET with the authors' settings (784-1000-1000-1000-10, 3 % of the weights,
/// 400 epochs) on 2,000 images that ship with the example, tested on 1,000 others. Results, CSV files
/// and pictures go to a new folder runs/fashion-mnist-NNN.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "fashion_mnist", version)]
pub struct Args {
    /// How the topology changes; several, separated by commas, are compared [default: set-original]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub method: Vec<Method>,
    /// Number of runs of every method, with seeds 0, 1 and so on [default: 1]
    #[arg(long, allow_negative_numbers = true)]
    pub seeds: Option<usize>,
    /// The first seed [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    pub first_seed: Option<u64>,
    /// Connections per input and output of a layer [default: 13]
    #[arg(long, allow_negative_numbers = true)]
    pub epsilon: Option<f64>,
    /// Share of the weights that does not exist, instead of --epsilon
    #[arg(long, allow_negative_numbers = true, conflicts_with = "epsilon")]
    pub sparsity: Option<f64>,
    /// How the connections are distributed over the layers [default: published, with --sparsity erk]
    #[arg(long, value_enum)]
    pub allocation: Option<AllocationChoice>,
    /// How initial values are drawn [default: published, with --sparsity fan-in]
    #[arg(long, value_enum)]
    pub init: Option<Init>,
    /// Units of the hidden layers [default: 1000,1000,1000]
    #[arg(long, value_delimiter = ',')]
    pub hidden: Option<Vec<usize>>,
    /// Passes over the training images [default: 400]
    #[arg(long, allow_negative_numbers = true)]
    pub epochs: Option<usize>,
    /// Images of a step [default: 40]
    #[arg(long, allow_negative_numbers = true)]
    pub batch: Option<usize>,
    /// What turns gradients into steps [default: sgd]
    #[arg(long, value_enum)]
    pub optimizer: Option<OptimizerChoice>,
    /// Scale the updates of a unit's weights by the root of its share of connections (SparseOpt)
    #[arg(long)]
    pub sparse_opt: bool,
    /// Learning rate [default: 0.05, with --optimizer adam 0.001]
    #[arg(long, visible_alias = "lr", allow_negative_numbers = true)]
    pub learning_rate: Option<f64>,
    /// Momentum of --optimizer sgd [default: 0.9]
    #[arg(long, allow_negative_numbers = true)]
    pub momentum: Option<f64>,
    /// Share of itself that a weight loses in every step [default: 0.0002]
    #[arg(long, allow_negative_numbers = true)]
    pub weight_decay: Option<f64>,
    /// Probability with which a hidden unit is left out of a training step [default: 0.2]
    #[arg(long, allow_negative_numbers = true)]
    pub dropout: Option<f64>,
    /// What is minimized [default: mse]
    #[arg(long, value_enum)]
    pub loss: Option<Loss>,
    /// How the loss is differentiated [default: published, with --loss cross-entropy exact]
    #[arg(long, value_enum)]
    pub gradient: Option<Gradient>,
    /// Share of the connections that an update replaces [default: the method's own]
    #[arg(long, allow_negative_numbers = true)]
    pub drop_fraction: Option<f64>,
    /// Steps between topology updates [default: the method's own]
    #[arg(long, allow_negative_numbers = true)]
    pub update_every: Option<u64>,
    /// Share of the run after which the topology stays [default: the method's own]
    #[arg(long, allow_negative_numbers = true)]
    pub update_stop: Option<f64>,
    /// Folder with the four idx files, gzipped or not [default: the images that ship with the example]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Back end; all but the compiled ones need `--features` of the same name [default: the first
    /// of cuda, metal, rocm, vulkan, wgpu, cpu, flex that is compiled in]
    #[arg(long, value_enum)]
    pub device: Option<DeviceChoice>,
    /// Train with Burn's Learner and its metrics instead of the plain loop; the numbers agree to about 8
    /// digits
    #[arg(long)]
    pub learner: bool,
    /// Folder for the results [default: the next free runs/fashion-mnist-NNN]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace the results in --out: all files of earlier runs are removed first, others stay
    #[arg(long, requires = "out")]
    pub overwrite: bool,
    /// Print the results as JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Print only the results, and errors
    #[arg(long)]
    pub quiet: bool,
}

/// What a command brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// All that was measured.
    pub results: Results,
    /// The folder in which it is.
    pub dir: PathBuf,
}

impl Args {
    /// The options of the runs: those given, and defaults for the others. The method is the first.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if an option is out of range, or has no effect in these runs.
    pub fn options(&self) -> Result<Options, ConfigError> {
        let base = Options::default();
        let by_sparsity = self.sparsity.is_some();
        let allocation = self.allocation.unwrap_or(match by_sparsity {
            true => AllocationChoice::Erk,
            false => base.connections.allocation,
        });
        let loss = self.loss.unwrap_or(base.loss);
        let optimizer = self.optimizer.unwrap_or(base.optimizer);
        let options = Options {
            method: self.methods()[0],
            hidden: self.hidden.clone().unwrap_or(base.hidden),
            connections: Connections {
                allocation,
                epsilon: self.epsilon.unwrap_or(base.connections.epsilon),
                sparsity: self.sparsity.unwrap_or(base.connections.sparsity),
            },
            init: self.init.unwrap_or(match by_sparsity {
                true => Init::FanIn,
                false => base.init,
            }),
            epochs: self.epochs.unwrap_or(base.epochs),
            batch: self.batch.unwrap_or(base.batch),
            optimizer,
            sparse_opt: self.sparse_opt,
            learning_rate: self.learning_rate.unwrap_or(match optimizer {
                OptimizerChoice::Sgd => base.learning_rate,
                OptimizerChoice::Adam => 1e-3,
            }),
            momentum: self.momentum.unwrap_or(base.momentum),
            weight_decay: self.weight_decay.unwrap_or(base.weight_decay),
            dropout: self.dropout.unwrap_or(base.dropout),
            loss,
            gradient: self.gradient.unwrap_or(match loss {
                Loss::Mse => base.gradient,
                Loss::CrossEntropy => Gradient::Exact,
            }),
            drop_fraction: self.drop_fraction,
            update_every: self.update_every,
            update_stop: self.update_stop,
            device: self.device.unwrap_or(base.device),
        };
        options.validate()?;
        crate::options::within("--seeds", self.seeds.unwrap_or(1), 1, 1_000_000)?;
        self.check_effect(&options)?;
        Ok(options)
    }

    /// The methods to compare, without repetitions.
    pub fn methods(&self) -> Vec<Method> {
        let mut methods: Vec<Method> = Vec::new();
        for &method in &self.method {
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        if methods.is_empty() {
            methods.push(Options::default().method);
        }
        methods
    }

    fn seeds(&self) -> impl Iterator<Item = u64> + Clone {
        let first = self.first_seed.unwrap_or(0);
        (0..self.seeds.unwrap_or(1) as u64).map(move |offset| first.wrapping_add(offset))
    }

    /// Refuses options that have no effect in the runs that `options` describe.
    fn check_effect(&self, options: &Options) -> Result<(), ConfigError> {
        let ignored = |name, value: Option<String>, reason: &str| match value {
            Some(value) => Err(ConfigError::no_effect(name, value, reason)),
            None => Ok(()),
        };
        let allocation = options.connections.allocation;
        let epsilon = self.epsilon.map(short);
        let sparsity = self.sparsity.map(short);
        if allocation.takes_epsilon() {
            let reason = format!("with --allocation {allocation}, which goes by --epsilon");
            ignored("--sparsity", sparsity, &reason)?;
        } else {
            let reason = format!("with --allocation {allocation}, which goes by --sparsity");
            ignored("--epsilon", epsilon, &reason)?;
            if self.sparsity.is_none() {
                let message =
                    format!("--allocation {allocation} needs --sparsity, which it distributes");
                return Err(ConfigError::other(message));
            }
        }
        if options.loss == Loss::CrossEntropy && options.gradient == Gradient::Published {
            let message = "--gradient published is not possible with --loss cross-entropy, which \
                           was not published; leave it out";
            return Err(ConfigError::other(message));
        }
        if options.optimizer == OptimizerChoice::Adam {
            let momentum = self.momentum.map(short);
            ignored(
                "--momentum",
                momentum,
                "with --optimizer adam, which has its own",
            )?;
        }
        if self.methods() == [Method::STATIC] {
            let reason = "with --method static, whose topology stays";
            let drop_fraction = self.drop_fraction.map(short);
            let update_every = self.update_every.map(|value| value.to_string());
            ignored("--drop-fraction", drop_fraction, reason)?;
            ignored("--update-every", update_every, reason)?;
            let update_stop = self.update_stop.map(short);
            ignored("--update-stop", update_stop, reason)?;
        }
        Ok(())
    }
}

/// Runs what the command line asks for.
///
/// # Errors
///
/// [`FashionError`]; nothing is written if options, data or device are at fault.
pub fn run(args: &Args) -> Result<Outcome, FashionError> {
    let base = args.options()?;
    let data = match &args.data {
        Some(folder) => Dataset::open(folder)?,
        None => Dataset::subset(),
    };
    if base.batch > data.train().len() {
        let allowed = format!("at most {}, the training images", data.train().len());
        return Err(ConfigError::new("--batch", base.batch, allowed).into());
    }
    let device = base.device.open()?;
    if let Some(out) = &args.out {
        RunDir::check_free(out, args.overwrite)?;
    }
    let with_method = |method| Options {
        method,
        ..base.clone()
    };
    let mut warnings = Vec::new();
    for method in args.methods() {
        // Whatever a method refuses, it refuses before anything is written.
        let options = with_method(method);
        options.validate()?;
        warnings.extend(options.check_updates(options.steps_per_epoch(data.train().len()))?);
        Trainer::new(options, &data, 0, &device)?;
    }
    let dir = match &args.out {
        Some(out) => RunDir::create(out, args.overwrite)?,
        None => RunDir::create_numbered(Path::new(RUNS), PREFIX)?,
    };
    let writer = dir.epochs()?;
    if !args.quiet {
        for line in introduction(args, &base, &data, &dir) {
            crate::print_err(line);
        }
        for warning in warnings {
            crate::print_err(format_args!("warning: {warning}"));
        }
    }

    let mut runs = Vec::new();
    for method in args.methods() {
        for seed in args.seeds() {
            let options = with_method(method);
            let folder = dir.run(&format!("{method}-{seed}"))?;
            let (run, log) = one_run(args, options, &data, seed, &device, &folder, &writer)?;
            RunDir::write_topology(&folder, &run, &log)?;
            runs.push(run);
            // After every run, so that a command that is stopped leaves the finished ones.
            let results = Results::new(data.id().clone(), base.clone(), runs.clone());
            dir.write_results(&results)?;
        }
    }
    Ok(Outcome {
        results: Results::new(data.id().clone(), base, runs),
        dir: dir.path().to_owned(),
    })
}

fn one_run(
    args: &Args,
    options: Options,
    data: &Dataset,
    seed: u64,
    device: &Device,
    folder: &Path,
    writer: &EpochWriter,
) -> Result<(RunResult, TopologyLog), FashionError> {
    let (method, epochs) = (options.method, options.epochs);
    let progress = Progress::new(epochs, args.quiet);
    let name = format!("{method} seed {seed}");
    let writer = writer.clone();
    let report = move |record: &EpochRecord| writer.write(method, seed, record);
    let done = match args.learner {
        true => {
            let progress = (name.as_str(), progress.clone());
            learn(options, data, seed, device, folder, progress, report)
        }
        false => Trainer::new(options, data, seed, device)?.train(&mut |record: &EpochRecord| {
            progress.epoch(&name, record);
            report(record)
        }),
    };
    progress.finish();
    done
}

fn introduction(args: &Args, options: &Options, data: &Dataset, dir: &RunDir) -> [String; 3] {
    let shapes = options.shapes(data.features());
    let widths: Vec<String> = [data.features()]
        .into_iter()
        .chain(shapes.iter().map(|shape| shape[0]))
        .map(|width| width.to_string())
        .collect();
    let counts = options.counts(data.features()).unwrap_or_default();
    let nnz: usize = counts.iter().sum();
    let dense: usize = shapes.iter().map(|[m, k]| m * k).sum();
    [
        format!(
            "{} on {}: {} of {} weights ({:.2} %), {} with {} gradient, {} of {}",
            widths.join("-"),
            options.device,
            grouped(nnz as u64),
            grouped(dense as u64),
            100.0 * nnz as f64 / dense as f64,
            options.loss,
            options.gradient,
            counted(options.epochs, "epoch"),
            counted(options.steps_per_epoch(data.train().len()) as usize, "step"),
        ),
        format!(
            "images: {}, {} to learn and {} to test; {} and {}",
            data.id().name,
            grouped(data.train().len() as u64),
            grouped(data.test().len() as u64),
            counted(args.methods().len(), "method"),
            counted(args.seeds.unwrap_or(1), "seed"),
        ),
        format!("results: {}", dir.path().display()),
    ]
}
