use crate::{
    ConfigError, Corpus, Counters, DeviceChoice, DeviceList, Gpt2Error, Interrupt, LogWriter,
    MlpMode, Outcome, Precision, Progress, PruneScope, Records, RunDir, RunState, Text, TextId,
    TextLoader, Tokenizer, TrainOptions, Trainer,
    commands::InitialWeights,
    memory::check_training,
    on_devices, print_err, train,
    train::{method_parser, profile_of},
};
use clap::Parser;
use example_support::{FolderLock, counted, grouped};
use snack_burn::{dst::Preset, prelude::Checkpoint};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Where runs without `--out` go, as `runs/gpt2-dst-001` and so on.
const RUNS: &str = "runs";
const PREFIX: &str = "gpt2-dst";
/// Where the tokens of texts are kept without `--token-cache`.
const TOKEN_CACHE: &str = "runs/tokens";

/// Trains a GPT-2 whose MLP layers are sparse from birth to checkpoint.
///
/// Without options: 90 % sparse MLPs with SET topology updates, on seven plays by Shakespeare.
/// Log and checkpoint go to a new folder runs/gpt2-dst-NNN. Ctrl-C finishes the step, saves and exits
/// with code 130; --resume continues.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "gpt2_dst", version)]
pub struct Args {
    /// Share of the MLP weights that does not exist, at least 0 and below 1 [default: 0.9]
    #[arg(long, allow_negative_numbers = true)]
    pub sparsity: Option<f64>,
    /// Number of blocks [default: 2]
    #[arg(long, allow_negative_numbers = true)]
    pub layers: Option<usize>,
    /// Width of the residual stream [default: 128]
    #[arg(long, allow_negative_numbers = true)]
    pub width: Option<usize>,
    /// Attention heads; a divisor of the width [default: 4]
    #[arg(long, allow_negative_numbers = true)]
    pub heads: Option<usize>,
    /// Tokens that the model looks back [default: 32]
    #[arg(long, allow_negative_numbers = true)]
    pub context: Option<usize>,
    /// Windows per step [default: 8]
    #[arg(long, allow_negative_numbers = true)]
    pub batch: Option<usize>,
    /// Steps of the whole run [default: 6000]
    #[arg(long, allow_negative_numbers = true)]
    pub steps: Option<usize>,
    /// Windows per pass are --batch; so many passes make up a step [default: 1]
    #[arg(long, allow_negative_numbers = true)]
    pub accumulate: Option<usize>,
    /// In which precision matrices are multiplied; weights, sums and states stay f32 [default: f32]
    #[arg(long, value_enum)]
    pub precision: Option<Precision>,
    /// Compute cheap operations again in the backward pass: less memory, more time
    #[arg(long)]
    pub checkpointing: bool,
    /// Storage of the MLP matrices [default: sparse]
    #[arg(long, value_enum)]
    pub mode: Option<MlpMode>,
    /// How the sparse pattern changes; only sparse layers can [default: set]
    #[arg(long, value_parser = method_parser())]
    pub method: Option<Preset>,
    /// Back end; all but the compiled ones need `--features` of the same name [default: the first
    /// of cuda, metal, rocm, vulkan, wgpu, cpu, flex that is compiled in]
    #[arg(long, value_enum)]
    pub device: Option<DeviceChoice>,
    /// Devices that train together, as in cuda:0,cuda:1 or, for parts of one CPU, flex,flex: each has
    /// --batch windows of every pass and a replica of the model; instead of --device
    #[arg(long, value_name = "LIST", conflicts_with = "device")]
    pub devices: Option<DeviceList>,
    /// Start from weights instead of random ones: a Hugging Face folder, what gpt2_convert wrote, or a
    /// run; sizes come from there, and weights are dropped by magnitude as --mode and --sparsity say
    #[arg(long, value_name = "PATH", conflicts_with = "resume")]
    pub init: Option<PathBuf>,
    /// Whether each MLP matrix of --init or all of them together get the sparsity [default: layer]
    #[arg(long, value_enum, requires = "init")]
    pub scope: Option<PruneScope>,
    /// Text to learn instead of the shipped plays: a file (also .gz, .xz, .parquet) or a folder;
    /// may be repeated, files are joined in the order of their paths
    #[arg(long, value_name = "PATH")]
    pub text: Vec<PathBuf>,
    /// Text to judge by, given like --text [default: the last twentieth of the text, which is then
    /// not learnt]
    #[arg(long, value_name = "PATH")]
    pub valid: Vec<PathBuf>,
    /// How text becomes tokens [default: bytes]
    #[arg(long, value_enum)]
    pub tokenizer: Option<Tokenizer>,
    /// Folder that keeps the tokens of texts for the next run [default: runs/tokens]
    #[arg(long, value_name = "DIR")]
    pub token_cache: Option<PathBuf>,
    /// Seed of initial values, windows and topology updates [default: 42]
    #[arg(long, allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Folder for log and checkpoint [default: the next free runs/gpt2-dst-NNN]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue the run in --out, or else the newest runs/gpt2-dst-NNN; options not given are the
    /// checkpoint's
    #[arg(long, conflicts_with = "overwrite")]
    pub resume: bool,
    /// Replace the run in --out
    #[arg(long, requires = "out")]
    pub overwrite: bool,
    /// Highest learning rate [default: 0.003]
    #[arg(long, allow_negative_numbers = true)]
    pub learning_rate: Option<f64>,
    /// Steps until the highest learning rate, which then falls linearly to zero [default: 100]
    #[arg(long, allow_negative_numbers = true)]
    pub warmup: Option<usize>,
    /// Share of the connections that an update replaces [default: that of the method, 0.3 for set]
    #[arg(long, allow_negative_numbers = true)]
    pub drop_fraction: Option<f64>,
    /// Steps between topology updates [default: 200]
    #[arg(long, allow_negative_numbers = true)]
    pub update_every: Option<usize>,
    /// Step of the last topology update [default: three quarters of the steps]
    #[arg(long, allow_negative_numbers = true)]
    pub update_stop: Option<usize>,
    /// Steps between evaluations; 0: only at the end [default: 1000]
    #[arg(long, allow_negative_numbers = true)]
    pub eval_every: Option<usize>,
    /// Decoupled weight decay of all matrices [default: 0.1]
    #[arg(long, allow_negative_numbers = true)]
    pub weight_decay: Option<f32>,
    /// Largest norm of all gradients together, which are scaled down where it is larger [default: any]
    #[arg(long, allow_negative_numbers = true)]
    pub clip: Option<f32>,
    /// Dropout of embeddings, attention weights and residual branches [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    pub dropout: Option<f64>,
    /// Steps between checkpoints; 0: only at the end [default: 1000]
    #[arg(long, allow_negative_numbers = true)]
    pub checkpoint_every: Option<usize>,
    /// Print only the final table, warnings and errors
    #[arg(long)]
    pub quiet: bool,
}

