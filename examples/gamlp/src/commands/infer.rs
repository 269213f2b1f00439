use super::{
    InferReport, InferRow, load_task,
    memory::{Use, check_memory},
};
use crate::{
    ConfigError, DeviceChoice, Gamlp, GamlpError, GpuMeter, GraphArgs, InputLayout, Interrupt,
    NodeTask, OutputNetwork, Part, Predictor, Projection, Recipe, Repeat, RunDir, RunState,
    SparseScope, Timing, TrainOptions, WeightMode, accuracy, best_model,
    config::within,
    train::{load_best, restore_stage},
};
use burn::tensor::{Device, Tensor};
use clap::{ArgAction, Parser};
use snack_burn::prelude::Checkpoint;
use std::path::{Path, PathBuf};

/// Fewest runs of a batch of several nodes.
const FEWEST_RUNS: usize = 10;

/// Measures how fast single nodes and batches are classified, with what memory and energy, and how well.
///
/// With --run the weights are those of the best epoch of a run of gamlp_dst, and the graph is that of the
/// run. Without it the weights are random ones of the sizes given.
///
/// Times are those of the wall clock, medians over --samples runs: of forward passes over an input that is
/// on the device, and of answers, which take their input from the host and bring their output there.
///
/// With --classify it says of some nodes what they are instead.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "gamlp_infer", version)]
pub struct InferArgs {
    /// Folder of a run of gamlp_dst
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// Sizes of random weights that are not given [default: small]
    #[arg(long, value_enum, conflicts_with = "run")]
    pub recipe: Option<Recipe>,
    /// Storage of the sparse matrices of random weights [default: that of the recipe]
    #[arg(long, value_enum, conflicts_with = "run")]
    pub mode: Option<WeightMode>,
    /// Share of their weights that does not exist [default: 0.9]
    #[arg(long, conflicts_with = "run", allow_negative_numbers = true)]
    pub sparsity: Option<f64>,
    /// Width of the feature head of random weights; 0: none [default: that of the recipe]
    #[arg(long, conflicts_with = "run", allow_negative_numbers = true)]
    pub head: Option<usize>,
    /// Seed of random weights [default: 42]
    #[arg(long, conflicts_with = "run")]
    pub seed: Option<u64>,

    /// The graph that inputs come from.
    #[command(flatten)]
    pub graph: GraphArgs,
    /// Which nodes are classified [default: test]
    #[arg(long, value_enum)]
    pub nodes: Option<Part>,

    /// Print the classes of these nodes, with commas between, as the best model of --run gives them, and
    /// measure nothing
    #[arg(
        long, value_name = "NODES", requires = "run", value_delimiter = ',', action = ArgAction::Set,
        allow_negative_numbers = true, conflicts_with_all = ["nodes", "samples", "warmup", "batch"]
    )]
    pub classify: Vec<u32>,

    /// Runs of a single node that are timed [default: 2000]
    #[arg(long, allow_negative_numbers = true)]
    pub samples: Option<usize>,
    /// Runs before the clock starts [default: 100]
    #[arg(long, allow_negative_numbers = true)]
    pub warmup: Option<usize>,
    /// Nodes of the batches whose throughput is measured beside that of single ones; 1: none
    /// [default: 1024]
    #[arg(long, allow_negative_numbers = true)]
    pub batch: Option<usize>,
    /// Do not record passes as graphs
    #[arg(long)]
    pub no_capture: bool,
    /// Back end [default: the first of cuda, metal, rocm, vulkan, wgpu, cpu, flex that is compiled in]
    #[arg(long, value_enum)]
    pub device: Option<DeviceChoice>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Print only the result and errors
    #[arg(long)]
    pub quiet: bool,
}

impl InferArgs {
    fn random_options(&self) -> TrainOptions {
        let mut options = self.recipe.unwrap_or_default().options();
        let model = &mut options.model;
        if let Some(head) = self.head {
            model.head = Some(head).filter(|&head| head > 0);
            if model.head.is_none() {
                model.scope = SparseScope::Hidden;
            }
        }
        model.mode = self.mode.unwrap_or(model.mode);
        model.sparsity = self.sparsity.unwrap_or(model.sparsity);
        options.seed = self.seed.unwrap_or(options.seed);
        options.method = snack_burn::dst::Preset::Static;
        options
    }

