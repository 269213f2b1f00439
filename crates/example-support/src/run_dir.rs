use crate::FileError;
use std::{
    fs,
    io::ErrorKind,
    marker::PhantomData,
    path::{Path, PathBuf},
};
use thiserror::Error;

const LOG: &str = "log.jsonl";
const LOG_TEMPORARY: &str = "log.jsonl.tmp";
const CHECKPOINT: &str = "checkpoint.bpk";

/// The files of a run beside its log and its checkpoint.
pub trait RunFiles {
    /// The pictures that are drawn at the end.
    const PICTURES: &'static [&'static str];

    /// Whether a file of this name is another model of the run.
    fn is_model(_name: &str) -> bool {
        false
    }
}

/// A folder that cannot be that of a run.
#[derive(Debug, Error)]
pub enum RunDirError {
    /// The folder already holds a run.
    #[error(
        "the folder {} already holds a run (checkpoint.bpk); add --resume to continue it, \
         --overwrite to replace it, or choose another --out", dir.display()
    )]
    InUse {
        /// The folder.
        dir: PathBuf,
    },

    /// The folder holds the log of a run that left no checkpoint.
    #[error(
        "the folder {} holds a log but no checkpoint, so its run cannot be resumed; use \
         --overwrite instead of --resume to replace it, or choose another --out", dir.display()
    )]
    LogWithoutCheckpoint {
        /// The folder.
        dir: PathBuf,
    },

    /// The newest numbered folder has no checkpoint.
    #[error(
        "nothing to resume: the newest run {} has no checkpoint; remove that folder, or choose \
         an older run with --out", dir.display()
    )]
    NewestWithoutCheckpoint {
        /// The folder.
        dir: PathBuf,
    },

    /// There is nothing to resume.
    #[error("nothing to resume: there is no {}", path.display())]
    NothingToResume {
        /// The checkpoint that was looked for.
        path: PathBuf,
    },

    /// The folder cannot be created.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The folder of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir<F> {
    path: PathBuf,
    files: PhantomData<F>,
}

impl<F: RunFiles> RunDir<F> {
    fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            files: PhantomData,
        }
    }

    /// Creates the next free `PREFIX-001`, `PREFIX-002`, ... in `parent`.
    ///
    /// # Errors
    ///
    /// [`RunDirError::File`] if the folder cannot be created.
    pub fn create_numbered(parent: &Path, prefix: &str) -> Result<Self, RunDirError> {
        fs::create_dir_all(parent).map_err(FileError::of("create the folder", parent))?;
        let mut number = numbered(parent, prefix).last().map_or(0, |(n, _)| *n);
        loop {
            number += 1;
            let path = parent.join(format!("{prefix}-{number:03}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self::at(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(FileError::of("create the folder", path)(error).into()),
            }
        }
    }

    /// Finds the numbered folder with the highest number.
    ///
    /// # Errors
    ///
    /// [`RunDirError::NothingToResume`] if there is none;
    /// [`RunDirError::NewestWithoutCheckpoint`] if there is no checkpoint in it.
    pub fn latest_numbered(parent: &Path, prefix: &str) -> Result<Self, RunDirError> {
        let Some((_, path)) = numbered(parent, prefix).pop() else {
            return Err(RunDirError::NothingToResume {
                path: parent.join(format!("{prefix}-*")).join(CHECKPOINT),
            });
        };
        let dir = Self::at(path);
        if dir.checkpoint().is_file() {
            Ok(dir)
        } else {
            Err(RunDirError::NewestWithoutCheckpoint { dir: dir.path })
        }
    }

    /// Creates a folder for a new run.
    ///
    /// An existing folder is taken if it holds no run, or if `overwrite` allows to replace the one
    /// that it holds. Its log and checkpoint stay until the new run writes its own.
    ///
    /// # Errors
    ///
    /// Those of [`check_free`](Self::check_free); [`RunDirError::File`] if it cannot be created.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, RunDirError> {
        Self::check_free(path, overwrite)?;
        fs::create_dir_all(path).map_err(FileError::of("create the folder", path))?;
        for picture in F::PICTURES {
            // Of the run that is replaced; the new one draws its own at its end.
            fs::remove_file(path.join(picture)).ok();
        }
        Ok(Self::at(path))
    }

    /// Checks that a new run may go to this folder; changes nothing.
    ///
    /// # Errors
    ///
    /// [`RunDirError::InUse`] or [`RunDirError::LogWithoutCheckpoint`] if it holds a run that
    /// `overwrite` does not allow to replace.
    pub fn check_free(path: &Path, overwrite: bool) -> Result<(), RunDirError> {
        let dir = path.to_owned();
        if overwrite {
            Ok(())
        } else if path.join(CHECKPOINT).exists() {
            Err(RunDirError::InUse { dir })
        } else if path.join(LOG).exists() {
            Err(RunDirError::LogWithoutCheckpoint { dir })
        } else {
            Ok(())
        }
    }

    /// Opens the folder of an earlier run.
    ///
    /// # Errors
    ///
    /// [`RunDirError::NothingToResume`] or [`RunDirError::LogWithoutCheckpoint`] if there is no
    /// checkpoint in it.
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        let dir = Self::at(path);
        if dir.checkpoint().is_file() {
            Ok(dir)
        } else if dir.log().is_file() {
            Err(RunDirError::LogWithoutCheckpoint { dir: dir.path })
        } else {
            Err(RunDirError::NothingToResume {
                path: dir.checkpoint(),
            })
        }
    }

    /// Removes the temporary files of saves that were killed, as far as that is possible.
    pub fn remove_leftovers(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_leftover::<F>) {
                fs::remove_file(entry.path()).ok();
            }
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The log of the run.
    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// The checkpoint of the run.
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join(CHECKPOINT)
    }
}

