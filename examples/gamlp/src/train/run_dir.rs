use super::BestEpoch;
use crate::GamlpError;
use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

const LOG: &str = "log.jsonl";
const CHECKPOINT: &str = "checkpoint.bpk";
/// Start and end of the names of the best models of stages.
const BEST: (&str, &str) = ("best-", ".bpk");
const LOG_TEMPORARY: &str = "log.jsonl.tmp";
/// The pictures of a run, in the order of [`write_pictures`](super::write_pictures).
pub(super) const PICTURES: [&str; 4] = ["loss.svg", "accuracy.svg", "density.svg", "memory.svg"];

/// The folder of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Creates the next free `PREFIX-001`, `PREFIX-002`, ... in `parent`.
    ///
    /// # Errors
    ///
    /// [`GamlpError::Io`] if the folder cannot be created.
    pub fn create_numbered(parent: &Path, prefix: &str) -> Result<Self, GamlpError> {
        fs::create_dir_all(parent).map_err(GamlpError::io("create the folder", parent))?;
        let mut number = numbered(parent, prefix).last().map_or(0, |(n, _)| *n);
        loop {
            number += 1;
            let path = parent.join(format!("{prefix}-{number:03}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(GamlpError::io("create the folder", path)(error)),
            }
        }
    }

    /// Finds the numbered folder with the highest number.
    ///
    /// # Errors
    ///
    /// [`GamlpError::NothingToResume`] if there is none;
    /// [`GamlpError::NewestWithoutCheckpoint`] if there is no checkpoint in it.
    pub fn latest_numbered(parent: &Path, prefix: &str) -> Result<Self, GamlpError> {
        let Some((_, path)) = numbered(parent, prefix).pop() else {
            return Err(GamlpError::NothingToResume {
                path: parent.join(format!("{prefix}-*")).join(CHECKPOINT),
            });
        };
        let dir = Self { path };
        if dir.checkpoint().is_file() {
            Ok(dir)
        } else {
            Err(GamlpError::NewestWithoutCheckpoint { dir: dir.path })
        }
    }

    /// Creates a folder for a new run.
    ///
    /// An existing folder is taken if it holds no run, or if `overwrite` allows to replace the one
    /// that it holds. Its log and checkpoint stay until the new run writes its own.
    ///
    /// # Errors
    ///
    /// Those of [`check_free`](Self::check_free); [`GamlpError::Io`] if it cannot be created.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, GamlpError> {
        Self::check_free(path, overwrite)?;
        fs::create_dir_all(path).map_err(GamlpError::io("create the folder", path))?;
        for picture in PICTURES {
            // Of the run that is replaced; the new one draws its own at its end.
            fs::remove_file(path.join(picture)).ok();
        }
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Checks that a new run may go to this folder; changes nothing.
    ///
    /// # Errors
    ///
    /// [`GamlpError::FolderInUse`] or [`GamlpError::LogWithoutCheckpoint`] if it holds a run that
    /// `overwrite` does not allow to replace.
    pub fn check_free(path: &Path, overwrite: bool) -> Result<(), GamlpError> {
        let dir = path.to_owned();
        if overwrite {
            Ok(())
        } else if path.join(CHECKPOINT).exists() {
            Err(GamlpError::FolderInUse { dir })
        } else if path.join(LOG).exists() {
            Err(GamlpError::LogWithoutCheckpoint { dir })
        } else {
            Ok(())
        }
    }

    /// Opens the folder of an earlier run.
    ///
    /// # Errors
    ///
    /// [`GamlpError::NothingToResume`] or [`GamlpError::LogWithoutCheckpoint`] if there is no
    /// checkpoint in it.
    pub fn open(path: &Path) -> Result<Self, GamlpError> {
        let dir = Self {
            path: path.to_owned(),
        };
        if dir.checkpoint().is_file() {
            Ok(dir)
        } else if dir.log().is_file() {
            Err(GamlpError::LogWithoutCheckpoint { dir: dir.path })
        } else {
            Err(GamlpError::NothingToResume {
                path: dir.checkpoint(),
            })
        }
    }

    /// Removes the temporary files of saves that were killed, as far as that is possible.
    pub fn remove_leftovers(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_leftover) {
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

    /// The model of the best epoch of a stage.
    pub fn best(&self, best: &BestEpoch) -> PathBuf {
        self.path.join(best_name(best))
    }

    /// Removes, as far as that is possible, the models of epochs that were the best of their stage
    /// before these were.
    pub fn keep_best(&self, best: &[BestEpoch]) {
        let kept: Vec<_> = best.iter().map(best_name).collect();
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_str().filter(|name| is_best(name));
            if name.is_some_and(|name| !kept.iter().any(|kept| kept == name)) {
                fs::remove_file(entry.path()).ok();
            }
        }
    }
}

fn best_name(best: &BestEpoch) -> String {
    let (start, end) = BEST;
    format!("{start}{}-{}{end}", best.stage, best.epoch)
}

/// Whether a file is `best-STAGE-EPOCH.bpk`.
fn is_best(name: &str) -> bool {
    let numbers = name
        .strip_prefix(BEST.0)
        .and_then(|rest| rest.strip_suffix(BEST.1)?.split_once('-'));
    numbers.is_some_and(|(stage, epoch)| is_number(stage) && is_number(epoch))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a file is the temporary one of a checkpoint or model, as `checkpoint.bpk.PID-N.tmp`, of
/// a picture or of the log.
fn is_leftover(name: &str) -> bool {
    let of_checkpoint = name
        .strip_suffix(".tmp")
        .and_then(|rest| rest.rsplit_once('.'))
        .is_some_and(|(file, numbers)| {
            let numbers = numbers.split_once('-');
            let numbered = numbers.is_some_and(|(process, n)| is_number(process) && is_number(n));
            numbered && (file == CHECKPOINT || is_best(file))
        });
    let of_picture = PICTURES
        .iter()
        .any(|picture| name == format!("{picture}.tmp"));
    of_checkpoint || of_picture || name == LOG_TEMPORARY
}

/// Writes a file whole or not at all: to NAME.tmp beside it, then by renaming.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), GamlpError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .map_err(GamlpError::io("write", &temporary))?;
    fs::rename(&temporary, path).map_err(GamlpError::io("replace", path))
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
    fn only_models_that_are_no_longer_the_best_go() {
        let dir = tempfile::tempdir().unwrap();
        let names = [
            "best-0-3.bpk",
            "best-0-5.bpk",
            "best-1-3.bpk",
            "best-mine.bpk",
        ];
        for name in names {
            fs::write(dir.path().join(name), b"x").unwrap();
        }
        let best = |stage, epoch| BestEpoch {
            stage,
            epoch,
            accuracy: Default::default(),
        };
        let run = RunDir::create(dir.path(), false).unwrap();
        run.keep_best(&[best(0, 5), best(1, 3)]);
        let left = names.map(|name| dir.path().join(name).exists());
        assert_eq!(left, [false, true, true, true]);
    }

    #[test]
    fn leftovers_are_told_from_other_files() {
        assert!(is_leftover("checkpoint.bpk.4711-0.tmp"));
        assert!(is_leftover("best-0-12.bpk.4711-0.tmp"));
        assert!(is_leftover("log.jsonl.tmp"));
        let others = [
            "checkpoint.bpk",
            "checkpoint.bpk.tmp",
            "checkpoint.bpk.old-1.tmp",
            "checkpoint.bpk.1-.tmp",
            "best-0-12.bpk",
            "best-of-all.bpk.1-1.tmp",
            "log.jsonl",
        ];
        assert!(!others.into_iter().any(is_leftover));
    }
}
