use crate::{CorpusId, Gpt2Error, TrainOptions};
use example_support::read_description;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Marks the checkpoints of this example.
const FORMAT: &str = "snack-burn/examples/gpt2";
const VERSION: u32 = 2;

/// What a checkpoint holds beside model, optimizer and topology: all that a run needs to go on as
/// if it had never stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    format: String,
    version: u32,
    /// The options of the run.
    pub options: TrainOptions,
    /// The text it learns.
    pub corpus: CorpusId,
    /// Steps and times so far.
    pub counters: Counters,
}

/// Steps, tokens, times and losses so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Steps done.
    pub step: usize,
    /// Tokens seen.
    pub tokens: u64,
    /// Wall time, the time before a resume included.
    pub seconds: f64,
    /// Time spent in training steps, without evaluations and checkpoints.
    pub train_seconds: f64,
    /// Training loss summed over the steps that no log line covers yet.
    pub open_loss: f32,
    /// Number of those steps.
    pub open_steps: usize,
    /// Training loss of the newest log line.
    pub train_loss: Option<f64>,
    /// Loss of the newest evaluation.
    pub val_loss: Option<f64>,
}

impl RunState {
    /// Describes a run.
    pub fn new(options: TrainOptions, corpus: CorpusId, counters: Counters) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            options,
            corpus,
            counters,
        }
    }

    /// Reads the description of the run out of a checkpoint.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::ForeignCheckpoint`] if another program wrote it.
    pub fn from_value(value: &serde_json::Value, path: &Path) -> Result<Self, Gpt2Error> {
        read_description(value, FORMAT, VERSION).map_err(|reason| Gpt2Error::ForeignCheckpoint {
            path: path.to_owned(),
            reason,
        })
    }

    /// The form that goes into a checkpoint.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("all keys of a run state are strings")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Corpus;
    use serde_json::json;

    #[test]
    fn survives_the_round_trip() {
        let counters = Counters {
            step: 3,
            open_loss: 0.1 + 0.2,
            val_loss: Some(1.0 / 3.0),
            ..Default::default()
        };
        let options = TrainOptions {
            learning_rate: 0.1 + 0.2,
            ..Default::default()
        };
        let state = RunState::new(options, Corpus::shakespeare().id().clone(), counters);

        let text = state.to_value().to_string();
        let value = serde_json::from_str(&text).unwrap();
        assert_eq!(RunState::from_value(&value, Path::new("x")).unwrap(), state);
    }

    #[test]
    fn foreign_checkpoints_are_refused() {
        let message = |value| {
            RunState::from_value(&value, Path::new("c.bpk"))
                .unwrap_err()
                .to_string()
        };
        assert!(
            message(json!(null)).contains("c.bpk was not written by this example: it does not")
        );
        assert!(message(json!({"format": "other"})).contains("its format is \"other\""));
        assert!(
            message(json!({"format": FORMAT, "version": 1})).contains("its version is 1, not 2")
        );
        assert!(message(json!({"format": FORMAT, "version": VERSION})).contains("options"));
    }
}
