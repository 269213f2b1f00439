use crate::{FileError, replace_file};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs::{self, File, OpenOptions},
    io::{BufWriter, ErrorKind, Write},
    marker::PhantomData,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// One line of the log of a run.
pub trait LogEntry: Serialize + DeserializeOwned {
    /// Steps done when it was written.
    fn step(&self) -> usize;
}

/// A log that cannot be read or written.
#[derive(Debug, Error)]
pub enum LogError {
    /// A line is not what the program writes.
    #[error("the log {} is damaged in line {line}: {reason}; repair or remove that line", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },

    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The lines of a log, without a last one that was cut off.
///
/// # Errors
///
/// [`LogError::Damaged`] if another line is not a log line; [`LogError::File`] if the file cannot be
/// read.
pub fn read_log<L: LogEntry>(path: &Path) -> Result<Vec<L>, LogError> {
    let text = fs::read(path).map_err(FileError::of("read", path))?;
    let lines = complete_lines(&text).enumerate();
    lines
        .map(|(index, line)| parse(line, index, path))
        .collect()
}

fn complete_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n')
        .filter(|line| line.ends_with(b"\n"))
}

fn parse<L: LogEntry>(line: &[u8], index: usize, path: &Path) -> Result<L, LogError> {
    serde_json::from_slice(line).map_err(|error| LogError::Damaged {
        path: path.to_owned(),
        line: index + 1,
        reason: error.to_string(),
    })
}

/// Writes a log, one JSON object a line.
#[derive(Debug)]
pub struct LogWriter<L> {
    path: PathBuf,
    file: BufWriter<File>,
    lines: PhantomData<fn(&L)>,
}

impl<L: LogEntry> LogWriter<L> {
    /// Starts a new log.
    ///
    /// # Errors
    ///
    /// [`LogError::File`] if the file cannot be written.
    pub fn create(path: &Path) -> Result<Self, LogError> {
        let file = File::create(path).map_err(FileError::of("create", path))?;
        Ok(Self::new(path, file))
    }

    /// Continues the log of a run that resumes after `step`.
    ///
    /// Lines after that step are dropped: a run that died after its last checkpoint repeats them.
    /// So is a last line that was cut off.
    ///
    /// # Errors
    ///
    /// [`LogError::Damaged`] if another line is not a log line, and the file stays as it is;
    /// [`LogError::File`] if the file cannot be read or written.
    pub fn resume(path: &Path, step: usize) -> Result<Self, LogError> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(FileError::of("read", path)(error).into()),
        };
        let (mut kept, mut end) = (0, 0);
        for (index, line) in complete_lines(&text).enumerate() {
            let parsed: L = parse(line, index, path)?;
            end += line.len();
            if parsed.step() <= step {
                kept = end;
            }
        }

        if kept < text.len() {
            replace_file(path, &text[..kept])?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(FileError::of("append to", path))?;
        Ok(Self::new(path, file))
    }

    /// Appends a line.
    ///
    /// # Errors
    ///
    /// [`LogError::File`] if the file cannot be written.
    pub fn write(&mut self, line: &L) -> Result<(), LogError> {
        serde_json::to_writer(&mut self.file, line)
            .map_err(std::io::Error::from)
            .and_then(|()| self.file.write_all(b"\n"))
            .and_then(|()| self.file.flush())
            .map_err(FileError::of("write", &self.path))?;
        Ok(())
    }

    fn new(path: &Path, file: File) -> Self {
        Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
            lines: PhantomData,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Serialize, Deserialize)]
    struct Line {
        step: usize,
    }

    impl LogEntry for Line {
        fn step(&self) -> usize {
            self.step
        }
    }

    #[test]
    fn resuming_drops_later_and_broken_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let mut log = LogWriter::create(&path).unwrap();
        for step in [10, 20, 30] {
            log.write(&Line { step }).unwrap();
        }
        drop(log);
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str(r#"{"step":4"#);
        fs::write(&path, text).unwrap();
        assert_eq!(read_log::<Line>(&path).unwrap().len(), 3);

        let mut log = LogWriter::resume(&path, 20).unwrap();
        log.write(&Line { step: 25 }).unwrap();

        let lines = read_log::<Line>(&path).unwrap();
        let steps: Vec<_> = lines.into_iter().map(|line| line.step).collect();
        assert_eq!(steps, [10, 20, 25]);
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_named_and_nothing_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let good = serde_json::to_string(&Line { step: 10 }).unwrap();
        let text = format!("{good}\n{good}\n{{\"step\":4\n{good}\n{{");
        fs::write(&path, &text).unwrap();

        let messages = [
            LogWriter::<Line>::resume(&path, 20).unwrap_err(),
            read_log::<Line>(&path).unwrap_err(),
        ];
        for message in messages.map(|error| error.to_string()) {
            assert!(
                message.contains("log.jsonl is damaged in line 3"),
                "{message}"
            );
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}
