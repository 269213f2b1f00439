use crate::Gpt2Error;
use serde::{Deserialize, Serialize};
use snack_burn::prelude::TopologyUpdate;
use std::{
    fs::{self, File, OpenOptions},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

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
    /// [`Gpt2Error::DamagedLog`] if another line is not a log line; [`Gpt2Error::Io`] if the file
    /// cannot be read.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, Gpt2Error> {
        let text = fs::read(path).map_err(Gpt2Error::io("read", path))?;
        text.split_inclusive(|&byte| byte == b'\n')
            .filter(|line| line.ends_with(b"\n"))
            .enumerate()
            .map(|(index, line)| Self::parse(line, index, path))
            .collect()
    }

    fn parse(line: &[u8], index: usize, path: &Path) -> Result<Self, Gpt2Error> {
        serde_json::from_slice(line).map_err(|error| Gpt2Error::DamagedLog {
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
    /// [`Gpt2Error::Io`] if the file cannot be written.
    pub fn create(path: &Path) -> Result<Self, Gpt2Error> {
        let file = File::create(path).map_err(Gpt2Error::io("create", path))?;
        Ok(Self::new(path, file))
    }

    /// Continues the log of a run that resumes after `step`.
    ///
    /// Lines after that step are dropped: a run that died after its last checkpoint repeats them.
    /// So is a last line that was cut off.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::DamagedLog`] if another line is not a log line, and the file stays as it is;
    /// [`Gpt2Error::Io`] if the file cannot be read or written.
    pub fn resume(path: &Path, step: usize) -> Result<Self, Gpt2Error> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Gpt2Error::io("read", path)(error)),
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
            let temporary = path.with_extension("jsonl.tmp");
            fs::write(&temporary, &text[..kept]).map_err(Gpt2Error::io("write", &temporary))?;
            fs::rename(&temporary, path).map_err(Gpt2Error::io("replace", path))?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(Gpt2Error::io("append to", path))?;
        Ok(Self::new(path, file))
    }

    /// Appends a line.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::Io`] if the file cannot be written.
    pub fn write(&mut self, line: &LogLine) -> Result<(), Gpt2Error> {
        serde_json::to_writer(&mut self.file, line)
            .map_err(std::io::Error::from)
            .and_then(|()| self.file.write_all(b"\n"))
            .and_then(|()| self.file.flush())
            .map_err(Gpt2Error::io("write", &self.path))
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
