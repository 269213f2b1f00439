//! Training steps.

use std::time::Instant;

use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Tensor, TensorData};
use gamlp::{BatchTargets, EnergyWindow, Gamlp, GamlpConfig, Recipe, TrainOptions, WeightMode};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use snack_burn::dst::Preset;

use crate::{Bench, Memory};

/// A training step over a batch that is on the device.
#[derive(Debug, Serialize)]
pub struct Training {
    /// Nodes of the batch.
    pub batch: usize,
    /// Median of a step: forward, backward, Adam.
    pub step_ms: f64,
    /// What 95 of 100 steps do not exceed.
    pub step_p95_ms: f64,
    /// Median of forward and backward alone.
    pub forward_backward_ms: f64,
    /// Energy of the GPU in millijoules a step, where NVML counts it.
    pub mj_per_step: Option<f64>,
    /// After the last step, since the pool was emptied when the warm-up was over: what the tuner of
    /// the matrix products took is not in it.
    pub memory: Option<Memory>,
    pub loss: f64,
}

/// A model and all that its steps need.
struct Run {
    model: Gamlp,
    optim: ModuleOptimizer,
    hops: Tensor<3>,
    labels: Tensor<2>,
    targets: BatchTargets,
    rate: f64,
}

impl Run {
    fn loss(&self) -> Tensor<1> {
        let logits = self.model.forward(self.hops.clone(), self.labels.clone());
        self.targets.loss(logits)
    }

    fn step(self) -> (Self, Tensor<1>) {
        let loss = self.loss();
        let grads = GradientsParams::from_grads(loss.backward(), &self.model);
        let mut optim = self.optim;
        let model = optim.step(self.rate, self.model, grads);
        let run = Self {
            model,
            optim,
            ..self
        };
        (run, loss.inner())
    }
}

impl Bench<'_> {
    pub fn train(&self, config: &GamlpConfig) -> Result<Training, String> {
        self.memory.clear()?;
        let mut run = self.start(config);
        for _ in 0..self.args.warmup {
            run = run.step().0;
        }
        // Without what the tuner of the matrix products took.
        self.memory.clear()?;
        let mut steps = Vec::with_capacity(self.args.steps);
        let mut last = None;
        for _ in 0..self.args.steps {
            let begin = Instant::now();
            let (next, loss) = run.step();
            self.sync()?;
            steps.push(begin.elapsed().as_secs_f64() * 1e3);
            (run, last) = (next, Some(loss));
        }
        let memory = self.memory.read();
        let mut passes = Vec::with_capacity(self.args.steps);
        for _ in 0..self.args.steps {
            let begin = Instant::now();
            drop(run.loss().backward());
            self.sync()?;
            passes.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        let mut slot = Some(run);
        let mj_per_step = match &self.meter {
            None => None,
            Some(meter) => EnergyWindow::default().per_run(
                || Some(meter.read()?.energy_mj),
                |_| {
                    slot = slot.take().map(|run| run.step().0);
                    self.sync()
                },
            )?,
        };
        let loss = last.expect("at least one step is timed");
        Ok(Training {
            batch: self.args.batch,
            step_ms: quantile(&mut steps, 0.5),
            step_p95_ms: quantile(&mut steps, 0.95),
            forward_backward_ms: quantile(&mut passes, 0.5),
            mj_per_step,
            memory,
            loss: loss.into_scalar::<f32>().into(),
        })
    }

    fn start(&self, config: &GamlpConfig) -> Run {
        let tracked = self.device.clone().autodiff();
        let batch = self.args.batch;
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut matrix = |width: usize| {
            let values: Vec<f32> = (0..batch * width)
                .map(|_| rng.random::<f32>() - 0.5)
                .collect();
            Tensor::<2>::from_data(TensorData::new(values, [batch, width]), &tracked)
        };
        let classes = (0..batch).map(|row| (row % config.classes) as i32);
        let options = TrainOptions {
            // As the program trains by default.
            method: match config.mode {
                WeightMode::Sparse => Preset::SnackGamlp,
                WeightMode::Dense | WeightMode::Masked => Preset::Static,
            },
            ..Recipe::Snack.options()
        };
        Run {
            model: config.init(1, &tracked),
            hops: matrix((config.hops + 1) * config.features).reshape([
                batch,
                config.hops + 1,
                config.features,
            ]),
            labels: matrix(config.classes),
            targets: BatchTargets::new(classes.collect(), &tracked),
            rate: options.learning_rate,
            optim: options.optimizer(),
        }
    }
}

fn quantile(times: &mut [f64], share: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    times[(share * (times.len() - 1) as f64).round() as usize]
}