/// Whether a file is the temporary one of a checkpoint or model, as `checkpoint.bpk.PID-N.tmp`, of
/// a picture or of the log.
fn is_leftover<F: RunFiles>(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let of_model = name
        .strip_suffix(".tmp")
        .and_then(|rest| rest.rsplit_once('.'))
        .is_some_and(|(file, numbers)| {
            let numbers = numbers.split_once('-');
            let numbered = numbers.is_some_and(|(process, n)| is_number(process) && is_number(n));
            numbered && (file == CHECKPOINT || F::is_model(file))
        });
    let of_picture = F::PICTURES
        .iter()
        .any(|picture| name == format!("{picture}.tmp"));
    of_model || of_picture || name == LOG_TEMPORARY
}

/// The folders `PREFIX-NUMBER` in `parent`, in order.
fn numbered(parent: &Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    let mut found: Vec<_> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix(prefix)?.strip_prefix('-')?;
            Some((number.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Files;

    impl RunFiles for Files {
        const PICTURES: &'static [&'static str] = &["loss.svg"];

        fn is_model(name: &str) -> bool {
            name == "best-0-12.bpk"
        }
    }

    type RunDir = super::RunDir<Files>;

    #[test]
    fn numbers_go_up_and_the_newest_run_is_taken_or_named() {
        let parent = tempfile::tempdir().unwrap();
        let parent = &parent.path().join("runs");

        assert!(RunDir::latest_numbered(parent, "x").is_err());
        let first = RunDir::create_numbered(parent, "x").unwrap();
        fs::write(first.checkpoint(), b"1").unwrap();
        let second = RunDir::create_numbered(parent, "x").unwrap();

        assert!(first.path().ends_with("x-001"));
        assert!(second.path().ends_with("x-002"));
        let message = RunDir::latest_numbered(parent, "x")
            .unwrap_err()
            .to_string();
        assert!(message.contains("x-002 has no checkpoint"), "{message}");
        fs::write(second.checkpoint(), b"2").unwrap();
        assert_eq!(RunDir::latest_numbered(parent, "x").unwrap(), second);
    }

    #[test]
    fn a_run_is_replaced_only_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        fs::write(path.join("notes.txt"), b"mine").unwrap();
        fs::write(path.join(CHECKPOINT), b"old").unwrap();

        let message = RunDir::create(path, false).unwrap_err().to_string();
        assert!(message.contains("already holds a run (checkpoint.bpk)"));
        assert!(path.join(CHECKPOINT).exists());

        RunDir::create(path, true).unwrap();
        assert!(path.join(CHECKPOINT).exists());
        assert!(path.join("notes.txt").exists());
    }

    #[test]
    fn leftovers_are_told_from_other_files() {
        for name in [
            "checkpoint.bpk.4711-0.tmp",
            "best-0-12.bpk.4711-0.tmp",
            "loss.svg.tmp",
            "log.jsonl.tmp",
        ] {
            assert!(is_leftover::<Files>(name), "{name}");
        }
        let others = [
            "checkpoint.bpk",
            "checkpoint.bpk.tmp",
            "checkpoint.bpk.old-1.tmp",
            "checkpoint.bpk.1-.tmp",
            "best-0-12.bpk",
            "best-of-all.bpk.1-1.tmp",
            "loss.svg",
            "log.jsonl",
        ];
        assert!(!others.into_iter().any(is_leftover::<Files>));
    }
}