impl Args {
    /// The options of the run: those given, and `base` for the others.
    pub fn options(&self, base: TrainOptions) -> TrainOptions {
        let given = |paths: &Vec<PathBuf>, base: Vec<PathBuf>| match paths.is_empty() {
            true => base,
            false => paths.clone(),
        };
        let model = base.model;
        TrainOptions {
            model: crate::Gpt2Config {
                layers: self.layers.unwrap_or(model.layers),
                width: self.width.unwrap_or(model.width),
                heads: self.heads.unwrap_or(model.heads),
                context: self.context.unwrap_or(model.context),
                mode: self.mode.unwrap_or(model.mode),
                sparsity: self.sparsity.unwrap_or(model.sparsity),
                dropout: self.dropout.unwrap_or(model.dropout),
                attention_dropout: model.attention_dropout.filter(|_| self.dropout.is_none()),
                residual_dropout: model.residual_dropout.filter(|_| self.dropout.is_none()),
                profile: self.method.map_or(model.profile, profile_of),
                ..model
            },
            init: self.init.clone().or(base.init),
            method: self.method.unwrap_or(base.method),
            device: match &self.devices {
                Some(devices) => devices.device,
                None => self.device.unwrap_or(base.device),
            },
            devices: match (&self.devices, self.device) {
                (Some(devices), _) => devices.indices.clone(),
                (None, Some(_)) => Vec::new(),
                (None, None) => base.devices,
            },
            text: given(&self.text, base.text),
            valid: given(&self.valid, base.valid),
            tokenizer: self.tokenizer.unwrap_or(base.tokenizer),
            seed: self.seed.unwrap_or(base.seed),
            batch: self.batch.unwrap_or(base.batch),
            accumulate: self.accumulate.unwrap_or(base.accumulate),
            precision: self.precision.unwrap_or(base.precision),
            checkpointing: self.checkpointing || base.checkpointing,
            steps: self.steps.unwrap_or(base.steps),
            learning_rate: self.learning_rate.unwrap_or(base.learning_rate),
            warmup: self.warmup.unwrap_or(base.warmup),
            weight_decay: self.weight_decay.unwrap_or(base.weight_decay),
            clip: self.clip.or(base.clip),
            drop_fraction: self.drop_fraction.or(base.drop_fraction),
            update_every: self.update_every.unwrap_or(base.update_every),
            update_stop: self.update_stop.or(base.update_stop),
            eval_every: self.eval_every.unwrap_or(base.eval_every),
            checkpoint_every: self.checkpoint_every.unwrap_or(base.checkpoint_every),
        }
    }