    fn batch(&self) -> usize {
        self.batch.unwrap_or(1024)
    }

    fn repeat(&self) -> Repeat {
        Repeat {
            warmup: self.warmup.unwrap_or(100),
            runs: self.samples.unwrap_or(2000),
        }
    }

    fn check(&self, options: &TrainOptions) -> Result<(), ConfigError> {
        options.validate()?;
        within("--samples", self.repeat().runs, 1, 1_000_000_000)?;
        within("--batch", self.batch(), 1, 1 << 24)?;
        if let (WeightMode::Dense, Some(sparsity)) = (options.model.mode, self.sparsity) {
            let allowed = "left out with --mode dense, where all weights exist";
            return Err(ConfigError::new("--sparsity", sparsity, allowed));
        }
        Ok(())
    }
}

/// A model and the nodes that it is for.
pub(super) struct Loaded {
    pub model: Gamlp,
    pub task: NodeTask,
    pub options: TrainOptions,
    weights: String,
}

/// Runs `gamlp_infer` and returns what it found.
///
/// # Errors
///
/// Any [`GamlpError`] about options, a graph, or the files of a run.
pub fn infer(args: &InferArgs) -> Result<InferReport, GamlpError> {
    let choice = args.device.unwrap_or_else(DeviceChoice::first);
    let (loaded, device) = match &args.run {
        Some(dir) => load_run(args, dir, choice)?,
        None => load_random(args, choice)?,
    };
    let Loaded {
        model,
        task,
        options,
        weights,
    } = loaded;
    let part = args.nodes.unwrap_or_default();
    let nodes = part.of(task.split());
    let batch = args.batch();
    let trained = args.run.is_some();
    let accuracy = trained.then(|| accuracy(&model, &task, nodes, batch, &device));
    let meter = GpuMeter::open(0).filter(|_| choice == DeviceChoice::Cuda);

    let mut rows = Vec::new();
    let batches: &[usize] = if batch > 1 { &[1, batch] } else { &[1] };
    for &batch in batches {
        for captured in [false, true] {
            if captured && args.no_capture {
                continue;
            }
            let bench = Bench {
                repeat: Repeat {
                    runs: (args.repeat().runs / batch).max(FEWEST_RUNS.min(args.repeat().runs)),
                    ..args.repeat()
                },
                batch,
                captured,
                meter: meter.as_ref(),
                device: &device,
            };
            rows.push(bench.model(&model, &task, nodes)?);
            if let OutputNetwork::Head(head) = &model.output {
                rows.push(bench.head(&head.wide)?);
            }
        }
    }
    let usage = device.memory_pool_usage();
    let reading = meter.as_ref().and_then(GpuMeter::read);
    let governed = model.sparsifiable();
    let indices: usize = governed.iter().map(|layer| layer.index_bytes_now()).sum();
    let parameters = model.trainable_parameters();
    let mode = options.model.mode;
    Ok(InferReport {
        weights,
        graph: task.id().name.clone(),
        device: choice,
        mode,
        sparsity: (mode != WeightMode::Dense).then_some(options.model.sparsity),
        parameters,
        model_bytes: parameters * size_of::<f32>() + indices,
        reserved_bytes: usage.as_ref().map(|usage| usage.bytes_reserved),
        in_use_bytes: usage.as_ref().map(|usage| usage.bytes_in_use),
        nvml_bytes: reading.map(|reading| reading.used_bytes),
        nodes: part.name(),
        node_count: nodes.len(),
        accuracy,
        rows,
    })
}

fn load_random(args: &InferArgs, choice: DeviceChoice) -> Result<(Loaded, Device), GamlpError> {
    let mut options = args.random_options();
    options.device = choice;
    args.check(&options)?;
    options.graph = args.graph.source(options.graph);
    check_memory(&options, Use::Inference)?;
    let device = choice.open()?;
    let task = load_task(
        &args.graph,
        &options,
        &device,
        &Interrupt::never(),
        args.quiet,
    )?;
    let options = options.fitted_to(&task);
    options.validate()?;
    let loaded = Loaded {
        model: options.model.init(options.seed, &device),
        task,
        weights: format!("random numbers of seed {}", options.seed),
        options,
    };
    Ok((loaded, device))
}

