use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};
use thiserror::Error;

/// A file or folder that cannot be read or written.
#[derive(Debug, Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct FileError {
    /// What was attempted.
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// The reason.
    pub source: io::Error,
}

impl FileError {
    /// Says what was attempted with a file or folder that an error is about.
    pub fn of(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self {
            action,
            path,
            source,
        }
    }
}

/// Writes a file whole or not at all: to NAME.tmp beside it, then by renaming.
///
/// # Errors
///
/// [`FileError`]; the file is then as it was.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let temporary = temporary_of(path);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let written = written.map_err(FileError::of("write", &temporary));
    let replaced =
        written.and_then(|()| fs::rename(&temporary, path).map_err(FileError::of("replace", path)));
    if replaced.is_err() {
        fs::remove_file(&temporary).ok();
    }
    replaced
}

fn temporary_of(path: &Path) -> PathBuf {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    temporary.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        replace_file(&path, b"first").unwrap();
        replace_file(&path, b"2").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert!(!temporary_of(&path).exists());

        fs::create_dir(temporary_of(&path)).unwrap();
        let message = replace_file(&path, b"third").unwrap_err().to_string();
        assert!(message.starts_with("cannot write "), "{message}");
        assert_eq!(fs::read(&path).unwrap(), b"2");

        fs::remove_dir(temporary_of(&path)).unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir_all(folder.join("inside")).unwrap();
        let message = replace_file(&folder, b"fourth").unwrap_err().to_string();
        assert!(message.starts_with("cannot replace "), "{message}");
        assert!(!temporary_of(&folder).exists());
    }
}
