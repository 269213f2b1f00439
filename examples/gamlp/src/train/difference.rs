use super::TrainOptions;
use crate::Part;

/// An option whose value differs between a checkpoint and the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The option.
    pub flag: &'static str,
    /// Its value in the checkpoint.
    pub stored: String,
    /// Its value on the command line.
    pub given: String,
    /// Whether a run may continue with the new value.
    pub allowed: bool,
}

impl TrainOptions {
    /// The options in which `self`, from a checkpoint, and `given` differ. The graph is not among
    /// them: what counts is what it holds.
    pub fn differences(&self, given: &Self) -> Vec<Difference> {
        let pairs = self.flags().into_iter().zip(given.flags());
        pairs
            .filter(|(stored, given)| stored.1 != given.1)
            .map(|((flag, stored, allowed), (_, given, _))| Difference {
                flag,
                stored,
                given,
                allowed,
            })
            .collect()
    }

    /// Name and value of every option, and whether a run may continue with another value.
    fn flags(&self) -> Vec<(&'static str, String, bool)> {
        let model = &self.model;
        let head = model.head.unwrap_or_default();
        let share = self.drop_fraction;
        let share = share.map_or("the method's".into(), |share| share.to_string());
        let or_default = |stop: Option<usize>| stop.map_or("default".into(), |s| s.to_string());
        let epochs: Vec<_> = self.epochs.iter().map(usize::to_string).collect();
        let parts: Vec<_> = self.eval_parts.iter().map(Part::to_string).collect();
        let patience = self.patience.unwrap_or_default();
        vec![
            ("--hidden", model.hidden.to_string(), false),
            ("--hops", model.hops.to_string(), false),
            ("--label-hops", self.label_hops.to_string(), false),
            ("--output-layers", model.output_layers.to_string(), false),
            ("--label-layers", model.label_layers.to_string(), false),
            ("--activation", model.activation.to_string(), false),
            ("--alpha", model.alpha.to_string(), false),
            ("--head", head.to_string(), false),
            ("--mode", model.mode.to_string(), false),
            ("--scope", model.scope.to_string(), false),
            ("--sparsity", model.sparsity.to_string(), false),
            ("--method", self.method.to_string(), false),
            ("--seed", self.seed.to_string(), false),
            // Steps and epochs are counted in batches.
            ("--batch", self.batch.to_string(), false),
            ("--drop-last", self.drop_last.to_string(), false),
            ("--threshold", self.threshold.to_string(), false),
            ("--temperature", self.temperature.to_string(), false),
            ("--device", self.device.to_string(), true),
            ("--dropout", model.dropout.to_string(), true),
            ("--input-dropout", model.input_dropout.to_string(), true),
            (
                "--attention-dropout",
                model.attention_dropout.to_string(),
                true,
            ),
            ("--label-dropout", model.label_dropout.to_string(), true),
            ("--epochs", epochs.join(","), true),
            ("--learning-rate", self.learning_rate.to_string(), true),
            ("--weight-decay", self.weight_decay.to_string(), true),
            ("--drop-fraction", share, true),
            ("--update-every", self.update_every.to_string(), true),
            ("--update-stop", or_default(self.update_stop), true),
            ("--eval-parts", parts.join(","), true),
            ("--eval-every", self.eval_every.to_string(), true),
            (
                "--checkpoint-every",
                self.checkpoint_every.to_string(),
                true,
            ),
            ("--patience", patience.to_string(), true),
            ("--gamma", self.gamma.to_string(), true),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_say_what_may_change() {
        let stored = TrainOptions::default();
        let mut given = stored.clone();
        given.model.hidden += 1;
        given.epochs = vec![50, 20];

        let differences = stored.differences(&given);
        let found: Vec<_> = differences
            .iter()
            .map(|d| (d.flag, d.given.as_str(), d.allowed))
            .collect();
        assert_eq!(
            found,
            [("--hidden", "65", false), ("--epochs", "50,20", true)]
        );
        assert!(stored.differences(&stored).is_empty());
    }
}
