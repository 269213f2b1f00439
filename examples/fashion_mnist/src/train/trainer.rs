use crate::{
    Batch, Dataset, DropoutPlan, EpochRecord, FashionError, Method, Mlp, Options, RunResult,
    SetSgd, TestBatches, TrainBatches,
};
use burn::{
    module::{Module, ModuleMapper, Param},
    optim::{GradientsParams, ModuleOptimizer},
    tensor::{Device, Tensor, TensorData},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snack_burn::{
    dst::{Magnitude, Prune, Uniform, schedule},
    prelude::{Dst, SparseLinear},
    report::{ReportConfig, TopologyLog},
};
use std::{sync::Arc, time::Instant};

/// Test images that are computed at once.
const TEST_BATCH: usize = 500;

/// Model, optimizer and topology of a run, and how far it is.
pub struct Trainer {
    options: Options,
    seed: u64,
    model: Mlp,
    optim: ModuleOptimizer,
    dst: Option<Dst>,
    train: TrainBatches,
    test: TestBatches,
    log: TopologyLog,
    records: Vec<EpochRecord>,
    started: Instant,
}

struct Balanced;
impl Prune for Balanced {
    fn scores(&self, values: &[f32]) -> Vec<f32> {
        let mut scores = vec![0.0; values.len()];
        for sign in [1.0_f32, -1.0] {
            let mut slots: Vec<usize> =
                (0..values.len()).filter(|&s| values[s] * sign > 0.0 || (sign > 0.0 && values[s] == 0.0)).collect();
            slots.sort_by(|&a, &b| values[a].abs().total_cmp(&values[b].abs()));
            let n = slots.len();
            for (rank, slot) in slots.into_iter().enumerate() {
                scores[slot] = rank as f32 / n as f32;
            }
        }
        scores
    }
}
struct Fill(ChaCha8Rng);
impl ModuleMapper for Fill {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if param.shape().num_elements() <= 1000 { return param; }
        param.map(|t| {
            let data = t.clone().into_data();
            let shape = data.shape().clone();
            let v: Vec<f32> = data.iter::<f32>().map(|x| if x == 0.0 { 0.1 * self.0.sample::<f32, _>(rand_distr::StandardNormal) } else { x }).collect();
            Tensor::from_data(TensorData::new(v, shape), &t.device()).require_grad()
        })
    }
}

impl Trainer {
    /// Starts a run.
    pub fn new(
        options: Options,
        data: &Dataset,
        seed: u64,
        device: &Device,
    ) -> Result<Self, FashionError> {
        let device = device.clone().autodiff();
        let model = Mlp::new(&options, data.features(), seed, &device)?;
        let dropout = DropoutPlan {
            widths: options.hidden.clone(),
            probability: options.dropout,
        };
        let train = TrainBatches::new(
            Arc::new(data.train().clone()),
            options.batch,
            seed,
            dropout,
            &device,
        );
        let test = TestBatches::new(
            Arc::new(data.test().clone()),
            TEST_BATCH,
            &device.clone().inner(),
        );
        let last = (options.epochs as u64 - 1) * train.steps();
        let dst = (options.method == Method::Set && last > 0).then(|| {
            Dst::new(
                Balanced,
                Uniform,
                schedule::Constant {
                    turnover: snack_burn::dst::Turnover::replace(0.3),
                    timing: schedule::Timing::every(train.steps()).until(last),
                },
                seed,
            )
        });
        let mut log = TopologyLog::new(ReportConfig::chain(&model)?);
        log.record(0, &model, None)?;
        Ok(Self {
            optim: SetSgd::init(options.momentum, options.weight_decay),
            options,
            seed,
            model,
            dst,
            train,
            test,
            log,
            records: Vec::new(),
            started: Instant::now(),
        })
    }

    /// Trains on one batch; the loss stays on the device.
    pub fn step(&mut self, batch: Batch) -> Tensor<1> {
        let scores = self.model.forward(batch.images, &batch.masks);
        let loss = self.options.loss.batch(scores, batch.targets);
        let grads = GradientsParams::from_grads(loss.objective.backward(), &self.model);
        let model = std::mem::replace(&mut self.model, Mlp { layers: Vec::<SparseLinear>::new(), dropout: 0.0 });
        self.model = self.optim.step(self.options.learning_rate, model, grads);
        loss.reported
    }

    /// One epoch.
    pub fn epoch(mut self) -> Result<Self, FashionError> {
        let start = Instant::now();
        let epoch = self.records.len() as u64;
        let mut losses = Vec::new();
        let mut replaced = 0;
        let batches: Vec<Batch> = self.train.epoch(epoch).collect();
        for batch in batches {
            losses.push(self.step(batch));
            if let Some(mut dst) = self.dst.take() {
                let (model, optim) = dst.step(self.model, self.optim);
                (self.model, self.optim) = (model, optim);
                if let Some(update) = dst.last_update() {
                    replaced += update.layers.iter().map(|l| l.dropped).sum::<usize>();
                    self.model = self.model.map(&mut Fill(ChaCha8Rng::seed_from_u64(update.step)));
                }
                self.dst = Some(dst);
            }
        }
        let losses: Vec<f64> = Tensor::cat(losses, 0).into_data().iter::<f64>().collect();
        let train_loss = losses.iter().sum::<f64>() / losses.len() as f64;
        let seconds = start.elapsed().as_secs_f64();
        let step = (epoch + 1) * self.train.steps();
        if replaced > 0 {
            self.log.record(step, &self.model, Some(&self.optim))?;
        }
        let (test_loss, test_accuracy) = self.evaluate();
        self.records.push(EpochRecord {
            epoch: epoch as usize + 1,
            step,
            train_loss,
            test_loss,
            test_accuracy,
            replaced,
            nnz: self.model.nnz(),
            seconds,
        });
        Ok(self)
    }

    /// Loss and accuracy on the test images.
    pub fn evaluate(&self) -> (f64, f64) {
        let model = self.model.valid();
        let (mut loss, mut hits, mut count) = (0.0, 0, 0);
        for batch in self.test.batches() {
            let labels: Vec<i64> = batch.labels.into_data().iter().collect();
            let scores = model.forward(batch.images, &[]).into_data();
            let scores: Vec<f32> = scores.iter().collect();
            for (scores, label) in scores.chunks(crate::CLASSES).zip(labels) {
                loss += self.options.loss.of_sample(scores, label as usize);
                let best = (0..scores.len()).rev().max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
                hits += usize::from(best == Some(label as usize));
                count += 1;
            }
        }
        (loss / count as f64, hits as f64 / count as f64)
    }

    pub fn last(&self) -> Option<&EpochRecord> {
        self.records.last()
    }

    pub fn finish(self) -> RunResult {
        let total = &self.log.reports().last().unwrap().total;
        RunResult {
            method: self.options.method,
            seed: self.seed,
            nnz: self.model.nnz(),
            density: self.model.nnz() as f64 / self.model.dense_weights() as f64,
            explored: total.explored.unwrap(),
            functional: total.functional.unwrap() as f64 / total.nnz as f64,
            seconds: self.started.elapsed().as_secs_f64(),
            epochs: self.records,
        }
    }
}
