use super::Accuracy;
pub use example_support::UpdateLine;
use example_support::{LogEntry, LogError, read_log};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One line of `log.jsonl`: an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// Steps done, over all stages.
    pub step: usize,
    /// The stage, from 0.
    pub stage: usize,
    /// Epochs done in the stage.
    pub epoch: usize,
    /// Mean training loss of the epoch, in nats per node.
    pub loss: f64,
    /// Learning rate.
    pub lr: f64,
    /// Wall time of the run, the time before a resume included.
    pub seconds: f64,
    /// Mean time of a training step of the epoch, in milliseconds.
    pub step_ms: f64,
    /// Nodes per second of training in the epoch.
    pub nodes_per_second: f64,
    /// Share of the weights that exist of the matrices that may be sparse.
    pub density: f64,
    /// Where it was measured.
    #[serde(flatten)]
    pub accuracy: Option<Accuracy>,
    /// Bytes that the device holds ready for the run, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<u64>,
    /// Bytes that all processes have on the GPU, where NVML says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml_bytes: Option<u64>,
    /// Energy that the GPU has used since the run started or resumed, in joules, where NVML counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joules: Option<f64>,
    /// Mean energy of the GPU in a training step of the run so far, in millijoules, where NVML counts
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mj_per_step: Option<f64>,
    /// The topology update at the end of the epoch, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateLine>,
}

impl LogLine {
    /// The lines of a log, without a last one that was cut off.
    ///
    /// # Errors
    ///
    /// As [`read_log`].
    pub fn read_all(path: &Path) -> Result<Vec<Self>, LogError> {
        read_log(path)
    }
}

impl LogEntry for LogLine {
    fn step(&self) -> usize {
        self.step
    }
}

/// Writes `log.jsonl`, one JSON object a line.
pub type LogWriter = example_support::LogWriter<LogLine>;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: usize) -> LogLine {
        LogLine {
            step,
            stage: 0,
            epoch: 1,
            loss: 2.5,
            lr: 0.008,
            seconds: 1.5,
            step_ms: 0.5,
            nodes_per_second: 7.0,
            density: 0.1,
            accuracy: None,
            reserved_bytes: None,
            nvml_bytes: None,
            joules: None,
            mj_per_step: None,
            update: None,
        }
    }

    #[test]
    fn absent_values_have_no_key() {
        let text = serde_json::to_string(&line(3)).unwrap();

        assert_eq!(
            text,
            r#"{"step":3,"stage":0,"epoch":1,"loss":2.5,"lr":0.008,"seconds":1.5,"step_ms":0.5,"nodes_per_second":7.0,"density":0.1}"#
        );
        assert_eq!(serde_json::from_str::<LogLine>(&text).unwrap(), line(3));
    }

    #[test]
    fn accuracies_are_keys_of_the_line() {
        let measured = LogLine {
            accuracy: Some(Accuracy {
                train: Some(1.0),
                valid: 0.5,
                test: Some(0.25),
            }),
            ..line(3)
        };
        let text = serde_json::to_string(&measured).unwrap();
        assert!(
            text.contains(r#""train_accuracy":1.0,"valid_accuracy":0.5"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<LogLine>(&text).unwrap(), measured);

        let alone = LogLine {
            accuracy: Some(Accuracy {
                valid: 0.5,
                ..Accuracy::default()
            }),
            ..line(3)
        };
        let text = serde_json::to_string(&alone).unwrap();
        assert!(!text.contains("train_accuracy"), "{text}");
        assert_eq!(serde_json::from_str::<LogLine>(&text).unwrap(), alone);
    }
}