/// The best model of a run, and its graph.
///
/// # Errors
///
/// Any [`GamlpError`] about options, a graph, or the files of the run.
pub(super) fn load_run(
    args: &InferArgs,
    dir: &Path,
    choice: DeviceChoice,
) -> Result<(Loaded, Device), GamlpError> {
    let dir = RunDir::open(dir).map_err(|_| GamlpError::NoRun { dir: dir.into() })?;
    let path = dir.checkpoint();
    let RunState {
        mut options,
        graph,
        counters,
        ..
    } = RunState::from_value(&Checkpoint::load(&path)?.user, &path)?;
    options.graph = args.graph.source(options.graph);
    options.device = choice;
    args.check(&options)?;
    let Some(best) = counters.best_of_stage() else {
        return Err(GamlpError::NotEvaluated { path });
    };
    let device = choice.open()?;
    let task = load_task(
        &args.graph,
        &options,
        &device,
        &Interrupt::never(),
        args.quiet,
    )?;
    if !task.id().same_graph(&graph) {
        return Err(GamlpError::CheckpointMismatch {
            path,
            flag: "the graph",
            given: task.id().to_string(),
            stored: graph.to_string(),
        });
    }
    let options = options.fitted_to(&task);
    let stage = restore_stage(&options, task, &counters, &device, &dir)?;
    let loaded = Loaded {
        model: load_best(&options, best, &device, &dir)?,
        task: stage.into_task(),
        weights: best_model(&dir, best).display().to_string(),
        options,
    };
    Ok((loaded, device))
}

/// What all rows of a batch size have in common.
struct Bench<'a> {
    repeat: Repeat,
    batch: usize,
    captured: bool,
    meter: Option<&'a GpuMeter>,
    device: &'a Device,
}

impl Bench<'_> {
    fn model(&self, model: &Gamlp, task: &NodeTask, nodes: &[u32]) -> Result<InferRow, GamlpError> {
        let layout = task.inputs().layout();
        let predictor = Predictor::of_model(model, layout, self.batch, self.captured, self.device);
        let inputs = self.inputs(task, nodes, layout);
        self.row("model", predictor, &inputs)
    }

    /// The nodes of a run, in turns: they begin anew where they end.
    fn inputs(&self, task: &NodeTask, nodes: &[u32], layout: InputLayout) -> Vec<Vec<f32>> {
        let wanted = self.repeat.runs.min(nodes.len().div_ceil(self.batch));
        let mut cycle = nodes.iter().copied().cycle();
        let mut batch = || cycle.by_ref().take(self.batch).collect::<Vec<u32>>();
        let inputs: Vec<_> = (0..wanted).map(|_| task.packed(&batch())).collect();
        debug_assert!(
            inputs
                .iter()
                .all(|x| x.len() == self.batch * layout.width())
        );
        inputs
    }

    fn head(&self, layer: &Projection) -> Result<InferRow, GamlpError> {
        let input = Tensor::ones([self.batch, layer.width()], self.device);
        let inputs = [vec![1.0; self.batch * layer.width()]];
        let layer = layer.clone();
        let predictor = Predictor::new(input, self.captured, move |x| layer.forward(x));
        self.row("head", predictor, &inputs)
    }

    fn row(
        &self,
        part: &'static str,
        mut predictor: Predictor,
        inputs: &[Vec<f32>],
    ) -> Result<InferRow, GamlpError> {
        predictor.write(&inputs[0]);
        Ok(InferRow {
            part,
            batch: self.batch,
            captured: self.captured,
            hardware: predictor.is_hardware(),
            runs: self.repeat.runs,
            forward: Timing::of_forward(&mut predictor, self.repeat, self.meter, self.device)?,
            answer: Timing::of_answers(&mut predictor, inputs, self.repeat, self.meter)?,
        })
    }
}
