use std::{
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
};
use thiserror::Error;

const NAME: &str = ".lock";

/// Another process writes into the folder.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the folder {} is in use by another process; wait until it ends, or choose another --out", dir.display())]
pub struct FolderBusy {
    /// The folder.
    pub dir: PathBuf,
}

/// Keeps other processes that ask for it out of a folder, until it is dropped or the process ends.
///
/// It is a lock on the file `.lock` in the folder, which stays behind. Where a file system knows no locks, or lets
/// no file be created, nobody is kept out.
#[derive(Debug)]
pub struct FolderLock {
    _file: Option<File>,
}

impl FolderLock {
    /// Locks a folder that exists.
    ///
    /// # Errors
    ///
    /// [`FolderBusy`] if another process, or another lock of this one, has it.
    pub fn acquire(dir: &Path) -> Result<Self, FolderBusy> {
        let path = dir.join(NAME);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path);
        let Ok(file) = file else {
            return Ok(Self { _file: None });
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(FolderBusy { dir: dir.into() }),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self { _file: Some(file) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_lock_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = FolderLock::acquire(dir.path()).unwrap();
        let message = FolderLock::acquire(dir.path()).unwrap_err().to_string();
        assert!(message.contains("in use by another process"), "{message}");
        drop(first);
        FolderLock::acquire(dir.path()).unwrap();
    }

    #[test]
    fn what_cannot_be_locked_is_not() {
        FolderLock::acquire(Path::new("does/not/exist")).unwrap();
    }
}