    /// Refuses options that have no effect in the run that `options` describe.
    fn check_effect(&self, options: &TrainOptions) -> Result<(), ConfigError> {
        let mode = options.model.mode;
        let ignored = |name, value: Option<String>, reason: String| match value {
            Some(value) => Err(ConfigError::new(
                name,
                value,
                format!("left out with {reason}"),
            )),
            None => Ok(()),
        };
        if mode == MlpMode::Dense {
            let sparsity = self.sparsity.map(|value| value.to_string());
            let reason = "--mode dense, where all weights exist";
            ignored("--sparsity", sparsity, reason.into())?;
        }
        if !options.updates_topology() {
            let reason = match mode {
                MlpMode::Sparse => "--method static, whose pattern stays".to_string(),
                _ => format!("--mode {mode}, whose pattern cannot change"),
            };
            let fraction = self.drop_fraction.map(|value| value.to_string());
            ignored("--drop-fraction", fraction, reason.clone())?;
            let every = self.update_every.map(|value| value.to_string());
            ignored("--update-every", every, reason.clone())?;
            let stop = self.update_stop.map(|value| value.to_string());
            ignored("--update-stop", stop, reason)?;
        }
        Ok(())
    }
}

/// Runs the example: everything is checked before anything is written.
///
/// # Errors
///
/// Any [`Gpt2Error`].
pub fn run(args: &Args, interrupt: &Interrupt) -> Result<Outcome, Gpt2Error> {
    match args.resume {
        false => start(args, interrupt),
        true => resume(args, interrupt),
    }
}

fn start(args: &Args, interrupt: &Interrupt) -> Result<Outcome, Gpt2Error> {
    let mut base = TrainOptions::default();
    if args.mode.is_some_and(|mode| mode != MlpMode::Sparse) {
        base.method = Preset::Static;
    }
    let init = args.init.as_deref().map(InitialWeights::open).transpose()?;
    match &init {
        Some(init) => {
            base.model = init.model(args)?;
            let tokenizer = Tokenizer::of_vocabulary(base.model.vocabulary);
            base.tokenizer = tokenizer.unwrap_or(base.tokenizer);
        }
        None => {
            let tokenizer = args.tokenizer.unwrap_or(base.tokenizer);
            base.model.vocabulary = tokenizer.vocabulary();
        }
    }
    let options = args.options(base);
    check_options(args, &options)?;
    let devices = options.device_list().open()?;
    if let Some(out) = &args.out {
        RunDir::check_free(out, args.overwrite)?;
    }
    let corpus = load_corpus(args, &options)?;
    let (args, interrupt) = (args.clone(), interrupt.clone());
    finished(on_devices(&devices, move |device, ranks| {
        let (options, corpus) = (options.clone(), corpus.clone());
        let trainer = match &init {
            None => Trainer::new(options, corpus, device)?,
            Some(init) => {
                let model = init.load(&args, device, ranks.rank() == 0)?;
                let options = TrainOptions {
                    model: model.config.model,
                    ..options
                };
                Trainer::from_model(options, corpus, device, model.model)?
            }
        };
        // No file is written before all devices have their model.
        let trainer = trainer.with_ranks(ranks)?;
        if trainer.rank() > 0 {
            return train(trainer, None, &interrupt);
        }
        let dir = match &args.out {
            Some(out) => RunDir::create(out, args.overwrite)?,
            None => RunDir::create_numbered(Path::new(RUNS), PREFIX)?,
        };
        let _lock = FolderLock::acquire(dir.path())?;
        dir.remove_leftovers();
        // The checkpoint first: a run killed in between resumes at step 0 and drops the old log.
        trainer.save(&dir.checkpoint())?;
        let mut log = LogWriter::create(&dir.log())?;
        drive(&args, trainer, &dir, &mut log, &interrupt)
    }))
}

