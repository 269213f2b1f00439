use crate::{
    Batch, Corpus, Counters, DeviceChoice, Gpt2, Gpt2Error, GpuMeter, MlpLinear, RunState,
    TrainOptions, TrainWindows, held_out_offsets,
};
use burn::{
    module::Module,
    optim::{GradientsAccumulator, GradientsParams, ModuleOptimizer},
    store::ModuleRecord,
    tensor::{Device, Tensor},
};
use snack_burn::prelude::*;
use std::{path::Path, time::Instant};

/// Model, optimizer and topology of a run, and how far it is.
///
/// Gradients live on the device that was given with autodiff; the loss of a step stays there until
/// [`take_loss`](Self::take_loss), because reading a number back makes a GPU wait.
pub struct Trainer {
    options: TrainOptions,
    corpus: Corpus,
    device: Device,
    model: Gpt2,
    optim: ModuleOptimizer,
    /// `None` if the topology never changes.
    dst: Option<Dst>,
    counters: Counters,
    open_loss: Option<Tensor<1>>,
    /// With what the GPU had used at the start.
    meter: Option<(GpuMeter, u64)>,
    /// What the first forward pass left on the device for its backward pass.
    activations: Option<u64>,
    started: Instant,
    earlier_seconds: f64,
}

impl Trainer {
    /// Starts a run.
    ///
    /// # Panics
    ///
    /// Panics if [`TrainOptions::validate`] or [`Corpus::check_length`] would refuse.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::Topology`] if the method does not suit the model.
    pub fn new(options: TrainOptions, corpus: Corpus, device: &Device) -> Result<Self, Gpt2Error> {
        let model = options
            .model
            .init(options.seed, &training_device(device, &options));
        Self::from_model(options, corpus, device, model)
    }

