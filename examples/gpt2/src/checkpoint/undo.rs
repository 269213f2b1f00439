//! New files of a folder that get their names all or none, even if the process is killed meanwhile.
//!
//! The files that they replace wait in `undo/old` of the temporary folder, and `undo/absent` has an empty file
//! for each name that nothing had. Renaming `undo` to `done` is the moment from which the new files count. A
//! temporary folder that still has `undo` is of a process that was killed before: what it did is undone.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

const UNDO: &str = "undo";
const DONE: &str = "done";
const OLD: &str = "old";
const ABSENT: &str = "absent";

/// What goes wrong with a name in the folder.
#[derive(Debug)]
pub(super) struct NameFault {
    /// The name, or nothing for the folder itself.
    pub name: String,
    /// The reason.
    pub source: io::Error,
    /// Why the files are not as they were, if they are not.
    pub not_undone: Option<io::Error>,
}

/// Gives the files `new` of the folder `temporary` their names in `dir`, and takes away what has the names
/// `stale` there. Everything is as it was if that fails, unless [`NameFault::not_undone`] says otherwise.
pub(super) fn exchange(
    dir: &Path,
    temporary: &Path,
    new: &[String],
    stale: &[&str],
) -> Result<(), NameFault> {
    let result = try_exchange(dir, temporary, new, stale);
    result.map_err(|(name, source)| NameFault {
        name,
        source,
        not_undone: undo(dir, temporary).err(),
    })
}

fn try_exchange(
    dir: &Path,
    temporary: &Path,
    new: &[String],
    stale: &[&str],
) -> Result<(), (String, io::Error)> {
    let of = |name: &str| {
        let name = name.to_owned();
        move |source| (name, source)
    };
    let journal = temporary.join(UNDO);
    let new = || new.iter().map(String::as_str);
    for name in new().chain(stale.iter().copied()) {
        // Would be moved like a file, and lost with the temporary folder.
        if fs::symlink_metadata(dir.join(name)).is_ok_and(|found| found.is_dir()) {
            return Err(of(name)(ErrorKind::IsADirectory.into()));
        }
    }
    for part in [OLD, ABSENT] {
        fs::create_dir_all(journal.join(part)).map_err(of(""))?;
    }
    for name in new().chain(stale.iter().copied()) {
        match fs::rename(dir.join(name), journal.join(OLD).join(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                File::create(journal.join(ABSENT).join(name)).map_err(of(name))?;
            }
            result => result.map_err(of(name))?,
        }
    }
    for name in new() {
        fs::rename(temporary.join(name), dir.join(name)).map_err(of(name))?;
    }
    // The names are on disk only when the folder is; not every file system can be asked for that.
    #[cfg(unix)]
    File::open(dir).and_then(|dir| dir.sync_all()).ok();
    fs::rename(&journal, temporary.join(DONE)).map_err(of(""))
}

/// Whether an exchange was begun in this temporary folder and not ended.
pub(super) fn is_open(temporary: &Path) -> bool {
    temporary.join(UNDO).exists()
}

/// Undoes an exchange that was not ended, if there is one, or the rest of one that was undone in part.
pub(super) fn undo(dir: &Path, temporary: &Path) -> io::Result<()> {
    let journal = temporary.join(UNDO);
    for absent in files(&journal.join(ABSENT))? {
        unless_missing(fs::remove_file(target(dir, &absent)))?;
    }
    for old in files(&journal.join(OLD))? {
        unless_missing(fs::rename(&old, target(dir, &old)))?;
    }
    unless_missing(fs::remove_dir_all(journal))
}

/// Removes the files that an exchange has replaced, as far as that is possible.
pub(super) fn remove_replaced(temporary: &Path) {
    fs::remove_dir_all(temporary.join(DONE)).ok();
}

fn target(dir: &Path, path: &Path) -> PathBuf {
    dir.join(path.file_name().unwrap_or_default())
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