/// The first device has the outcome.
fn finished(outcome: Result<Option<Outcome>, Gpt2Error>) -> Result<Outcome, Gpt2Error> {
    outcome.map(|outcome| outcome.expect("the first device has records"))
}

fn resume(args: &Args, interrupt: &Interrupt) -> Result<Outcome, Gpt2Error> {
    let dir = match &args.out {
        Some(out) => RunDir::open(out)?,
        None => RunDir::latest_numbered(Path::new(RUNS), PREFIX)?,
    };
    let _lock = FolderLock::acquire(dir.path())?;
    let path = dir.checkpoint();
    let checkpoint = Checkpoint::load(&path)?;
    let state = RunState::from_value(&checkpoint.user, &path)?;
    let options = args.options(state.options.clone());
    let mismatch = |flag, given: String, stored: String| Gpt2Error::CheckpointMismatch {
        path: path.clone(),
        flag,
        given,
        stored,
    };
    let differences = state.options.differences(&options);
    if let Some(fixed) = differences.iter().find(|difference| !difference.allowed) {
        return Err(mismatch(
            fixed.flag,
            fixed.given.clone(),
            fixed.stored.clone(),
        ));
    }
    check_steps(&options, &state.counters)?;
    check_options(args, &options)?;
    let devices = options.device_list().open()?;
    let corpus = load_corpus(args, &options)?;
    let (given, stored) = (corpus.id(), &state.corpus);
    if !given.text.same_text(&stored.text) {
        let (given, stored) = (given.text.to_string(), stored.text.to_string());
        return Err(mismatch("--text", given, stored));
    }
    let same_valid = match (&given.valid, &stored.valid) {
        (Some(given), Some(stored)) => given.same_text(stored),
        (given, stored) => given.is_none() && stored.is_none(),
    };
    if !same_valid {
        let name = |id: &Option<TextId>| {
            id.as_ref()
                .map_or("the end of the text".into(), TextId::to_string)
        };
        return Err(mismatch("--valid", name(&given.valid), name(&stored.valid)));
    }
    let step = state.counters.step;
    let per_step = [&state.options, &options].map(TrainOptions::windows_per_step);
    // Each device takes a copy; the first one takes what was read already.
    let read = Mutex::new(Some(checkpoint));
    let (args, interrupt) = (args.clone(), interrupt.clone());
    finished(on_devices(&devices, move |device, ranks| {
        let read = read.lock().unwrap_or_else(PoisonError::into_inner).take();
        let checkpoint = match read {
            Some(checkpoint) => checkpoint,
            None => Checkpoint::load(&path)?,
        };
        let (options, counters) = (options.clone(), state.counters.clone());
        let trainer =
            Trainer::resume(options, corpus.clone(), device, checkpoint, counters, &path)?;
        let trainer = trainer.with_ranks(ranks)?;
        if trainer.rank() > 0 {
            return train(trainer, None, &interrupt);
        }
        if step > 0 && !dir.log().exists() {
            print_err(format_args!(
                "warning: the log {} is missing; a new one begins after step {step}",
                dir.log().display()
            ));
        }
        let mut log = LogWriter::resume(&dir.log(), step)?;
        dir.remove_leftovers();
        if per_step[0] != per_step[1] {
            print_err(format_args!(
                "warning: {} windows a step, {} before; --batch times --accumulate times the number of devices \
                 decides, and the learning rate was chosen for the number before",
                per_step[1], per_step[0]
            ));
        }
        if !args.quiet {
            for change in &differences {
                print_err(format_args!(
                    "{} changes from {} to {}",
                    change.flag, change.stored, change.given
                ));
            }
            print_err(format_args!("resuming after step {step}"));
        }
        drive(&args, trainer, &dir, &mut log, &interrupt)
    }))
}

