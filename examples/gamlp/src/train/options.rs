use super::Recipe;
use crate::{
    ConfigError, DeviceChoice, GamlpConfig, GraphSource, Part, WeightMode, config::within,
};
use serde::{Deserialize, Serialize};
use snack_burn::dst::Preset;

/// Most epochs of a stage.
const MOST_EPOCHS: usize = 1_000_000;

/// Everything that decides the course of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainOptions {
    /// The model.
    pub model: GamlpConfig,
    /// The graph.
    pub graph: GraphSource,
    /// How the pattern of the sparse layers changes.
    pub method: Preset,
    /// Where it computes.
    pub device: DeviceChoice,
    /// Number of times that labels are propagated.
    pub label_hops: usize,
    /// Seed of initial values, batches, dropout and topology updates.
    pub seed: u64,
    /// Nodes per step.
    pub batch: usize,
    /// Whether an epoch leaves out a last batch that is smaller.
    #[serde(default)]
    pub drop_last: bool,
    /// Epochs of every stage; every stage after the first also learns what the one before is certain of.
    pub epochs: Vec<usize>,
    /// Learning rate of Adam.
    pub learning_rate: f64,
    /// Penalty of the squares of all weights, added to the gradient.
    pub weight_decay: f32,
    /// Share of the connections that an update replaces; that of the method if absent.
    pub drop_fraction: Option<f64>,
    /// Epochs between topology updates.
    pub update_every: usize,
    /// Epoch of the last topology update of a stage; five eighths of the stage if absent.
    pub update_stop: Option<usize>,
    /// Epochs between evaluations; 0: only at the end of a stage.
    pub eval_every: usize,
    /// The parts whose accuracy an evaluation measures, beside the one that selects.
    #[serde(default = "all_parts")]
    pub eval_parts: Vec<Part>,
    /// Epochs between checkpoints; 0: only at the end of a stage.
    pub checkpoint_every: usize,
    /// Epochs without a better validation accuracy after which a stage ends.
    pub patience: Option<usize>,
    /// The probability of its class above which a node is reliable.
    pub threshold: f32,
    /// What logits are divided by before probabilities of reliable nodes are computed.
    pub temperature: f32,
    /// Weight of the loss of reliable nodes.
    pub gamma: f64,
}

/// Of runs that had no choice.
fn all_parts() -> Vec<Part> {
    Part::ALL.into()
}

impl Default for TrainOptions {
    fn default() -> Self {
        Recipe::default().options()
    }
}

impl TrainOptions {
    /// Checks every value against its allowed range.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the name of the option, its value and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.model.validate()?;
        within("--label-hops", self.label_hops, 0, 100)?;
        within("--batch", self.batch, 2, 1 << 24)?;
        within("the number of --epochs", self.epochs.len(), 1, 100)?;
        for &epochs in &self.epochs {
            within("--epochs", epochs, 1, MOST_EPOCHS)?;
        }
        within("--update-every", self.update_every, 1, MOST_EPOCHS)?;
        if let Some(patience) = self.patience {
            within("--patience", patience, 1, MOST_EPOCHS)?;
        }
        let mode = self.model.mode;
        self.check_method()?;
        if self.updates_topology() && mode != WeightMode::Sparse {
            let allowed = format!("static with --mode {mode}, whose pattern cannot change");
            return Err(ConfigError::new("--method", self.method, allowed));
        }

        let rate = self.learning_rate;
        let decay = self.weight_decay;
        let share = self.drop_fraction.unwrap_or_default();
        let numbers = [
            (
                "--learning-rate",
                rate,
                rate > 0.0 && rate <= 1.0,
                "above 0 and at most 1",
            ),
            (
                "--weight-decay",
                decay.into(),
                (0.0..=1.0).contains(&decay),
                "between 0 and 1",
            ),
            (
                "--drop-fraction",
                share,
                (0.0..1.0).contains(&share),
                "at least 0 and below 1",
            ),
            (
                "--threshold",
                self.threshold.into(),
                (0.0..1.0).contains(&self.threshold),
                "at least 0 and below 1",
            ),
            (
                "--temperature",
                self.temperature.into(),
                self.temperature > 0.0 && self.temperature.is_finite(),
                "above 0",
            ),
            (
                "--gamma",
                self.gamma,
                self.gamma >= 0.0 && self.gamma.is_finite(),
                "at least 0",
            ),
        ];
        match numbers.into_iter().find(|(_, _, valid, _)| !valid) {
            Some((name, value, _, allowed)) => Err(ConfigError::new(name, value, allowed)),
            None => Ok(()),
        }
    }

    /// Number of stages.
    pub fn stages(&self) -> usize {
        self.epochs.len()
    }

    /// Whether the topology changes during the run.
    pub fn updates_topology(&self) -> bool {
        self.method != Preset::Static
    }

    /// Epoch of the last topology update of a stage.
    ///
    /// # Panics
    ///
    /// Panics if there is no such stage.
    pub fn last_update(&self, stage: usize) -> usize {
        self.update_stop.unwrap_or(self.epochs[stage] * 5 / 8)
    }

    /// Why no topology update will come in a stage, if none will.
    ///
    /// # Panics
    ///
    /// Panics if there is no such stage.
    pub fn no_updates(&self, stage: usize) -> Option<String> {
        let last = self.last_update(stage).min(self.epochs[stage]);
        if self.model.sparsity == 0.0 {
            Some("no weight is absent".into())
        } else if self.drop_fraction == Some(0.0) {
            Some("--drop-fraction is 0".into())
        } else if self.update_every > last {
            Some(format!(
                "the first would come after epoch {}, later than the last after epoch {last}",
                self.update_every
            ))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn recipes_are_valid() {
        for recipe in Recipe::value_variants() {
            assert_eq!(recipe.options().validate(), Ok(()), "{recipe}");
        }
    }

    /// Appendix G of the SNACK paper.
    #[test]
    fn the_snack_recipe_is_that_of_the_paper() {
        let options = Recipe::Snack.options();
        let model = &options.model;
        assert_eq!((model.hidden, model.hops, model.head), (512, 5, Some(5000)));
        assert_eq!((options.batch, options.learning_rate), (4096, 1e-3));
        assert_eq!((&options.epochs[..], options.update_every), (&[40][..], 5));
        assert_eq!(options.last_update(0), 25);
    }

    #[test]
    fn values_out_of_range_are_named() {
        let message = |options: TrainOptions| options.validate().unwrap_err().to_string();
        let options = TrainOptions::default();
        assert_eq!(
            message(TrainOptions {
                epochs: vec![3, 0],
                ..options.clone()
            }),
            "--epochs is 0, but must be between 1 and 1000000"
        );
        assert_eq!(
            message(TrainOptions {
                batch: 1,
                ..options.clone()
            }),
            "--batch is 1, but must be between 2 and 16777216"
        );
        assert_eq!(
            message(TrainOptions {
                temperature: 0.0,
                ..options
            }),
            "--temperature is 0, but must be above 0"
        );
    }

    #[test]
    fn runs_without_updates_say_why() {
        let options = TrainOptions::default();
        assert_eq!(options.no_updates(0), None);
        let short = TrainOptions {
            epochs: vec![40, 6],
            ..options
        };
        assert_eq!(
            short.no_updates(1).unwrap(),
            "the first would come after epoch 5, later than the last after epoch 3"
        );
    }
}
