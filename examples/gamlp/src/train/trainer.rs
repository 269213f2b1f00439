use super::{
    Accuracy, BestEpoch, Counters, EpochOrder, RunDir, RunState, Stage, TrainOptions, best_model,
    keep_best,
    restore::{load_best, restore_model, restore_stage},
};
use crate::{DeviceChoice, Gamlp, GamlpError, GpuMeter, NodeTask, Projection};
use burn::{
    module::Module,
    optim::{GradientsParams, ModuleOptimizer},
    tensor::{Device, Tensor},
};
use snack_burn::prelude::*;
use std::time::Instant;

/// Model, optimizer and topology of a run, and how far it is.
///
/// Gradients live on the device that was given with autodiff; the loss of a step stays there until
/// [`take_loss`](Self::take_loss), because reading a number back makes a GPU wait.
pub struct Trainer {
    options: TrainOptions,
    device: Device,
    stage: Stage,
    /// The epoch of the newest step, and its order.
    order: Option<(usize, EpochOrder)>,
    model: Gamlp,
    optim: ModuleOptimizer,
    /// `None` if the topology never changes.
    dst: Option<Dst>,
    counters: Counters,
    open_loss: Option<Tensor<1>>,
    /// The best model of this stage, in evaluation mode.
    best: Option<BestModel>,
    /// With what the GPU had used at the start.
    meter: Option<(GpuMeter, u64)>,
    /// What the GPU had used before the steps whose loss is open.
    steps_from_mj: Option<u64>,
    started: Instant,
    earlier_seconds: f64,
}

struct BestModel {
    model: Gamlp,
    /// Whether its file is written.
    saved: bool,
}

impl Trainer {
    /// Starts a run on a graph.
    ///
    /// # Errors
    ///
    /// [`GamlpError::Config`] if an option is out of range; [`GamlpError::Topology`] if the method
    /// does not suit the model.
    pub fn new(options: TrainOptions, task: NodeTask, device: &Device) -> Result<Self, GamlpError> {
        let options = options.fitted_to(&task);
        options.validate()?;
        let stage = Stage::first(task, &options);
        Self::start(options, stage, device, Counters::default())
    }

    /// Starts the stage of the counters.
    fn start(
        options: TrainOptions,
        stage: Stage,
        device: &Device,
        counters: Counters,
    ) -> Result<Self, GamlpError> {
        let device = device.clone().autodiff();
        let seed = options.stage_seed(counters.stage);
        let model = options.model.init(seed, &device);
        let epoch = stage.batches().steps();
        Ok(Self {
            dst: options.topology(&model, DstState::default(), counters.stage, epoch)?,
            model,
            optim: options.optimizer(),
            open_loss: None,
            order: None,
            best: None,
            meter: meter(options.device),
            steps_from_mj: None,
            started: Instant::now(),
            earlier_seconds: counters.seconds,
            counters,
            options,
            device,
            stage,
        })
    }

    /// Continues a run from its checkpoint in `dir`.
    ///
    /// # Errors
    ///
    /// [`GamlpError::ForeignCheckpoint`] if a recorded model does not fit the options;
    /// [`GamlpError::Checkpoint`] if the model that a stage was taught by cannot be read.
    pub fn resume(
        options: TrainOptions,
        task: NodeTask,
        device: &Device,
        checkpoint: Checkpoint,
        counters: Counters,
        dir: &RunDir,
    ) -> Result<Self, GamlpError> {
        let options = options.fitted_to(&task);
        let stage = restore_stage(&options, task, &counters, device, dir)?;
        let path = dir.checkpoint();
        let tracked = device.clone().autodiff();
        let model = restore_model(&options, checkpoint.model, &tracked, &path)?;
        let epoch = stage.batches().steps();
        let dst = options
            .topology(&model, checkpoint.dst, counters.stage, epoch)
            .map_err(|error| GamlpError::ForeignCheckpoint {
                path: path.clone(),
                reason: error.to_string(),
            })?;
        let best = counters.best_of_stage();
        let best = best.map(|best| load_best(&options, best, device, dir));
        let open_loss = (counters.open_steps > 0).then(|| {
            let inner = tracked.clone().inner();
            Tensor::from_floats([counters.open_loss], &inner)
        });
        Ok(Self {
            model,
            optim: options.optimizer().load_record(checkpoint.optimizer),
            dst,
            open_loss,
            order: None,
            best: best
                .transpose()?
                .map(|model| BestModel { model, saved: true }),
            meter: meter(options.device),
            steps_from_mj: None,
            started: Instant::now(),
            earlier_seconds: counters.seconds,
            counters,
            options,
            device: tracked,
            stage,
        })
    }

