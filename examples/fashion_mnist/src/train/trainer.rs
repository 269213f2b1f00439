use super::Topology;
use crate::{
    Batch, CLASSES, Dataset, EpochRecord, FashionError, Mlp, Options, RunResult, TestBatches,
    TrainBatches,
};
use burn::{
    module::Module,
    optim::{GradientsParams, ModuleOptimizer},
    tensor::{Device, Tensor},
};
use snack_burn::report::TopologyLog;
use std::{sync::Arc, time::Instant};

/// Test images that are computed at once.
const TEST_BATCH: usize = 500;

/// Model, optimizer and topology of a run, and how far it is: the plain training loop.
pub struct Trainer {
    options: Options,
    seed: u64,
    model: Mlp,
    optim: ModuleOptimizer,
    topology: Topology,
    train: TrainBatches,
    test: TestBatches,
    epochs: Vec<EpochRecord>,
    started: Instant,
}

impl Trainer {
    /// Starts a run.
    ///
    /// # Errors
    ///
    /// [`FashionError::Topology`] if the layers cannot have so few connections, or if the method
    /// refuses them.
    pub fn new(
        options: Options,
        data: &Dataset,
        seed: u64,
        device: &Device,
    ) -> Result<Self, FashionError> {
        let started = Instant::now();
        let device = device.clone().autodiff();
        let model = Mlp::new(&options, data.features(), seed, &device)?;
        let train = TrainBatches::of(&options, data, seed, &device);
        let images = Arc::new(data.test().clone());
        let (optim, scaling) = options.optimizer(&model);
        Ok(Self {
            topology: Topology::new(&options, seed, &model, scaling, train.steps())?,
            test: TestBatches::new(images, TEST_BATCH, &device.clone().inner()),
            optim,
            options,
            seed,
            model,
            train,
            epochs: Vec::new(),
            started,
        })
    }

    /// Trains to the last epoch, and tells `report` about each.
    ///
    /// # Errors
    ///
    /// [`FashionError::Topology`] if an update fails, [`FashionError::Diverged`] if the loss is no
    /// number, and what `report` returns.
    pub fn train(
        mut self,
        report: &mut impl FnMut(&EpochRecord) -> Result<(), FashionError>,
    ) -> Result<(RunResult, TopologyLog), FashionError> {
        while self.epochs.len() < self.options.epochs {
            let (next, record) = self.epoch()?;
            self = next;
            report(&record)?;
            self.check(&record)?;
            self.epochs.push(record);
        }
        let log = self.topology.into_log();
        let run = RunResult::new(
            &self.options,
            self.seed,
            &self.model,
            self.epochs,
            &log,
            self.started,
        );
        Ok((run, log))
    }

    /// All steps of the next epoch, then the test.
    fn epoch(mut self) -> Result<(Self, EpochRecord), FashionError> {
        let epoch = self.epochs.len();
        let batches: Vec<Batch> = self.train.epoch(epoch as u64).collect();
        let mut losses = Vec::with_capacity(batches.len());
        for batch in batches {
            let loss;
            (self, loss) = self.step(batch)?;
            losses.push(loss);
        }
        // Read once, because every reading makes a GPU wait.
        let losses: Vec<f64> = Tensor::cat(losses, 0).into_data().iter::<f64>().collect();
        let (test_loss, test_accuracy) = self.test();
        let topology = self.topology.epoch(epoch);
        let record = EpochRecord {
            epoch: epoch + 1,
            step: self.topology.step(),
            train_loss: losses.iter().sum::<f64>() / losses.len() as f64,
            test_loss,
            test_accuracy,
            replaced: topology.replaced,
            nnz: topology.nnz,
            seconds: topology.time.as_secs_f64(),
        };
        Ok((self, record))
    }

    /// Trains on one batch, then updates the topology if its time has come.
    fn step(mut self, batch: Batch) -> Result<(Self, Tensor<1>), FashionError> {
        let start = Instant::now();
        let scores = self.model.forward(batch.images, &batch.masks);
        let loss = self
            .options
            .loss
            .batch(self.options.gradient, scores, batch.targets);
        let grads = GradientsParams::from_grads(loss.objective.backward(), &self.model);
        let rate = self.options.learning_rate;
        let model = self.optim.step(rate, self.model, grads);
        let optim = &mut self.optim;
        let (model, result) = self.topology.after_step(model, optim, || start.elapsed());
        result?;
        Ok((Self { model, ..self }, loss.reported))
    }

    /// Mean loss of the test images, and the share of them whose class has the highest score.
    fn test(&self) -> (f64, f64) {
        let model = self.model.valid();
        let (mut loss, mut hits, mut count) = (0.0, 0, 0);
        for batch in self.test.batches() {
            let labels: Vec<usize> = batch
                .labels
                .into_data()
                .iter::<i64>()
                .map(|l| l as usize)
                .collect();
            let scores = model.forward(batch.images, &[]).into_data();
            let scores: Vec<f32> = scores.iter().collect();
            for (scores, label) in scores.chunks(CLASSES).zip(labels) {
                loss += self.options.loss.of_sample(scores, label);
                hits += usize::from(first_highest(scores) == label);
                count += 1;
            }
        }
        (loss / f64::from(count), hits as f64 / f64::from(count))
    }

    fn check(&self, record: &EpochRecord) -> Result<(), FashionError> {
        match record.train_loss.is_finite() {
            true => Ok(()),
            false => Err(FashionError::diverged(&self.options, self.seed, record)),
        }
    }
}

/// Index of the highest score, the first of equal ones.
fn first_highest(scores: &[f32]) -> usize {
    let better = |best: usize, next: usize| scores[next] > scores[best];
    (1..scores.len()).fold(0, |best, next| if better(best, next) { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_scores_counts() {
        assert_eq!(first_highest(&[-1.0, 3.0, 3.0, 2.0]), 1);
        assert_eq!(first_highest(&[5.0]), 0);
        assert_eq!(first_highest(&[f32::NAN, 1.0]), 0);
    }
}
