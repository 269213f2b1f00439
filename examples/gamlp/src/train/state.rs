use super::{Accuracy, TrainOptions};
use crate::{GamlpError, GraphId};
use example_support::read_description;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Marks the checkpoints of this example.
const FORMAT: &str = "snack-burn/examples/gamlp";
const VERSION: u32 = 2;

/// What a checkpoint holds beside model, optimizer and topology: all that a run needs to go on as
/// if it had never stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    format: String,
    version: u32,
    /// The options of the run.
    pub options: TrainOptions,
    /// The graph it learns.
    pub graph: GraphId,
    /// Steps, times and results so far.
    pub counters: Counters,
}

/// The epoch of a stage with the best validation accuracy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BestEpoch {
    /// The stage, from 0.
    pub stage: usize,
    /// The epoch of the stage, from 1.
    pub epoch: usize,
    /// What the model reached.
    pub accuracy: Accuracy,
}

/// Steps, times, losses and results so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// The stage, from 0.
    pub stage: usize,
    /// Steps done in this stage.
    pub step: usize,
    /// Steps done in the stages before.
    pub earlier_steps: usize,
    /// Wall time, the time before a resume included.
    pub seconds: f64,
    /// Time spent in training steps, without evaluations and checkpoints.
    pub train_seconds: f64,
    /// Energy of the GPU in training steps, in millijoules, where NVML counts it.
    #[serde(default)]
    pub train_mj: u64,
    /// Nodes learned from, each as often as it was.
    pub samples: u64,
    /// Training loss summed over the steps that no log line covers yet.
    pub open_loss: f32,
    /// Number of those steps.
    pub open_steps: usize,
    /// Training loss of the newest log line.
    pub train_loss: Option<f64>,
    /// The newest evaluation.
    pub accuracy: Option<Accuracy>,
    /// The best epoch of every stage that has been evaluated, in order.
    pub best: Vec<BestEpoch>,
    /// Epoch of the newest evaluation in this stage; 0 if there was none.
    pub evaluated: usize,
}

impl Counters {
    /// All steps.
    pub fn total_steps(&self) -> usize {
        self.earlier_steps + self.step
    }

    /// The best epoch of this stage.
    pub fn best_of_stage(&self) -> Option<&BestEpoch> {
        self.best.get(self.stage)
    }
}

impl RunState {
    /// Describes a run.
    pub fn new(options: TrainOptions, graph: GraphId, counters: Counters) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            options,
            graph,
            counters,
        }
    }

    /// Reads the description of the run out of a checkpoint.
    ///
    /// # Errors
    ///
    /// [`GamlpError::ForeignCheckpoint`] if another program wrote it.
    pub fn from_value(value: &serde_json::Value, path: &Path) -> Result<Self, GamlpError> {
        read_description(value, FORMAT, VERSION).map_err(|reason| GamlpError::ForeignCheckpoint {
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
    use crate::GraphSource;
    use serde_json::json;

    #[test]
    fn survives_the_round_trip() {
        let (data, _) = GraphSource::Shipped.load(None).unwrap();
        let counters = Counters {
            step: 3,
            open_loss: 0.1 + 0.2,
            best: vec![BestEpoch {
                stage: 0,
                epoch: 2,
                accuracy: Accuracy {
                    valid: 1.0 / 3.0,
                    ..Default::default()
                },
            }],
            ..Default::default()
        };
        let options = TrainOptions {
            learning_rate: 0.1 + 0.2,
            graph: GraphSource::folder("somewhere"),
            ..Default::default()
        };
        let id = GraphId::new(&GraphSource::Shipped, &data);
        let state = RunState::new(options, id, counters);

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
            message(json!({"format": FORMAT, "version": 9})).contains("its version is 9, not 2")
        );
        assert!(message(json!({"format": FORMAT, "version": VERSION})).contains("options"));
    }
}
