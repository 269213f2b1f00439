use std::{
    fs::{self, DirEntry, OpenOptions, TryLockError},
    io,
    path::Path,
    time::Duration,
};
use tempfile::{Builder, NamedTempFile};

/// Age below which a temporary file is left alone, because whoever makes it may not have locked it yet.
const FRESH: Duration = Duration::from_secs(5);
/// Age above which a temporary file is left over where the file system knows no locks.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// A file that goes unless it is given another name in the same folder.
///
/// It is locked, so that [`remove_leftovers`] knows that somebody is at work on it.
pub(crate) fn temporary_file(
    folder: &Path,
    prefix: &str,
    suffix: &str,
) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    builder.prefix(prefix).suffix(suffix);
    // As other programs create files, not readable by the owner alone.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.tempfile_in(folder)?;
    // Where there are no locks, its age has to do.
    file.as_file().try_lock().ok();
    Ok(file)
}

/// Removes the temporary files of runs that were killed, whose names start and end so, as far as that is
/// possible.
pub(crate) fn remove_leftovers(folder: &Path, (start, end): (&str, &str)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(start) && name.ends_with(end) && is_left_over(&entry) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn is_left_over(entry: &DirEntry) -> bool {
    let changed = entry.metadata().and_then(|metadata| metadata.modified());
    let Some(age) = changed.ok().and_then(|time| time.elapsed().ok()) else {
        return false;
    };
    if age < FRESH {
        return false;
    }
    let lock = OpenOptions::new()
        .write(true)
        .open(entry.path())
        .map_err(TryLockError::Error)
        .and_then(|file| file.try_lock());
    match lock {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(_)) => age > OLD,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, time::SystemTime};

    const NAMES: (&str, &str) = ("part-", ".tmp");

    fn age(file: &File, age: Duration) {
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    #[test]
    fn only_files_that_nobody_works_on_go() {
        let dir = tempfile::tempdir().unwrap();
        let at_work = temporary_file(dir.path(), NAMES.0, NAMES.1).unwrap();
        age(at_work.as_file(), 2 * OLD);
        let left = |name: &str, old: Duration| {
            let path = dir.path().join(name);
            age(&File::create(&path).unwrap(), old);
            path
        };
        let killed = left("part-killed.tmp", 2 * FRESH);
        let fresh = left("part-fresh.tmp", Duration::ZERO);
        let foreign = left("notes.tmp", 2 * OLD);
        let finished = left("part-1.csv", 2 * OLD);

        remove_leftovers(dir.path(), NAMES);
        assert!(!killed.exists());
        assert!(fresh.exists() && foreign.exists() && finished.exists());
        assert!(at_work.path().exists());
    }

    #[test]
    fn a_file_with_its_final_name_is_not_locked_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("part-1.csv");
        let temporary = temporary_file(dir.path(), NAMES.0, NAMES.1).unwrap();
        drop(temporary.persist(&path).unwrap());
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .try_lock()
            .unwrap();
    }
}
