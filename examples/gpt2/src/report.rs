use crate::{Gpt2Config, MlpLinear, Tokenizer, Trainer};
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
    /// Bytes that a forward pass keeps for its backward pass, where the device says so.
    pub activations: Option<u64>,
    /// Bytes that the device holds ready, where it says so.
    pub reserved: Option<u64>,
    /// Bytes that all processes have on the GPU, where NVML says so.
    pub nvml: Option<u64>,
    /// Share of the MLP weights that exist.
    pub density: f64,
    /// Steps done.
    pub steps: usize,
    /// Tokens seen.
    pub tokens: u64,
    /// How text became tokens.
    pub tokenizer: Tokenizer,
    /// Newest training loss, in nats per token.
    pub train_loss: Option<f64>,
    /// Newest loss on the held-out text, in nats per token.
    pub val_loss: Option<f64>,
    /// Training speed, without evaluations and checkpoints.
    pub tokens_per_second: f64,
    /// Wall time of the run, the time before a resume included.
    pub seconds: f64,
}

/// Memory of a model in training with AdamW.
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
    /// The dense model of these sizes.
    pub fn dense(config: &Gpt2Config) -> Self {
        let parameters = config.dense_parameter_count();
        Self::new(parameters, parameters, 0)
    }

    /// The model of a trainer, as it is on the device.
    pub fn of(trainer: &Trainer) -> Self {
        let config = &trainer.options().model;
        let slots = config.dense_mlp_weights();
        let stored: usize = trainer.model().mlp_layers().map(MlpLinear::stored).sum();
        let indices = trainer.model().mlp_layers().map(MlpLinear::index_bytes);
        let rest = config.dense_parameter_count() - slots;
        Self::new(rest + stored, rest + trainer.mlp_nnz(), indices.sum())
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
        Self {
            model: Footprint::of(trainer),
            dense: Footprint::dense(&trainer.options().model),
            activations: trainer.activation_bytes(),
            reserved: trainer.reserved_bytes(),
            nvml: trainer.nvml_bytes(),
            density: trainer.density(),
            steps: counters.step,
            tokens: counters.tokens,
            tokenizer: trainer.corpus().tokenizer(),
            train_loss: counters.train_loss,
            val_loss: counters.val_loss,
            tokens_per_second: counters.tokens as f64 / counters.train_seconds.max(1e-9),
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
            ("AdamW moments, bytes", model.moments, dense.moments),
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
        if let (Some(activations), Some(reserved)) = (self.activations, self.reserved) {
            let scratch = reserved.saturating_sub(model.total() as u64 + activations);
            let rows = [
                ("activations, bytes", Some(activations)),
                ("scratch, bytes", Some(scratch)),
                ("device holds, bytes", Some(reserved)),
                ("GPU by NVML, bytes", self.nvml),
            ];
            for (name, bytes) in rows {
                let Some(bytes) = bytes else { continue };
                let bytes = grouped(bytes);
                writeln!(f, "{name:<22}{bytes:>14}{:>14}{:>9}", "", "")?;
            }
        }
        writeln!(f)?;

        let unit = self.tokenizer.unit();
        let loss = |value: Option<f64>| {
            value.map_or("not measured".into(), |loss| {
                format!("{loss:.4} nats per {unit}")
            })
        };
        let seen = match self.tokenizer {
            Tokenizer::Bytes => "tokens (bytes) seen",
            Tokenizer::Gpt2 => "tokens seen",
        };
        let perplexity = self.val_loss.map_or("not measured".into(), |loss| {
            format!("{:.3} per {unit}", loss.exp())
        });
        let rows = [
            ("MLP density", format!("{:.4}", self.density)),
            ("steps", grouped(self.steps as u64)),
            (seen, grouped(self.tokens)),
            ("training loss", loss(self.train_loss)),
            ("held-out loss", loss(self.val_loss)),
            ("held-out perplexity", perplexity),
            (
                "training speed",
                format!("{:.0} tokens per second", self.tokens_per_second),
            ),
            ("wall time", format!("{:.1} s", self.seconds)),
        ];
        for (name, value) in rows {
            writeln!(f, "{name:<22}{value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dense_model_takes_sixteen_bytes_a_parameter() {
        let footprint = Footprint::dense(&Gpt2Config::small());

        assert_eq!(footprint.total(), 16 * 124_439_808);
    }
}
