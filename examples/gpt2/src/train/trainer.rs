use crate::{
    Batch, Corpus, Counters, DeviceChoice, Gpt2, Gpt2Error, GpuMeter, MlpLinear, RunState,
    TrainOptions, TrainWindows, clip_gradients, error::TRAIN_WITH_LESS, held_out_offsets,
};
use burn::{
    module::Module,
    optim::{GradientsAccumulator, GradientsParams, ModuleOptimizer},
    store::ModuleRecord,
    tensor::{Device, Tensor},
};
use core::fmt;
use example_support::DeviceFailure;
use snack_burn::{
    dist::{Alone, Communicator, Traffic, check_values, reduce_gradients},
    prelude::*,
};
use std::{path::Path, sync::Arc, time::Instant};

/// Model, optimizer and topology of a run, and how far it is.
///
/// Gradients live on the device that was given with autodiff; the loss of a step stays there until
/// [`take_loss`](Self::take_loss), because reading a number back makes a GPU wait.
///
/// Several devices have a trainer each, [connected](Self::with_ranks) and driven by a thread of its own;
/// all of them make the same calls in the same order.
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
    ranks: Arc<dyn Communicator>,
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
            meter: meter(&options),
            activations: None,
            started: Instant::now(),
            ranks: Arc::new(Alone),
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
            meter: meter(&options),
            activations: None,
            started: Instant::now(),
            ranks: Arc::new(Alone),
            earlier_seconds: counters.seconds,
            counters,
            options,
            corpus,
            device,
        })
    }

    /// Trains together with others: the batch of a step is divided among ranks, pass by pass in the
    /// order of ranks, so that all of them see the windows of one rank with the batches of all.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::Ranks`] if the models of the ranks differ.
    pub fn with_ranks(mut self, ranks: Arc<dyn Communicator>) -> Result<Self, Gpt2Error> {
        check_values(&*ranks, &self.model)?;
        if let Some(dst) = &mut self.dst {
            dst.set_ranks(ranks.clone());
        }
        self.ranks = ranks;
        Ok(self)
    }

    /// As [`try_step`](Self::try_step).
    ///
    /// # Panics
    ///
    /// Panics with its error.
    pub fn step(self) -> Self {
        match self.try_step() {
            Ok(trainer) => trainer,
            Err(error) => panic!("training step: {error}"),
        }
    }

    /// Trains on one batch, then updates the topology if its time has come.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::Topology`] if an update is impossible, [`Gpt2Error::Ranks`] if another rank ends,
    /// [`Gpt2Error::Device`] if the device fails.
    pub fn try_step(mut self) -> Result<Self, Gpt2Error> {
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
            let rank = self.ranks.rank() as u64;
            self.device
                .seed(seed ^ (step as u64).rotate_left(32) ^ rank.rotate_left(56));
        }
        let text = self.corpus.train();
        // The counter goes on where a run with another batch left off.
        let done = self.counters.tokens / model.context as u64;
        let windows = TrainWindows::new(seed, text.len(), model.context);
        let (rank, ranks) = (self.ranks.rank(), self.ranks.ranks());
        let offsets = windows.offsets(done, batch * accumulate * ranks);

        let mut accumulator = GradientsAccumulator::new();
        let mut losses = Vec::with_capacity(accumulate);
        // The windows of a pass lie beside each other, rank by rank.
        for offsets in offsets.chunks(batch).skip(rank).step_by(ranks) {
            let windows = Batch::new(text, offsets, model.context, &self.device);
            let before = match self.activations {
                None => self.bytes_in_use()?,
                Some(_) => None,
            };
            let loss = self.model.loss(windows.tokens, windows.targets) / accumulate as f64;
            if let Some(before) = before {
                let after = self.bytes_in_use()?;
                self.activations = after.map(|after| after.saturating_sub(before));
            }
            let grads = GradientsParams::from_grads(loss.backward(), &self.model);
            accumulator.accumulate(&self.model, grads);
            losses.push(loss.inner());
        }
        let mut grads = reduce_gradients(&*self.ranks, &self.model, accumulator.grads())?;
        if let Some(norm) = self.options.clip {
            grads = clip_gradients(&*self.ranks, &self.model, grads, norm)?;
        }
        let rate = self.options.learning_rate_at(step);
        let mut model = self.optim.step(rate, self.model, grads);
        let mut optim = self.optim;
        if let Some(dst) = &mut self.dst {
            let result;
            (model, result) = dst.try_step(model, &mut optim);
            result?;
        }

        let open_loss = losses
            .into_iter()
            .chain(self.open_loss)
            .reduce(|sum, loss| sum + loss);
        self.counters.step = step;
        self.counters.tokens += (batch * accumulate * ranks * self.options.model.context) as u64;
        self.counters.open_steps += 1;
        self.counters.train_seconds += start.elapsed().as_secs_f64();
        Ok(Self {
            model,
            optim,
            open_loss,
            ..self
        })
    }

    /// The topology update of the newest step, if it made one.
    pub fn update(&self) -> Option<&TopologyUpdate> {
        self.dst.as_ref()?.last_update()
    }

    /// Mean training loss since this was last asked, over all ranks; waits for the device.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::Diverged`] if it is not a number, [`Gpt2Error::Ranks`] if another rank ends,
    /// [`Gpt2Error::Device`] if the device fails.
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

    /// Mean loss on the held-out windows, in nats per token; ranks share the windows.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::Ranks`] if another rank ends, [`Gpt2Error::Device`] if the device fails.
    pub fn evaluate(&mut self) -> Result<f64, Gpt2Error> {
        let device = self.device.clone().inner();
        let model = self.model.valid();
        let context = self.options.model.context;
        let text = self.corpus.held_out();
        let offsets = held_out_offsets(text.len(), context);

        let (rank, ranks) = (self.ranks.rank(), self.ranks.ranks());
        let total = offsets
            .chunks(self.options.batch)
            .skip(rank)
            .step_by(ranks)
            .map(|offsets| {
                let windows = Batch::new(text, offsets, context, &device);
                model.loss(windows.tokens, windows.targets) * offsets.len() as f64
            })
            .reduce(|sum, loss| sum + loss)
            .map_or(Ok(0.0), read)?;
        let loss = self.sum_over_ranks("held-out losses", total)? / offsets.len() as f64;
        self.counters.val_loss = Some(loss);
        Ok(loss)
    }

    /// Whether rank 0 wants to stop, which all ranks then do; `wanted` is what this one wants.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::Ranks`] if another rank ends.
    pub fn agree_to_stop(&self, wanted: bool) -> Result<bool, Gpt2Error> {
        let wanted = self.ranks.all_gather("stop", vec![u8::from(wanted)])?;
        Ok(wanted[0] == [1])
    }

    /// This trainer's place among those that train together, from 0, which alone writes files.
    pub fn rank(&self) -> usize {
        self.ranks.rank()
    }

    /// What this rank has sent to the others.
    pub fn traffic(&self) -> Traffic {
        self.ranks.traffic()
    }

    /// Writes the checkpoint; the file is replaced in one step. One rank does, while the others
    /// [attend](Self::attend_save).
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::Diverged`] if the loss is not a number, rather than replacing a good
    /// checkpoint; [`Gpt2Error::Checkpoint`] if the file cannot be written; [`Gpt2Error::Ranks`] if
    /// another rank ends; [`Gpt2Error::Device`] if the device fails.
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

    /// Takes part in the [`save`](Self::save) of another rank.
    ///
    /// # Errors
    ///
    /// As [`save`](Self::save), but for those of the file.
    pub fn attend_save(&self) -> Result<(), Gpt2Error> {
        self.read_open_loss().map(drop)
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
    fn bytes_in_use(&self) -> Result<Option<u64>, Gpt2Error> {
        let device = self.device.clone().inner();
        device.sync().map_err(device_error)?;
        Ok(device.memory_pool_usage().map(|usage| usage.bytes_in_use))
    }

    /// Bytes that all processes have on the GPU, where NVML says so.
    pub fn nvml_bytes(&self) -> Option<u64> {
        let (meter, _) = self.meter.as_ref()?;
        Some(meter.read()?.used_bytes)
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

    fn sum_over_ranks(&self, what: &'static str, number: f64) -> Result<f64, Gpt2Error> {
        let all = self.ranks.all_gather(what, number.to_le_bytes().into())?;
        let numbers = all.iter().filter_map(|bytes| bytes.first_chunk());
        Ok(numbers.map(|bytes| f64::from_le_bytes(*bytes)).sum())
    }

    /// The sum since the last log line, as the mean of all ranks.
    fn read_open_loss(&self) -> Result<f32, Gpt2Error> {
        let Some(sum) = &self.open_loss else {
            return Ok(0.0);
        };
        let own = read(sum.clone())?;
        let sum = self.sum_over_ranks("training losses", own)? / self.ranks.ranks() as f64;
        let sum = sum as f32;
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

/// Reads a number from the device, which is where an operation before it that has failed is heard of.
fn read(number: Tensor<1>) -> Result<f64, Gpt2Error> {
    let number = number.try_into_scalar::<f32>().map_err(device_error)?;
    Ok(number.into())
}

fn device_error(error: impl fmt::Display) -> Gpt2Error {
    Gpt2Error::Device {
        failure: DeviceFailure::new(&error.to_string()),
        with_less: TRAIN_WITH_LESS,
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

/// The meter of the only GPU: several are not added up.
fn meter(options: &TrainOptions) -> Option<(GpuMeter, u64)> {
    let index = match options.devices[..] {
        [] => 0,
        [index] => u32::try_from(index).ok()?,
        _ => return None,
    };
    let meter = GpuMeter::open(index).filter(|_| options.device == DeviceChoice::Cuda)?;
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
