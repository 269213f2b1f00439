use super::{Progress, Topology, run_dir::LEARNER};
use crate::{
    Batch, Dataset, EpochRecord, FashionError, Gradient, Loss, Mlp, Options, RunResult,
    TestBatches, TrainBatches,
};
use burn::{
    lr_scheduler::module_lr_scheduler::ModuleLearningRate,
    module::Module,
    optim::{GradientsParams, ModuleOptimizer},
    tensor::{Device, Int, Tensor},
    train::{
        InferenceStep, Interrupter, ItemLazy, Learner, SupervisedTraining, TrainOutput, TrainStep,
        logger::{EvaluationProgressLogger, TrainingProgressLogger},
        metric::{
            AccuracyInput, AccuracyMetric, Adaptor, LossInput, LossMetric, MetricDefinition,
            MetricId, NumericEntry,
        },
        renderer::{
            EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
            MetricsRendererTraining,
        },
    },
};
use snack_burn::report::{DensityMetric, TopologyInput, TopologyLog, TurnoverMetric};
use std::{
    collections::HashMap,
    fmt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Test images that are computed at once.
const TEST_BATCH: usize = 500;

/// What Burn's `Learner` trains: the model, and the topology that changes with it.
///
/// The `Learner` leaves the optimizer step to [`TrainStep::optimize`], which is the place for a
/// topology update: there it has the model and its optimizer. Where no reports are wanted,
/// [`Rewiring`](snack_burn::dst::Rewiring) does that for any model.
#[derive(Module, Debug)]
pub struct Student {
    /// The model.
    pub mlp: Mlp,
    #[module(skip)]
    loss: Loss,
    #[module(skip)]
    gradient: Gradient,
    #[module(skip)]
    shared: Arc<Shared>,
}

/// What all copies of a [`Student`] share: the `Learner` clones its model for every step.
struct Shared(Mutex<State>);

struct State {
    /// There once the student is, whose layers it is made for.
    topology: Option<Topology>,
    step_started: Instant,
    failed: Option<FashionError>,
    interrupter: Interrupter,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Ends the run at the next opportunity; the first reason is kept.
    fn fail(&mut self, error: FashionError) {
        self.interrupter.stop(Some("the run failed"));
        self.failed.get_or_insert(error);
    }

    fn topology(&mut self) -> &mut Topology {
        let topology = self.topology.as_mut();
        topology.expect("the topology is made before training starts")
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// What metrics are computed from.
#[derive(Debug)]
pub struct StudentOutput {
    loss: Tensor<1>,
    scores: Tensor<2>,
    labels: Tensor<1, Int>,
    topology: TopologyInput,
}

impl ItemLazy for StudentOutput {
    fn sync(self) -> Result<Self, burn::tensor::ExecutionError> {
        self.loss.device().flush()?;
        Ok(Self {
            loss: self.loss.without_autodiff(),
            scores: self.scores.without_autodiff(),
            labels: self.labels.without_autodiff(),
            topology: self.topology,
        })
    }
}

impl Adaptor<LossInput> for StudentOutput {
    fn adapt(&self) -> LossInput {
        LossInput::new(self.loss.clone())
    }
}

impl Adaptor<AccuracyInput> for StudentOutput {
    fn adapt(&self) -> AccuracyInput {
        AccuracyInput::new(self.scores.clone(), self.labels.clone())
    }
}

impl Adaptor<TopologyInput> for StudentOutput {
    fn adapt(&self) -> TopologyInput {
        self.topology
    }
}

impl TrainStep for Student {
    type Input = Batch;
    type Output = StudentOutput;

    fn step(&self, batch: Batch) -> TrainOutput<StudentOutput> {
        let topology = {
            let mut state = self.shared.lock();
            state.step_started = Instant::now();
            // The `Learner` may have put the model on another device.
            state.topology().listen_to(self);
            state.topology().input()
        };
        let scores = self.mlp.forward(batch.images, &batch.masks);
        let loss = self
            .loss
            .batch(self.gradient, scores.clone(), batch.targets);
        let output = StudentOutput {
            loss: loss.reported,
            scores: scores.detach(),
            labels: batch.labels,
            topology,
        };
        TrainOutput::new(self, loss.objective.backward(), output)
    }

    fn optimize(
        self,
        optim: &mut ModuleOptimizer,
        rate: ModuleLearningRate,
        grads: GradientsParams,
    ) -> Self {
        let shared = self.shared.clone();
        let model = optim.step(rate, self, grads);
        let mut state = shared.lock();
        let started = state.step_started;
        let (model, result) = state
            .topology()
            .after_step(model, optim, || started.elapsed());
        if let Err(error) = result {
            state.fail(error.into());
        }
        model
    }
}

impl InferenceStep for Student {
    type Input = Batch;
    type Output = StudentOutput;

    fn step(&self, batch: Batch) -> StudentOutput {
        let scores = self.mlp.forward(batch.images, &[]);
        StudentOutput {
            loss: self.loss.samples(scores.clone(), batch.targets),
            scores,
            labels: batch.labels,
            topology: self.shared.lock().topology().input(),
        }
    }
}

/// Trains with Burn's `Learner`; its metrics go to `folder/learner`. The counterpart of
/// [`Trainer::train`](super::Trainer::train), to the same numbers but for the rounding of sums.
///
/// # Errors
///
/// As there, and [`FashionError::Learner`] if the `Learner` stops by itself.
pub fn learn(
    options: Options,
    data: &Dataset,
    seed: u64,
    device: &Device,
    folder: &Path,
    progress: (&str, Progress),
    report: impl Fn(&EpochRecord) -> Result<(), FashionError> + Send + Sync + 'static,
) -> Result<(RunResult, TopologyLog), FashionError> {
    let started = Instant::now();
    let device = device.clone().autodiff();
    let mlp = Mlp::new(&options, data.features(), seed, &device)?;
    let train = TrainBatches::of(&options, data, seed, &device);
    let test = TestBatches::new(
        Arc::new(data.test().clone()),
        TEST_BATCH,
        &device.clone().inner(),
    );
    let interrupter = Interrupter::new();
    let shared = Arc::new(Shared(Mutex::new(State {
        topology: None,
        step_started: Instant::now(),
        failed: None,
        interrupter: interrupter.clone(),
    })));
    let student = Student {
        mlp,
        loss: options.loss,
        gradient: options.gradient,
        shared: shared.clone(),
    };
    let (optim, scaling) = options.optimizer(&student);
    let topology = Topology::new(&options, seed, &student, scaling, train.steps())?;
    shared.lock().topology = Some(topology);
    let epochs = Arc::new(Mutex::new(Vec::new()));
    let renderer = Lines {
        run: progress.0.to_string(),
        progress: progress.1,
        report: Box::new(report),
        options: options.clone(),
        seed,
        shared: shared.clone(),
        epochs: epochs.clone(),
        steps: train.steps(),
        names: HashMap::new(),
        finals: HashMap::new(),
    };
    let result = SupervisedTraining::new(folder.join(LEARNER), Arc::new(train), Arc::new(test))
        .metrics((LossMetric::new(), AccuracyMetric::new()))
        .metric_train_numeric(DensityMetric::new())
        .metric_train_numeric(TurnoverMetric::new())
        .with_application_logger(None)
        .with_interrupter(interrupter)
        .renderer(Box::new(renderer))
        .num_epochs(options.epochs)
        .launch(Learner::new(student, optim, options.learning_rate));
    // The renderer has seen all epochs when it is gone.
    drop(result.renderer);
    if let Some(error) = shared.lock().failed.take() {
        return Err(error);
    }
    if let Some(error) = result.error {
        return Err(FashionError::Learner(error.to_string()));
    }

    let epochs = std::mem::take(&mut *epochs.lock().unwrap_or_else(PoisonError::into_inner));
    let log = shared.lock().topology().log().clone();
    let run = RunResult::new(&options, seed, &result.model.mlp, epochs, &log, started);
    Ok((run, log))
}

/// What to do with the record of an epoch.
type Report = Box<dyn Fn(&EpochRecord) -> Result<(), FashionError> + Send + Sync>;

/// What the `Learner` says of an epoch, as soon as it is over: a line on standard error and a record
/// for the caller, from the final values of its metrics.
struct Lines {
    run: String,
    progress: Progress,
    report: Report,
    options: Options,
    seed: u64,
    shared: Arc<Shared>,
    epochs: Arc<Mutex<Vec<EpochRecord>>>,
    steps: u64,
    names: HashMap<MetricId, String>,
    finals: HashMap<(bool, String), f64>,
}

impl Lines {
    fn keep(&mut self, train: bool, state: MetricState) {
        if let MetricState::Numeric(entry, Some(NumericEntry::Final(value))) = state
            && let Some(name) = self.names.get(&entry.metric_id)
        {
            self.finals.insert((train, name.clone()), value);
        }
    }

    fn last(&self, train: bool, name: &str) -> f64 {
        let key = (train, name.to_string());
        self.finals.get(&key).copied().unwrap_or(f64::NAN)
    }
}

impl MetricsRendererTraining for Lines {
    fn update_train(&mut self, state: MetricState) {
        self.keep(true, state);
    }

    fn update_valid(&mut self, state: MetricState) {
        self.keep(false, state);
    }
}

impl TrainingProgressLogger for Lines {
    fn start(&mut self, _: usize, _: usize, _: Option<usize>, _: Option<&str>) {}

    fn update_epoch(&mut self, epoch: usize) {
        let topology = self.shared.lock().topology().epoch(epoch - 1);
        let record = EpochRecord {
            epoch,
            step: epoch as u64 * self.steps,
            train_loss: self.last(true, "Loss"),
            test_loss: self.last(false, "Loss"),
            test_accuracy: self.last(false, "Accuracy") / 100.0,
            replaced: topology.replaced,
            nnz: topology.nnz,
            seconds: topology.time.as_secs_f64(),
        };
        self.progress.epoch(&self.run, &record);
        let reported = (self.report)(&record).and_then(|()| match record.train_loss.is_finite() {
            true => Ok(()),
            false => Err(FashionError::diverged(&self.options, self.seed, &record)),
        });
        if let Err(error) = reported {
            self.shared.lock().fail(error);
        }
        self.epochs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(record);
    }

    fn start_split(&mut self, _: &str, _: usize) {}
    fn update_split(&mut self, _: usize) {}
    fn end_split(&mut self) {}
    fn end(&mut self) {}
    fn log_event_training(&mut self, _: String) {}
}

impl MetricsRendererEvaluation for Lines {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}
}

impl EvaluationProgressLogger for Lines {
    fn start_global_progress(&mut self, _: usize) {}
    fn start_test(&mut self, _: &str, _: usize) {}
    fn update_test_progress(&mut self, _: usize) {}
    fn end_test(&mut self) {}
    fn end_global_progress(&mut self) {}
    fn log_event_evaluation(&mut self, _: String) {}
}

impl MetricsRenderer for Lines {
    fn manual_close(&mut self) {}

    fn register_metric(&mut self, definition: MetricDefinition) {
        self.names
            .insert(definition.metric_id, definition.name.to_string());
    }
}
