use crate::{Accuracy, BestEpoch, Projection, Trainer};
use core::fmt;
use example_support::grouped;

/// Bytes of one 32-bit number.
const WORD: usize = 4;

/// The end of a run: what the model costs, and how good it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Memory of the model as trained.
    pub model: Footprint,
    /// Memory of the dense model of the same sizes.
    pub dense: Footprint,
    /// Share of the weights that exist of the matrices that may be sparse.
    pub density: f64,
    /// Steps done.
    pub steps: usize,
    /// Newest training loss, in nats per node.
    pub train_loss: Option<f64>,
    /// The best epoch of every stage; the last one is the result.
    pub best: Vec<BestEpoch>,
    /// The newest evaluation: that of the last epoch.
    pub last: Option<Accuracy>,
    /// Share of the nodes to judge by that the most frequent class classifies correctly.
    pub constant_accuracy: f64,
    /// Mean time of a training step, in milliseconds.
    pub step_ms: f64,
    /// Bytes that the device holds ready for the run, where it says so.
    pub reserved_bytes: Option<u64>,
    /// Bytes that all processes have on the GPU, where NVML says so.
    pub nvml_bytes: Option<u64>,
    /// Energy that the GPU has used since the run started or resumed, in joules, where NVML counts it.
    pub joules: Option<f64>,
    /// Mean energy of the GPU in a training step, in millijoules, where NVML counts it.
    pub mj_per_step: Option<f64>,
    /// Wall time of the run, the time before a resume included, in seconds.
    pub seconds: f64,
}

/// Memory of a model in training with Adam.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Numbers that are stored and trained.
    pub parameters: usize,
    /// Those of them that are not held at zero.
    pub non_zeros: usize,
    /// Bytes of the weights.
    pub weights: usize,
    /// Bytes of the gradients.
    pub gradients: usize,
    /// Bytes of the two moments.
    pub moments: usize,
    /// Bytes of coordinates and masks on the device.
    pub indices: usize,
}

impl Footprint {
    /// The model of a trainer as it is on the device, and the dense model of the same sizes.
    pub fn of(trainer: &Trainer) -> [Self; 2] {
        let governed: Vec<_> = trainer.governed().collect();
        let sum = |value: fn(&Projection) -> usize| -> usize {
            governed.iter().map(|&layer| value(layer)).sum()
        };
        let (stored, slots) = (sum(Projection::stored), sum(|layer| layer.width().pow(2)));
        let rest = trainer.model().trainable_parameters() - stored;
        [
            Self::new(
                rest + stored,
                rest + trainer.nnz(),
                sum(Projection::index_bytes),
            ),
            Self::new(rest + slots, rest + slots, 0),
        ]
    }

    /// All bytes.
    pub fn total(&self) -> usize {
        self.weights + self.gradients + self.moments + self.indices
    }

    fn new(parameters: usize, non_zeros: usize, indices: usize) -> Self {
        Self {
            parameters,
            non_zeros,
            weights: WORD * parameters,
            gradients: WORD * parameters,
            moments: 2 * WORD * parameters,
            indices,
        }
    }
}

impl Summary {
    /// Sums up a run.
    pub fn of(trainer: &Trainer) -> Self {
        let counters = trainer.counters();
        let [model, dense] = Footprint::of(trainer);
        let steps = counters.total_steps();
        Self {
            model,
            dense,
            density: trainer.density(),
            steps,
            train_loss: counters.train_loss,
            best: counters.best.clone(),
            last: counters.accuracy,
            constant_accuracy: trainer.stage().task().constant_accuracy(),
            step_ms: 1e3 * counters.train_seconds / steps.max(1) as f64,
            reserved_bytes: trainer.reserved_bytes(),
            nvml_bytes: trainer.nvml_bytes(),
            joules: trainer.joules(),
            mj_per_step: trainer.mj_per_step(),
            seconds: trainer.seconds(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<22}{:>14}{:>14}{:>9}",
            "", "this model", "dense model", "ratio"
        )?;
        let (model, dense) = (&self.model, &self.dense);
        let rows = [
            ("parameters", model.parameters, dense.parameters),
            ("non-zeros", model.non_zeros, dense.non_zeros),
            ("weights, bytes", model.weights, dense.weights),
            ("gradients, bytes", model.gradients, dense.gradients),
            ("Adam moments, bytes", model.moments, dense.moments),
            ("indices, bytes", model.indices, dense.indices),
            ("total, bytes", model.total(), dense.total()),
        ];
        for (name, model, dense) in rows {
            let ratio = match dense {
                0 => "-".to_string(),
                _ => format!("{:.3}", model as f64 / dense as f64),
            };
            let (model, dense) = (grouped(model as u64), grouped(dense as u64));
            writeln!(f, "{name:<22}{model:>14}{dense:>14}{ratio:>9}")?;
        }
        writeln!(f)?;
        for best in &self.best {
            let name = match self.best.len() {
                1 => "best epoch".to_string(),
                _ => format!("best epoch, stage {}", best.stage),
            };
            writeln!(f, "{name:<22}{}: {}", best.epoch, best.accuracy)?;
        }
        if let Some(last) = self.last {
            writeln!(f, "{:<22}{last}", "last epoch")?;
        }
        let loss = self.train_loss;
        let rows = [
            (
                "most frequent class",
                format!("test accuracy {:.4}", self.constant_accuracy),
            ),
            (
                "training loss",
                loss.map_or("not measured".into(), |loss| {
                    format!("{loss:.4} nats per node")
                }),
            ),
            ("density", format!("{:.4}", self.density)),
            ("steps", grouped(self.steps as u64)),
            ("training step", format!("{:.2} ms", self.step_ms)),
            ("wall time", format!("{:.1} s", self.seconds)),
        ];
        let memory = [
            ("device holds, bytes", self.reserved_bytes),
            ("GPU by NVML, bytes", self.nvml_bytes),
        ];
        let memory = memory
            .into_iter()
            .filter_map(|(name, bytes)| Some((name, grouped(bytes?))));
        let energy = self
            .joules
            .map(|joules| ("energy of the GPU", format!("{joules:.1} J")));
        let step = self
            .mj_per_step
            .map(|mj| ("energy of a step", format!("{mj:.0} mJ")));
        let rows = rows.into_iter().chain(memory).chain(energy).chain(step);
        for (name, value) in rows {
            writeln!(f, "{name:<22}{value}")?;
        }
        Ok(())
    }
}