    /// Trains on one batch, then updates the topology if its time has come.
    pub fn step(mut self) -> Self {
        let start = Instant::now();
        if self.steps_from_mj.is_none() {
            self.steps_from_mj = self.energy_mj();
        }
        let steps = self.stage.batches().steps();
        let (epoch, step) = (self.counters.step / steps, self.counters.step % steps);
        if self.options.model.has_dropout() {
            // A stream of its own for every step, so that a resumed run draws the same numbers.
            let number = self.counters.total_steps() as u64 + 1;
            self.device.seed(self.options.seed ^ number.rotate_left(32));
        }
        let (of, order) = match self.order.take() {
            Some(order) if order.0 == epoch => order,
            _ => (epoch, self.stage.batches().epoch(epoch)),
        };
        let (batch, targets, nodes) =
            self.stage
                .batch(&order, step, self.options.gamma, &self.device);
        let logits = self.model.forward(batch.hops, batch.label_embedding);
        let loss = targets.loss(logits);
        let grads = GradientsParams::from_grads(loss.backward(), &self.model);
        let mut model = self
            .optim
            .step(self.options.learning_rate, self.model, grads);
        let mut optim = self.optim;
        if let Some(dst) = &mut self.dst {
            (model, optim) = dst.step(model, optim);
        }

        let loss = loss.inner();
        let open_loss = match self.open_loss {
            Some(sum) => sum + loss,
            None => loss,
        };
        self.counters.step += 1;
        self.counters.samples += nodes as u64;
        self.counters.open_steps += 1;
        self.counters.train_seconds += start.elapsed().as_secs_f64();
        Self {
            model,
            optim,
            open_loss: Some(open_loss),
            order: Some((of, order)),
            ..self
        }
    }

    /// Goes on to the next stage, taught by the best model of this one; the model there is a new one.
    ///
    /// # Errors
    ///
    /// [`GamlpError::Topology`] as [`new`](Self::new); [`GamlpError::HopFiles`] as
    /// [`NodeTask::with_reliable`].
    ///
    /// # Panics
    ///
    /// Panics if this is the last stage, or it was never evaluated.
    pub fn next_stage(self) -> Result<Self, GamlpError> {
        let index = self.counters.stage + 1;
        assert!(
            index < self.options.stages(),
            "Trainer::next_stage: there are {} stages",
            self.options.stages()
        );
        let seconds = self.seconds();
        let teacher = self.best.expect("a stage ends with an evaluation").model;
        let device = self.device.inner();
        let stage = self.stage.next(&teacher, &self.options, index, &device)?;
        let counters = Counters {
            stage: index,
            step: 0,
            evaluated: 0,
            earlier_steps: self.counters.total_steps(),
            seconds,
            ..self.counters
        };
        let next = Self::start(self.options, stage, &device, counters)?;
        Ok(Self {
            meter: self.meter,
            ..next
        })
    }

    /// The topology update of the newest step, if it made one.
    pub fn update(&self) -> Option<&TopologyUpdate> {
        self.dst.as_ref()?.last_update()
    }

