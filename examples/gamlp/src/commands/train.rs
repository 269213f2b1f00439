use super::memory::{Use, check_memory};
use crate::{
    Args, ConfigError, DeviceChoice, GamlpError, GraphArgs, GraphId, Interrupt, LogWriter,
    NodeTask, Outcome, Preparation, Progress, RunDir, RunState, TrainOptions, Trainer, WeightMode,
    print_err, train,
};
use burn::tensor::Device;
use example_support::{FolderLock, counted, grouped};
use snack_burn::prelude::Checkpoint;
use std::path::Path;

/// Where runs without `--out` go, as `runs/gamlp-dst-001` and so on.
const RUNS: &str = "runs";
const PREFIX: &str = "gamlp-dst";
/// Where graphs are kept without `--cache`.
const CACHE: &str = "runs/graphs";
const MB: u64 = 1_000_000;
/// Memory of a GPU for inputs of nodes without `--device-mb`.
const DEVICE_MB: u64 = 2048;

/// Runs `gamlp_dst`: everything is checked before anything of the run is written.
///
/// # Errors
///
/// Any [`GamlpError`].
pub fn run(args: &Args, interrupt: &Interrupt) -> Result<Outcome, GamlpError> {
    match args.resume {
        false => start(args, interrupt),
        true => resume(args, interrupt),
    }
}

fn start(args: &Args, interrupt: &Interrupt) -> Result<Outcome, GamlpError> {
    let options = args.new_options();
    args.check(&options)?;
    check_memory(&options, Use::Training)?;
    let device = options.device.open()?;
    if let Some(out) = &args.out {
        RunDir::check_free(out, args.overwrite)?;
    }
    if args.prepare {
        return prepare(args, &options, &device, interrupt);
    }
    let task = load_task(&args.graph, &options, &device, interrupt, args.quiet)?;
    let mut trainer = Trainer::new(options, task, &device)?;
    let dir = match &args.out {
        Some(out) => RunDir::create(out, args.overwrite)?,
        None => RunDir::create_numbered(Path::new(RUNS), PREFIX)?,
    };
    let _lock = FolderLock::acquire(dir.path())?;
    dir.remove_leftovers();
    // The checkpoint first: a run killed in between resumes at step 0 and drops the old log.
    trainer.save(&dir)?;
    let mut log = LogWriter::create(&dir.log())?;
    drive(args, trainer, &dir, &mut log, interrupt)
}

/// Leaves the matrices of a graph in files, and nothing else.
fn prepare(
    args: &Args,
    options: &TrainOptions,
    device: &Device,
    interrupt: &Interrupt,
) -> Result<Outcome, GamlpError> {
    let graph = GraphArgs {
        host_mb: Some(0),
        device_mb: Some(0),
        ..args.graph.clone()
    };
    let task = load_task(&graph, options, device, interrupt, args.quiet)?;
    Ok(Outcome::Prepared {
        folder: graph.cache_folder().to_owned(),
        nodes: task.nodes(),
    })
}

