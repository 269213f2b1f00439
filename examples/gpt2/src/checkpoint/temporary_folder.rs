//! Folders for files that are not complete yet, and what is left of them when a process is killed.

use super::{WeightFileError, undo};
use std::{
    fs::{self, DirEntry, File, TryLockError},
    io,
    path::{Path, PathBuf},
};
use tempfile::{Builder, TempDir};

/// Start and end of the names of these folders, and the letters and digits between them.
const NAME: (&str, &str) = (".gpt2-convert-", ".tmp");
const RANDOM: usize = 6;
/// The file in it that its owner keeps locked.
const LOCK: &str = "lock";

/// A folder `.gpt2-convert-XXXXXX.tmp` inside another one, removed when it is dropped.
///
/// It is locked as long as its owner lives, which tells it from what a killed process leaves behind.
#[derive(Debug)]
pub(super) struct TemporaryFolder {
    /// Closed before the folder is removed, which some systems ask for.
    _lock: File,
    folder: TempDir,
}

impl TemporaryFolder {
    /// Makes one in the folder `parent`.
    pub fn create_in(parent: &Path) -> io::Result<Self> {
        let folder = Builder::new()
            .prefix(NAME.0)
            .suffix(NAME.1)
            .rand_bytes(RANDOM)
            .tempdir_in(parent)?;
        let lock = File::create(folder.path().join(LOCK))?;
        // Not every file system has locks. Without them, only two commands at once are in danger.
        lock.try_lock().ok();
        Ok(Self {
            _lock: lock,
            folder,
        })
    }

    /// Lets it be when its owner is gone. Returns where it is.
    pub fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Whether an entry of a folder is a temporary folder, in use or left behind.
pub(super) fn is_temporary(entry: &DirEntry) -> bool {
    let random = |name: &str| {
        let random = name.strip_prefix(NAME.0)?.strip_suffix(NAME.1)?;
        let plain = random.bytes().all(|byte| byte.is_ascii_alphanumeric());
        Some(plain && random.len() == RANDOM)
    };
    let named = entry.file_name().to_str().and_then(random);
    named == Some(true) && entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// Gives files of `parent` their names back that a killed process had put aside to replace them.
///
/// # Errors
///
/// [`WeightFileError::Io`] if that is impossible, as in a folder that may not be written to.
pub(super) fn restore(parent: &Path) -> Result<(), WeightFileError> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(is_temporary) {
        let folder = entry.path();
        if undo::is_open(&folder) && !is_in_use(&folder) {
            undo::undo(parent, &folder).map_err(WeightFileError::io(
                "give old files their names back, which a killed gpt2_convert put aside, from",
                &folder,
            ))?;
            remove(&folder);
        }
    }
    Ok(())
}

/// Removes the temporary folders in `parent` that nobody uses, as far as that is possible.
pub(super) fn remove_leftovers(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(is_temporary) {
        let folder = entry.path();
        if !is_in_use(&folder) && !undo::is_open(&folder) {
            remove(&folder);
        }
    }
}

/// Removes a temporary folder and what its owner put there.
fn remove(folder: &Path) {
    undo::remove_replaced(folder);
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        if file.file_type().is_ok_and(|kind| kind.is_file()) {
            fs::remove_file(file.path()).ok();
        }
    }
    // Fails if there is anything else in it.
    fs::remove_dir(folder).ok();
}

fn is_in_use(folder: &Path) -> bool {
    let lock = File::open(folder.join(LOCK));
    lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn make_folder(path: &Path, files: &[&str]) {
        fs::create_dir(path).unwrap();
        for file in files {
            fs::write(path.join(file), b"x").unwrap();
        }
    }

    #[test]
    fn only_folders_of_our_name_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let files = [LOCK, "model.safetensors", ".tmpAb1Cd2"];
        make_folder(&path(".gpt2-convert-Ab1Cd2.tmp"), &files);
        make_folder(&path(".gpt2-convert-zzzzzz.tmp"), &[]);
        let kept = [
            ".gpt2-convert-Ab1Cd.tmp",
            ".gpt2-convert-Ab1Cd23.tmp",
            ".gpt2-convert-Ab1C-2.tmp",
            ".gpt2-convert-Ab1Cd2",
            "gpt2-convert-Ab1Cd2.tmp",
        ];
        for name in kept {
            make_folder(&path(name), &files);
        }
        fs::write(path(".gpt2-convert-isfile.tmp"), b"x").unwrap();
        make_folder(&path(".gpt2-convert-nested.tmp"), &files);
        make_folder(&path(".gpt2-convert-nested.tmp/inner"), &["mine"]);

        remove_leftovers(dir.path());
        let mut expected = kept.map(str::to_owned).to_vec();
        expected.push(".gpt2-convert-isfile.tmp".into());
        expected.push(".gpt2-convert-nested.tmp".into());
        expected.sort();
        assert_eq!(names(dir.path()), expected);
        for name in kept {
            assert_eq!(names(&path(name)).len(), files.len(), "{name}");
        }
        let inner = path(".gpt2-convert-nested.tmp/inner");
        assert_eq!(names(&inner), ["mine"]);
    }

    #[test]
    fn a_folder_in_use_stays_until_its_owner_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = TemporaryFolder::create_in(dir.path()).unwrap();
        let entry = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap();
        assert!(is_temporary(&entry));

        remove_leftovers(dir.path());
        assert!(folder.path().join(LOCK).exists());
        drop(folder);
        assert!(names(dir.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;

        let dir = tempfile::tempdir().unwrap();
        let mine = dir.path().join("mine");
        make_folder(&mine, &["notes.txt"]);
        symlink(&mine, dir.path().join(".gpt2-convert-linked.tmp")).unwrap();
        remove_leftovers(dir.path());
        assert_eq!(names(&mine), ["notes.txt"]);
    }
}