    /// Mean training loss since this was last asked; waits for the device.
    ///
    /// # Errors
    ///
    /// [`GamlpError::Diverged`] if it is not a number.
    pub fn take_loss(&mut self) -> Result<f64, GamlpError> {
        let start = Instant::now();
        let sum = self.read_open_loss()?;
        if let (Some(before), Some(now)) = (self.steps_from_mj.take(), self.energy_mj()) {
            self.counters.train_mj += now.saturating_sub(before);
        }
        let mean = f64::from(sum) / self.counters.open_steps.max(1) as f64;
        self.open_loss = None;
        self.counters.open_steps = 0;
        self.counters.train_loss = Some(mean);
        self.counters.train_seconds += start.elapsed().as_secs_f64();
        Ok(mean)
    }

    /// Measures the accuracy on the parts that the options name, and keeps the model if it is the best
    /// of its stage on the nodes to select by.
    pub fn evaluate(&mut self) -> Accuracy {
        let device = self.device.clone().inner();
        let model = self.model.valid();
        let batch = self.options.batch;
        let parts = &self.options.eval_parts;
        let accuracy = Accuracy::of(&model, self.stage.task(), parts, batch, &device);
        let epoch = self.epoch();
        let counters = &mut self.counters;
        counters.accuracy = Some(accuracy);
        counters.evaluated = epoch;
        let best = counters.best_of_stage();
        if best.is_none_or(|best| accuracy.valid > best.accuracy.valid) {
            counters.best.truncate(counters.stage);
            counters.best.push(BestEpoch {
                stage: counters.stage,
                epoch,
                accuracy,
            });
            self.best = Some(BestModel {
                model,
                saved: false,
            });
        }
        accuracy
    }

    /// Writes the checkpoint and the best model of the stage. Every file is replaced in one step, and
    /// the checkpoint, which names the other, comes last.
    ///
    /// # Errors
    ///
    /// [`GamlpError::Diverged`] if the loss is not a number, rather than replacing a good
    /// checkpoint; [`GamlpError::Checkpoint`] if a file cannot be written.
    pub fn save(&mut self, dir: &RunDir) -> Result<(), GamlpError> {
        let counters = Counters {
            open_loss: self.read_open_loss()?,
            seconds: self.seconds(),
            ..self.counters.clone()
        };
        let graph = self.stage.task().id().clone();
        let state = RunState::new(self.options.clone(), graph, counters);
        let user = state.to_value();
        if let Some(best) = self.best.as_mut().filter(|best| !best.saved) {
            let named = self.counters.best_of_stage();
            let named = named.expect("the best model has an epoch");
            let checkpoint = Checkpoint {
                model: best.model.clone().into_record(),
                optimizer: self.options.optimizer().to_record(),
                dst: DstState::default(),
                user: user.clone(),
            };
            checkpoint.save(best_model(dir, named))?;
            best.saved = true;
        }
        // A record does not hold running statistics that the newest step has not handed over yet;
        // the evaluation mode does that.
        drop(self.model.valid());
        let checkpoint = Checkpoint {
            model: self.model.clone().into_record(),
            optimizer: self.optim.to_record(),
            dst: self.dst.as_ref().map(Dst::state).unwrap_or_default(),
            user,
        };
        checkpoint.save(dir.checkpoint())?;
        keep_best(dir, &self.counters.best);
        Ok(())
    }

    /// Epochs done in this stage.
    pub fn epoch(&self) -> usize {
        self.counters.step / self.stage.batches().steps()
    }

    /// Whether the newest step ended an epoch.
    pub fn is_epoch_end(&self) -> bool {
        self.counters
            .step
            .is_multiple_of(self.stage.batches().steps())
    }

    /// Whether this stage has come to its end: to its last epoch, or to the end of patience.
    pub fn is_stage_done(&self) -> bool {
        let best = self.counters.best_of_stage();
        let patience = self.options.patience.zip(best);
        let out = patience.is_some_and(|(patience, best)| {
            self.counters.evaluated.saturating_sub(best.epoch) >= patience
        });
        out || self.epoch() >= self.options.epochs[self.counters.stage]
    }

