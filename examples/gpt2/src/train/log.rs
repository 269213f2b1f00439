pub use example_support::UpdateLine;
use example_support::{LogEntry, LogError, read_log};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One line of `log.jsonl`: what happened since the line before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// Steps done.
    pub step: usize,
    /// Mean training loss since the line before, in nats per token.
    pub loss: f64,
    /// Learning rate of this step.
    pub lr: f64,
    /// Tokens seen.
    pub tokens: u64,
    /// Wall time of the run, the time before a resume included.
    pub seconds: f64,
    /// Tokens per second of training since the line before.
    pub tokens_per_second: f64,
    /// Share of the MLP weights that exist.
    pub density: f64,
    /// Loss on the held-out text, in nats per token, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val_loss: Option<f64>,
    /// Perplexity per token on the held-out text, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perplexity: Option<f64>,
    /// Bytes that the device holds ready for the run, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<u64>,
    /// Bytes that all processes have on the GPU, where NVML says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml_bytes: Option<u64>,
    /// Energy that the GPU has used since the run started or resumed, in joules, where NVML counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joules: Option<f64>,
    /// The topology update after this step, if there was one.
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
            loss: 2.5,
            lr: 0.008,
            tokens: 10,
            seconds: 1.5,
            tokens_per_second: 7.0,
            density: 0.1,
            val_loss: None,
            perplexity: None,
            reserved_bytes: None,
            nvml_bytes: None,
            joules: None,
            update: None,
        }
    }

    #[test]
    fn absent_values_have_no_key() {
        let text = serde_json::to_string(&line(3)).unwrap();

        assert_eq!(
            text,
            r#"{"step":3,"loss":2.5,"lr":0.008,"tokens":10,"seconds":1.5,"tokens_per_second":7.0,"density":0.1}"#
        );
        assert_eq!(serde_json::from_str::<LogLine>(&text).unwrap(), line(3));
    }
}
