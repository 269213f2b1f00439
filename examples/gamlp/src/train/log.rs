use super::{Accuracy, run_dir::replace};
use crate::GamlpError;
use serde::{Deserialize, Serialize};
use snack_burn::prelude::TopologyUpdate;
use std::{
    fs::{self, File, OpenOptions},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

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
    /// [`GamlpError::DamagedLog`] if another line is not a log line; [`GamlpError::Io`] if the file
    /// cannot be read.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, GamlpError> {
        let text = fs::read(path).map_err(GamlpError::io("read", path))?;
        text.split_inclusive(|&byte| byte == b'\n')
            .filter(|line| line.ends_with(b"\n"))
            .enumerate()
            .map(|(index, line)| Self::parse(line, index, path))
            .collect()
    }

    fn parse(line: &[u8], index: usize, path: &Path) -> Result<Self, GamlpError> {
        serde_json::from_slice(line).map_err(|error| GamlpError::DamagedLog {
            path: path.to_owned(),
            line: index + 1,
            reason: error.to_string(),
        })
    }
}

/// One topology update, summed over the layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateLine {
    /// Number of layers.
    pub layers: usize,
    /// Connections removed.
    pub dropped: usize,
    /// Connections added.
    pub grown: usize,
    /// Connections present.
    pub nnz: usize,
}

impl From<&TopologyUpdate> for UpdateLine {
    fn from(update: &TopologyUpdate) -> Self {
        let layers = &update.layers;
        Self {
            layers: layers.len(),
            dropped: layers.iter().map(|layer| layer.dropped).sum(),
            grown: layers.iter().map(|layer| layer.grown).sum(),
            nnz: layers.iter().map(|layer| layer.nnz).sum(),
        }
    }
}

/// Writes `log.jsonl`, one JSON object a line.
#[derive(Debug)]
pub struct LogWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl LogWriter {
    /// Starts a new log.
    ///
    /// # Errors
    ///
    /// [`GamlpError::Io`] if the file cannot be written.
    pub fn create(path: &Path) -> Result<Self, GamlpError> {
        let file = File::create(path).map_err(GamlpError::io("create", path))?;
        Ok(Self::new(path, file))
    }

    /// Continues the log of a run that resumes after `step`.
    ///
    /// Lines after that step are dropped: a run that died after its last checkpoint repeats them.
    /// So is a last line that was cut off.
    ///
    /// # Errors
    ///
    /// [`GamlpError::DamagedLog`] if another line is not a log line, and the file stays as it is;
    /// [`GamlpError::Io`] if the file cannot be read or written.
    pub fn resume(path: &Path, step: usize) -> Result<Self, GamlpError> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(GamlpError::io("read", path)(error)),
        };
        let (mut kept, mut end) = (0, 0);
        let complete = text
            .split_inclusive(|&byte| byte == b'\n')
            .filter(|line| line.ends_with(b"\n"));
        for (index, line) in complete.enumerate() {
            let parsed = LogLine::parse(line, index, path)?;
            end += line.len();
            if parsed.step <= step {
                kept = end;
            }
        }

        if kept < text.len() {
            replace(path, &text[..kept])?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(GamlpError::io("append to", path))?;
        Ok(Self::new(path, file))
    }

    /// Appends a line.
    ///
    /// # Errors
    ///
    /// [`GamlpError::Io`] if the file cannot be written.
    pub fn write(&mut self, line: &LogLine) -> Result<(), GamlpError> {
        serde_json::to_writer(&mut self.file, line)
            .map_err(std::io::Error::from)
            .and_then(|()| self.file.write_all(b"\n"))
            .and_then(|()| self.file.flush())
            .map_err(GamlpError::io("write", &self.path))
    }

    fn new(path: &Path, file: File) -> Self {
        Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
        }
    }
}

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

    #[test]
    fn resuming_drops_later_and_broken_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let mut log = LogWriter::create(&path).unwrap();
        for step in [10, 20, 30] {
            log.write(&line(step)).unwrap();
        }
        drop(log);
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str(r#"{"step":4"#);
        fs::write(&path, text).unwrap();

        let mut log = LogWriter::resume(&path, 20).unwrap();
        log.write(&line(25)).unwrap();

        let steps: Vec<usize> = fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(|text| serde_json::from_str::<LogLine>(text).unwrap().step)
            .collect();
        assert_eq!(steps, [10, 20, 25]);
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_named_and_nothing_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let good = serde_json::to_string(&line(10)).unwrap();
        let text = format!("{good}\n{good}\n{{\"step\":4\n{good}\n{{");
        fs::write(&path, &text).unwrap();

        let message = LogWriter::resume(&path, 20).unwrap_err().to_string();
        assert!(
            message.contains("log.jsonl is damaged in line 3"),
            "{message}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}