    /// Whether the run has come to its end.
    pub fn is_done(&self) -> bool {
        self.is_stage_done() && self.counters.stage + 1 == self.options.stages()
    }

    /// Share of the weights that exist of the matrices that may be sparse; 1 in a dense model.
    pub fn density(&self) -> f64 {
        let slots: usize = self.governed().map(|layer| layer.width().pow(2)).sum();
        match slots {
            0 => 1.0,
            _ => self.nnz() as f64 / slots as f64,
        }
    }

    /// Number of weights that exist of the masked and sparse matrices.
    pub fn nnz(&self) -> usize {
        let config = &self.options.model;
        let nnz = |layer: &Projection| {
            let known = layer.nnz();
            known.unwrap_or_else(|| config.sparse_nnz(layer.width()))
        };
        self.governed().map(nnz).sum()
    }

    /// The masked and sparse matrices.
    pub(crate) fn governed(&self) -> impl Iterator<Item = &Projection> {
        let all = self.model.sparsifiable().into_iter();
        all.filter(|layer| !matches!(layer, Projection::Dense(_)))
    }

    /// Wall time of the run, the time before a resume included.
    pub fn seconds(&self) -> f64 {
        self.earlier_seconds + self.started.elapsed().as_secs_f64()
    }

    /// Bytes that the device holds ready in all, where it says so.
    pub fn reserved_bytes(&self) -> Option<u64> {
        let usage = self.device.clone().inner().memory_pool_usage();
        usage.map(|usage| usage.bytes_reserved)
    }

    /// Bytes that all processes have on the GPU, where NVML says so.
    pub fn nvml_bytes(&self) -> Option<u64> {
        let (meter, _) = self.meter.as_ref()?;
        Some(meter.read()?.used_bytes)
    }

    /// Energy that the GPU has used since this was made, in joules, where NVML counts it.
    pub fn joules(&self) -> Option<f64> {
        let (_, start) = self.meter.as_ref()?;
        Some(self.energy_mj()?.saturating_sub(*start) as f64 / 1e3)
    }

    /// Energy that the GPU has used since its driver was loaded, in millijoules.
    fn energy_mj(&self) -> Option<u64> {
        let (meter, _) = self.meter.as_ref()?;
        Some(meter.read()?.energy_mj)
    }

    /// Mean energy of the GPU in a training step whose loss was [taken](Self::take_loss), in
    /// millijoules, where NVML counts it. What an interrupted epoch used before the interrupt is lost.
    pub fn mj_per_step(&self) -> Option<f64> {
        self.meter.as_ref()?;
        let counters = &self.counters;
        let steps = counters.total_steps() - counters.open_steps;
        Some(counters.train_mj as f64 / steps.max(1) as f64)
    }

    /// Gives back the memory of the device that nothing uses now, such as what routines were tried with.
    pub fn release_memory(&self) {
        self.device.clone().inner().memory_cleanup();
    }

    /// Steps, times, losses and results so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The options of the run.
    pub fn options(&self) -> &TrainOptions {
        &self.options
    }

    /// What this stage learns from.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The model.
    pub fn model(&self) -> &Gamlp {
        &self.model
    }

    fn read_open_loss(&self) -> Result<f32, GamlpError> {
        let sum = match &self.open_loss {
            Some(sum) => sum.clone().into_scalar::<f32>(),
            None => 0.0,
        };
        match sum.is_finite() {
            true => Ok(sum),
            false => Err(GamlpError::Diverged {
                stage: self.counters.stage,
                epoch: self.counters.step.div_ceil(self.stage.batches().steps()),
                loss: sum.into(),
                learning_rate: self.options.learning_rate,
            }),
        }
    }
}

fn meter(device: DeviceChoice) -> Option<(GpuMeter, u64)> {
    let meter = GpuMeter::open(0).filter(|_| device == DeviceChoice::Cuda)?;
    let start = meter.read()?.energy_mj;
    Some((meter, start))
}