fn resume(args: &Args, interrupt: &Interrupt) -> Result<Outcome, GamlpError> {
    let dir = match &args.out {
        Some(out) => RunDir::open(out)?,
        None => RunDir::latest_numbered(Path::new(RUNS), PREFIX)?,
    };
    let _lock = FolderLock::acquire(dir.path())?;
    let path = dir.checkpoint();
    let checkpoint = Checkpoint::load(&path)?;
    let state = RunState::from_value(&checkpoint.user, &path)?;
    let options = args.options(state.options.clone());
    let mismatch = |flag, given: String, stored: String| GamlpError::CheckpointMismatch {
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
    check_stages(&options, &state)?;
    args.check(&options)?;
    let device = options.device.open()?;
    let task = load_task(&args.graph, &options, &device, interrupt, args.quiet)?;
    if !task.id().same_graph(&state.graph) {
        let (given, stored) = (task.id().to_string(), state.graph.to_string());
        return Err(mismatch("the graph", given, stored));
    }
    let step = state.counters.total_steps();
    let trainer = Trainer::resume(options, task, &device, checkpoint, state.counters, &dir)?;
    check_epochs(&trainer)?;
    let mut log = LogWriter::resume(&dir.log(), step)?;
    dir.remove_leftovers();
    if !args.quiet {
        for change in differences {
            print_err(format_args!(
                "{} changes from {} to {}",
                change.flag, change.stored, change.given
            ));
        }
        print_err(format_args!("resuming after step {step}"));
    }
    drive(args, trainer, &dir, &mut log, interrupt)
}

/// Stages that are done, and the one that is under way, must still be among the options.
fn check_stages(options: &TrainOptions, state: &RunState) -> Result<(), ConfigError> {
    let stage = state.counters.stage;
    if options.stages() > stage {
        return Ok(());
    }
    let allowed = format!("at least {}, for stages that have begun", stage + 1);
    Err(ConfigError::new(
        "the number of --epochs",
        options.stages(),
        allowed,
    ))
}

/// A stage cannot be shorter than what it has done.
fn check_epochs(trainer: &Trainer) -> Result<(), ConfigError> {
    let (done, epochs) = (
        trainer.epoch(),
        trainer.options().epochs[trainer.counters().stage],
    );
    match epochs < done {
        true => {
            let allowed = format!("at least {done}, the epochs already done");
            Err(ConfigError::new("--epochs", epochs, allowed))
        }
        false => Ok(()),
    }
}

/// Reads and propagates the graph of a run, which may take a while.
pub(crate) fn load_task(
    args: &GraphArgs,
    options: &TrainOptions,
    device: &Device,
    interrupt: &Interrupt,
    quiet: bool,
) -> Result<NodeTask, GamlpError> {
    let say = |text: String| {
        if !quiet {
            print_err(text);
        }
    };
    let folder = args.cache_folder();
    say(format!("reading {}", options.graph));
    let (data, warning) = options.graph.load(Some(folder))?;
    if let Some(warning) = warning {
        say(format!("warning: {warning}"));
    }
    for note in data.notes() {
        say(format!("note: {note}"));
    }
    if interrupt.is_requested(0) {
        return Err(GamlpError::Interrupted);
    }
    let (hops, label_hops) = (options.model.hops, options.label_hops);
    let preparation = Preparation {
        host_bytes: args.host_bytes(),
        device_bytes: args.device_bytes(options.device),
        folder: folder.to_owned(),
        keep_graph: options.stages() > 1,
        quiet,
        interrupt: interrupt.clone(),
        ..Preparation::in_memory([hops, label_hops])
    };
    let bytes = preparation.bytes(&data);
    let place = match bytes > preparation.host_bytes {
        true => format!("files in {}", folder.display()),
        false => "memory".into(),
    };
    say(format!(
        "propagating features {} and labels {} over {} edges, {} MB in {place}",
        counted(hops, "time"),
        counted(label_hops, "time"),
        grouped(data.edges.len() as u64),
        grouped(bytes / 1_000_000),
    ));
    let id = GraphId::new(&options.graph, &data);
    NodeTask::prepare(id, data, &preparation, device)
}

impl GraphArgs {
    fn cache_folder(&self) -> &Path {
        self.cache.as_deref().unwrap_or(Path::new(CACHE))
    }

    fn host_bytes(&self) -> u64 {
        match self.host_mb {
            Some(mb) => mb.saturating_mul(MB),
            None => {
                let mut system = sysinfo::System::new();
                system.refresh_memory();
                system.available_memory() / 2
            }
        }
    }

    fn device_bytes(&self, device: DeviceChoice) -> u64 {
        let default = match device {
            DeviceChoice::Flex | DeviceChoice::Cpu => 0,
            _ => DEVICE_MB,
        };
        self.device_mb.unwrap_or(default).saturating_mul(MB)
    }
}

fn drive(
    args: &Args,
    trainer: Trainer,
    dir: &RunDir,
    log: &mut LogWriter,
    interrupt: &Interrupt,
) -> Result<Outcome, GamlpError> {
    let options = trainer.options();
    let epochs = options.epochs.iter().sum();
    let earlier: usize = options.epochs[..trainer.counters().stage].iter().sum();
    let progress = Progress::new(earlier + trainer.epoch(), epochs, args.quiet);
    for line in introduction(&trainer, dir) {
        progress.line(&line);
    }
    train(trainer, dir, log, &progress, interrupt)
}

fn introduction(trainer: &Trainer, dir: &RunDir) -> [String; 3] {
    let options = trainer.options();
    let (model, stage) = (&options.model, trainer.counters().stage);
    let output = match model.head {
        Some(width) => format!("feature head of {width}"),
        None => format!(
            "output network of {}",
            counted(model.output_layers, "layer")
        ),
    };
    let density = trainer.density();
    let storage = match (model.mode, options.updates_topology()) {
        (WeightMode::Dense, _) => "dense".to_string(),
        (mode, false) => format!("{} {mode} at density {density:.4}, static", model.scope),
        (mode, true) => match options.no_updates(stage) {
            Some(reason) => format!(
                "{} {mode} at density {density:.4}, no updates by {} ({reason})",
                model.scope, options.method
            ),
            None => format!(
                "{} {mode} at density {density:.4}, {} moves connections every {} until epoch {}",
                model.scope,
                options.method,
                counted(options.update_every, "epoch"),
                options.last_update(stage)
            ),
        },
    };
    let task = trainer.stage().task();
    let split = task.split();
    let count = |nodes: usize| grouped(nodes as u64);
    [
        format!(
            "R_GAMLP_RLU on {}: {} of width {}, {output}; {storage}",
            options.device,
            counted(model.hops, "hop"),
            model.hidden
        ),
        format!(
            "graph: {}, {} nodes, {} edges, {}, classes: {}; {} nodes to learn from, {} to select by, \
             {} to judge by",
            task.id().name,
            count(task.nodes()),
            count(task.id().edges),
            counted(model.features, "feature"),
            model.classes,
            count(split.train.len()),
            count(split.valid.len()),
            count(split.test.len())
        ),
        format!("log and checkpoint: {}", dir.path().display()),
    ]
}