fn check_options(args: &Args, options: &TrainOptions) -> Result<(), Gpt2Error> {
    options.validate()?;
    args.check_effect(options)?;
    let vocabulary = options.model.vocabulary;
    options.tokenizer.check_vocabulary(vocabulary)?;
    Ok(check_training(options)?)
}

/// Reads the texts, which may take a while, and checks their length.
fn load_corpus(args: &Args, options: &TrainOptions) -> Result<Corpus, Gpt2Error> {
    let tokenizer = options.tokenizer;
    let loader = TextLoader {
        cache: Some(args.token_cache.clone().unwrap_or(TOKEN_CACHE.into())),
        quiet: args.quiet,
    };
    let load = |paths: &[PathBuf]| -> Result<Text, Gpt2Error> {
        let (text, origin) = loader.load(paths, tokenizer)?;
        if let Some(warning) = origin.warning() {
            print_err(format_args!("warning: {warning}"));
        }
        Ok(text)
    };
    let text = match options.text.is_empty() {
        true => Text::shakespeare(tokenizer),
        false => load(&options.text)?,
    };
    let corpus = match options.valid.is_empty() {
        true => Corpus::split(&text),
        false => Corpus::with_valid(&text, &load(&options.valid)?),
    };
    corpus.check_length(options.model.context)?;
    Ok(corpus)
}

fn check_steps(options: &TrainOptions, counters: &Counters) -> Result<(), ConfigError> {
    if options.steps < counters.step {
        let allowed = format!("at least {}, the steps already done", counters.step);
        return Err(ConfigError::new("--steps", options.steps, allowed));
    }
    Ok(())
}

fn drive(
    args: &Args,
    trainer: Trainer,
    dir: &RunDir,
    log: &mut LogWriter,
    interrupt: &Interrupt,
) -> Result<Option<Outcome>, Gpt2Error> {
    let options = trainer.options();
    let progress = Progress::new(trainer.counters().step, options.steps, args.quiet);
    for line in introduction(&trainer, dir) {
        progress.line(&line);
    }
    let records = Records {
        dir,
        log,
        progress: &progress,
    };
    train(trainer, Some(records), interrupt)
}

fn introduction(trainer: &Trainer, dir: &RunDir) -> [String; 3] {
    let corpus = trainer.corpus();
    let unit = corpus.tokenizer().unit();
    let options = trainer.options();
    let model = &options.model;
    let density = trainer.density();
    let topology = match (model.mode, options.updates_topology()) {
        (MlpMode::Dense, _) => String::new(),
        (_, false) => format!(" at density {density:.4}, static"),
        (_, true) => match options.no_updates(trainer.counters().step) {
            Some(reason) => format!(
                " at density {density:.4}, no updates by {} ({reason})",
                options.method
            ),
            None => format!(
                " at density {density:.4}, {} moves connections every {} until step {}",
                options.method,
                counted(options.update_every, "step"),
                options.last_update()
            ),
        },
    };
    [
        format!(
            "GPT-2 on {} in {}: {} of width {}, {}, context {}; {} MLPs{topology}",
            options.device_list(),
            options.precision,
            counted(model.layers, "block"),
            model.width,
            counted(model.heads, "head"),
            counted(model.context, unit),
            model.mode
        ),
        format!(
            "text: {}, {} {unit}s to learn and {} held out{}",
            corpus.id().text.name,
            grouped(corpus.train().len() as u64),
            grouped(corpus.held_out().len() as u64),
            match &corpus.id().valid {
                Some(valid) => format!(" ({})", valid.name),
                None => String::new(),
            }
        ),
        format!("log and checkpoint: {}", dir.path().display()),
    ]
}