    /// Starts a run from a model on `device` with autodiff, whose sizes are those of the options.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn from_model(
        options: TrainOptions,
        corpus: Corpus,
        device: &Device,
        model: Gpt2,
    ) -> Result<Self, Gpt2Error> {
        let device = training_device(device, &options);
        let model = on_device(model, &device).with_precision(options.precision);
        Ok(Self {
            dst: options.topology(&model, DstState::default())?,
            model,
            optim: options.optimizer(),
            counters: Counters::default(),
            open_loss: None,
            meter: meter(options.device),
            activations: None,
            started: Instant::now(),
            earlier_seconds: 0.0,
            options,
            corpus,
            device,
        })
    }

    /// Continues a run from its checkpoint.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::ForeignCheckpoint`] if the recorded model does not fit the options.
    pub fn resume(
        options: TrainOptions,
        corpus: Corpus,
        device: &Device,
        checkpoint: Checkpoint,
        counters: Counters,
        path: &Path,
    ) -> Result<Self, Gpt2Error> {
        let device = training_device(device, &options);
        let foreign = |reason: String| Gpt2Error::ForeignCheckpoint {
            path: path.to_owned(),
            reason,
        };
        let model = restore_model(&options, checkpoint.model, &device, path)?;
        let dst = options
            .topology(&model, checkpoint.dst)
            .map_err(|error| foreign(error.to_string()))?;
        let open_loss = (counters.open_steps > 0)
            .then(|| Tensor::from_floats([counters.open_loss], &device.clone().inner()));
        Ok(Self {
            model: model.with_precision(options.precision),
            optim: options.optimizer().load_record(checkpoint.optimizer),
            dst,
            open_loss,
            meter: meter(options.device),
            activations: None,
            started: Instant::now(),
            earlier_seconds: counters.seconds,
            counters,
            options,
            corpus,
            device,
        })
    }

    /// Trains on one batch, then updates the topology if its time has come.
    pub fn step(mut self) -> Self {
        let start = Instant::now();
        let step = self.counters.step + 1;
        let TrainOptions {
            seed,
            batch,
            accumulate,
            ref model,
            ..
        } = self.options;
        if model.dropouts().iter().any(|&p| p > 0.0) {
            // A stream of its own for every step, so that a resumed run draws the same numbers.
            self.device.seed(seed ^ (step as u64).rotate_left(32));
        }
        let text = self.corpus.train();
        // The counter goes on where a run with another batch left off.
        let done = self.counters.tokens / model.context as u64;
        let windows = TrainWindows::new(seed, text.len(), model.context);
        let offsets = windows.offsets(done, batch * accumulate);

        let mut accumulator = GradientsAccumulator::new();
        let mut losses = Vec::with_capacity(accumulate);
        for offsets in offsets.chunks(batch) {
            let windows = Batch::new(text, offsets, model.context, &self.device);
            let before = match self.activations {
                None => self.bytes_in_use(),
                Some(_) => None,
            };
            let loss = self.model.loss(windows.tokens, windows.targets) / accumulate as f64;
            if let Some(before) = before {
                let after = self.bytes_in_use();
                self.activations = after.map(|after| after.saturating_sub(before));
            }
            let grads = GradientsParams::from_grads(loss.backward(), &self.model);
            accumulator.accumulate(&self.model, grads);
            losses.push(loss.inner());
        }
        let grads = accumulator.grads();
        let rate = self.options.learning_rate_at(step);
        let mut model = self.optim.step(rate, self.model, grads);
        let mut optim = self.optim;
        if let Some(dst) = &mut self.dst {
            (model, optim) = dst.step(model, optim);
        }

        let open_loss = losses
            .into_iter()
            .chain(self.open_loss)
            .reduce(|sum, loss| sum + loss);
        self.counters.step = step;
        self.counters.tokens += (batch * accumulate * self.options.model.context) as u64;
        self.counters.open_steps += 1;
        self.counters.train_seconds += start.elapsed().as_secs_f64();
        Self {
            model,
            optim,
            open_loss,
            ..self
        }
    }

    /// The topology update of the newest step, if it made one.
    pub fn update(&self) -> Option<&TopologyUpdate> {
        self.dst.as_ref()?.last_update()
    }

    /// Mean training loss since this was last asked; waits for the device.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::Diverged`] if it is not a number.
    pub fn take_loss(&mut self) -> Result<f64, Gpt2Error> {
        let start = Instant::now();
        let sum = self.read_open_loss()?;
        let mean = f64::from(sum) / self.counters.open_steps.max(1) as f64;
        self.open_loss = None;
        self.counters.open_steps = 0;
        self.counters.train_loss = Some(mean);
        self.counters.train_seconds += start.elapsed().as_secs_f64();
        Ok(mean)
    }

    /// Mean loss on the held-out windows, in nats per token.
    pub fn evaluate(&mut self) -> f64 {
        let device = self.device.clone().inner();
        let model = self.model.valid();
        let context = self.options.model.context;
        let text = self.corpus.held_out();
        let offsets = held_out_offsets(text.len(), context, self.options.batch);

        let total = offsets
            .chunks(self.options.batch)
            .map(|offsets| {
                let windows = Batch::new(text, offsets, context, &device);
                model.loss(windows.tokens, windows.targets) * offsets.len() as f64
            })
            .reduce(|sum, loss| sum + loss)
            .map_or(0.0, |sum| f64::from(sum.into_scalar::<f32>()));
        let loss = total / offsets.len() as f64;
        self.counters.val_loss = Some(loss);
        loss
    }

    /// Writes the checkpoint; the file is replaced in one step.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::Diverged`] if the loss is not a number, rather than replacing a good
    /// checkpoint; [`Gpt2Error::Checkpoint`] if the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Gpt2Error> {
        let counters = Counters {
            open_loss: self.read_open_loss()?,
            seconds: self.seconds(),
            ..self.counters.clone()
        };
        let state = RunState::new(self.options.clone(), self.corpus.id().clone(), counters);
        let checkpoint = Checkpoint {
            model: self.model.clone().into_record(),
            optimizer: self.optim.to_record(),
            dst: self.dst.as_ref().map(Dst::state).unwrap_or_default(),
            user: state.to_value(),
        };
        Ok(checkpoint.save(path)?)
    }

    /// Share of the MLP weights that exist.
    pub fn density(&self) -> f64 {
        self.mlp_nnz() as f64 / self.options.model.dense_mlp_weights() as f64
    }

    /// Number of MLP weights that exist.
    pub fn mlp_nnz(&self) -> usize {
        let config = &self.options.model;
        let nnz = |layer: &MlpLinear| layer.nnz().unwrap_or(config.mlp_nnz());
        self.model.mlp_layers().map(nnz).sum()
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

    /// Bytes that the first forward pass kept for its backward pass, where the device says so.
    pub fn activation_bytes(&self) -> Option<u64> {
        self.activations
    }

    /// Bytes that tensors take, once all that was asked for is computed.
    fn bytes_in_use(&self) -> Option<u64> {
        let device = self.device.clone().inner();
        device.sync().ok()?;
        Some(device.memory_pool_usage()?.bytes_in_use)
    }

    /// Energy that the GPU has used since this was made, in joules, where NVML counts it.
    pub fn joules(&self) -> Option<f64> {
        let (meter, start) = self.meter.as_ref()?;
        let now = meter.read()?.energy_mj;
        Some(now.saturating_sub(*start) as f64 / 1e3)
    }

    /// Steps, tokens, times and losses so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The options of the run.
    pub fn options(&self) -> &TrainOptions {
        &self.options
    }

    /// The text that the run learns.
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// The model.
    pub fn model(&self) -> &Gpt2 {
        &self.model
    }

    fn read_open_loss(&self) -> Result<f32, Gpt2Error> {
        let sum = match &self.open_loss {
            Some(sum) => sum.clone().into_scalar::<f32>(),
            None => 0.0,
        };
        if sum.is_finite() {
            Ok(sum)
        } else {
            Err(Gpt2Error::Diverged {
                step: self.counters.step,
                loss: sum.into(),
                learning_rate: self.options.learning_rate,
                warmup: self.options.warmup,
            })
        }
    }
}

/// The model of a checkpoint whose run had these options.
///
/// # Errors
///
/// [`Gpt2Error::ForeignCheckpoint`] if the record does not fit the options.
pub(crate) fn restore_model(
    options: &TrainOptions,
    record: ModuleRecord,
    device: &Device,
    path: &Path,
) -> Result<Gpt2, Gpt2Error> {
    let model = options.model.init(options.seed, device);
    model
        .try_load_sparse_record(record)
        .map_err(|error| Gpt2Error::ForeignCheckpoint {
            path: path.to_owned(),
            reason: error.to_string(),
        })
}

/// The model with the checkpointing of `device`, which all tensors of an operation share.
fn on_device(model: Gpt2, device: &Device) -> Gpt2 {
    let given = model.wte.weight.val().gradient_checkpointing_strategy();
    match given == device.gradient_checkpointing_strategy() {
        true => model,
        false => model.fork(device),
    }
}

fn meter(device: DeviceChoice) -> Option<(GpuMeter, u64)> {
    let meter = GpuMeter::open(0).filter(|_| device == DeviceChoice::Cuda)?;
    let start = meter.read()?.energy_mj;
    Some((meter, start))
}

fn training_device(device: &Device, options: &TrainOptions) -> Device {
    let device = device.clone().autodiff();
    match options.checkpointing {
        true => device.gradient_checkpointing(),
        false => device,
    }
}
