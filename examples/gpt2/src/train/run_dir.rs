use crate::Gpt2Error;
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

const LOG: &str = "log.jsonl";
const CHECKPOINT: &str = "checkpoint.bpk";

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
    /// [`Gpt2Error::Io`] if the folder cannot be created.
    pub fn create_numbered(parent: &Path, prefix: &str) -> Result<Self, Gpt2Error> {
        fs::create_dir_all(parent).map_err(Gpt2Error::io("create the folder", parent))?;
        let mut number = numbered(parent, prefix).last().map_or(0, |(n, _)| *n);
        loop {
            number += 1;
            let path = parent.join(format!("{prefix}-{number:03}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(Gpt2Error::io("create the folder", path)(error)),
            }
        }
    }

    /// Finds the numbered folder with the highest number that has a checkpoint.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::NothingToResume`] if there is none.
    pub fn latest_numbered(parent: &Path, prefix: &str) -> Result<Self, Gpt2Error> {
        numbered(parent, prefix)
            .into_iter()
            .rev()
            .map(|(_, path)| Self { path })
            .find(|dir| dir.checkpoint().is_file())
            .ok_or_else(|| Gpt2Error::NothingToResume {
                path: parent.join(format!("{prefix}-*")).join(CHECKPOINT),
            })
    }

    /// Creates a folder for a new run.
    ///
    /// An existing folder is taken if it holds no run, or if `overwrite` allows to remove the one
    /// that it holds.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::FolderInUse`] if it holds a run; [`Gpt2Error::Io`] if it cannot be created.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, Gpt2Error> {
        let dir = Self {
            path: path.to_owned(),
        };
        for file in [CHECKPOINT, LOG] {
            let present = path.join(file);
            if !present.exists() {
                continue;
            }
            if !overwrite {
                return Err(Gpt2Error::FolderInUse {
                    dir: dir.path,
                    file,
                });
            }
            fs::remove_file(&present).map_err(Gpt2Error::io("remove", present))?;
        }
        fs::create_dir_all(path).map_err(Gpt2Error::io("create the folder", path))?;
        Ok(dir)
    }

    /// Opens the folder of an earlier run.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::NothingToResume`] if there is no checkpoint in it.
    pub fn open(path: &Path) -> Result<Self, Gpt2Error> {
        let dir = Self {
            path: path.to_owned(),
        };
        if dir.checkpoint().is_file() {
            Ok(dir)
        } else {
            Err(Gpt2Error::NothingToResume {
                path: dir.checkpoint(),
            })
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

/// The folders `PREFIX-NUMBER` in `parent`, in order.
fn numbered(parent: &Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    let mut found: Vec<_> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
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
    fn numbers_go_up_and_the_latest_checkpoint_is_found() {
        let parent = tempfile::tempdir().unwrap();
        let parent = &parent.path().join("runs");

        assert!(RunDir::latest_numbered(parent, "x").is_err());
        let first = RunDir::create_numbered(parent, "x").unwrap();
        fs::write(first.checkpoint(), b"1").unwrap();
        let second = RunDir::create_numbered(parent, "x").unwrap();

        assert!(first.path().ends_with("x-001"));
        assert!(second.path().ends_with("x-002"));
        assert_eq!(RunDir::latest_numbered(parent, "x").unwrap(), first);
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
        assert!(!path.join(CHECKPOINT).exists());
        assert!(path.join("notes.txt").exists());
    }
}
