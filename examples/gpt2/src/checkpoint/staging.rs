use super::{
    WeightFileError,
    temporary_folder::{TemporaryFolder, is_temporary, remove_leftovers, restore},
    undo,
};
use crate::error::without_path;
use std::{
    fs::{self, DirEntry, File},
    path::{Path, PathBuf},
};

/// New files of a folder, complete and on disk in a temporary folder inside it until all of them are.
///
/// Dropped without [`commit`](Self::commit), it leaves the folder as it was.
#[derive(Debug)]
pub(crate) struct Staging {
    dir: PathBuf,
    temporary: TemporaryFolder,
    /// Dropped after the temporary folder inside it.
    _created: Option<CreatedFolder>,
    names: Vec<String>,
}

/// A folder that was made for new files and goes again if it stays empty.
#[derive(Debug)]
struct CreatedFolder(PathBuf);

impl Drop for CreatedFolder {
    fn drop(&mut self) {
        // Fails if there is anything in it, which then stays.
        fs::remove_dir(&self.0).ok();
    }
}

/// Checks that weights may be written to `dir`; changes nothing.
///
/// What killed commands left in it is no content, unless old files wait there to be restored.
///
/// # Errors
///
/// [`WeightFileError::FolderNotEmpty`] if it is a folder with content and `overwrite` is not set;
/// [`WeightFileError::Io`] if it is a file or cannot be read.
pub fn check_output_folder(dir: &Path, overwrite: bool) -> Result<(), WeightFileError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(WeightFileError::io("use the folder", dir)(error)),
    };
    let unused = |entry: &DirEntry| is_temporary(entry) && !undo::is_open(&entry.path());
    let mut content = entries.filter(|entry| !entry.as_ref().is_ok_and(unused));
    match content.next().is_some() && !overwrite {
        true => Err(WeightFileError::FolderNotEmpty {
            dir: dir.to_owned(),
        }),
        false => Ok(()),
    }
}

impl Staging {
    /// Prepares new files for a folder, which is created if need be and freed of what killed commands
    /// left in it.
    pub fn new(dir: &Path, overwrite: bool) -> Result<Self, WeightFileError> {
        check_output_folder(dir, overwrite)?;
        restore(dir)?;
        let is_new = !dir.exists();
        fs::create_dir_all(dir).map_err(WeightFileError::io("create the folder", dir))?;
        let created = is_new.then(|| CreatedFolder(dir.to_owned()));
        remove_leftovers(dir);
        let temporary = TemporaryFolder::create_in(dir).map_err(|error| {
            WeightFileError::io("write to the folder", dir)(without_path(error))
        })?;
        Ok(Self {
            dir: dir.to_owned(),
            temporary,
            _created: created,
            names: Vec::new(),
        })
    }

    /// Writes one file with `write`, which gets a path that exists and may be replaced, and the path that
    /// the file will have.
    pub fn add(
        &mut self,
        name: &str,
        write: impl FnOnce(&Path, &Path) -> Result<(), WeightFileError>,
    ) -> Result<(), WeightFileError> {
        let target = self.dir.join(name);
        let failed = |error| WeightFileError::io("write", &target)(error);
        let path = self.temporary.path().join(name);
        let file = File::create_new(&path).map_err(failed)?;
        // As other programs create files, even if `write` puts one in its place that others cannot read.
        let permissions = file.metadata().map_err(failed)?.permissions();
        drop(file);

        write(&path, &target)?;
        fs::set_permissions(&path, permissions).map_err(failed)?;
        let file = File::options().write(true).open(&path).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Gives all files their names and removes those with the names `stale`, or changes nothing.
    ///
    /// # Errors
    ///
    /// [`WeightFileError::Io`] if a name cannot be given or taken; [`WeightFileError::NotRestored`] if after
    /// that the old files cannot get theirs back.
    pub fn commit(self, stale: &[&str]) -> Result<(), WeightFileError> {
        // Dropped in the opposite order.
        let Self {
            _created,
            dir,
            temporary,
            names,
        } = self;
        let Err(fault) = undo::exchange(&dir, temporary.path(), &names, stale) else {
            return Ok(());
        };
        let path = dir.join(&fault.name);
        match fault.not_undone {
            None => Err(WeightFileError::io("write", &path)(fault.source)),
            Some(source) => Err(WeightFileError::NotRestored {
                path,
                reason: fault.source,
                kept: temporary.keep(),
                source,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const STALE: [&str; 1] = ["stale"];

    /// A folder with files of other content than the new ones.
    fn old_folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in ["weights", "config.json", "stale", "notes.txt"] {
            fs::write(dir.path().join(name), format!("old {name}")).unwrap();
        }
        dir
    }

    fn staged(dir: &Path) -> Staging {
        let mut staging = Staging::new(dir, true).unwrap();
        for name in ["weights", "tokenizer.json", "config.json"] {
            let write = |path: &Path, _: &Path| {
                fs::write(path, format!("new {name}")).unwrap();
                Ok(())
            };
            staging.add(name, write).unwrap();
        }
        staging
    }

    fn contents(dir: &Path) -> BTreeMap<String, String> {
        let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
        entries
            .map(|entry| {
                let text = match entry.file_type().unwrap().is_dir() {
                    true => format!("{:?}", contents(&entry.path())),
                    false => fs::read_to_string(entry.path()).unwrap(),
                };
                (entry.file_name().into_string().unwrap(), text)
            })
            .collect()
    }

    #[test]
    fn new_files_replace_old_ones_and_stale_ones_go() {
        let dir = old_folder();
        staged(dir.path()).commit(&STALE).unwrap();
        let found: Vec<_> = contents(dir.path()).into_iter().collect();
        let found: Vec<_> = found
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        let expected = [
            ("config.json", "new config.json"),
            ("notes.txt", "old notes.txt"),
            ("tokenizer.json", "new tokenizer.json"),
            ("weights", "new weights"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_name_that_cannot_be_given_leaves_the_old_files() {
        for name in ["config.json", "stale"] {
            let dir = old_folder();
            let taken = dir.path().join(name);
            fs::remove_file(&taken).unwrap();
            fs::create_dir(&taken).unwrap();
            fs::write(taken.join("inside"), "mine").unwrap();
            let before = contents(dir.path());

            let error = staged(dir.path()).commit(&STALE).unwrap_err();
            let expected = format!("cannot write {}: is a directory", taken.display());
            assert_eq!(error.to_string(), expected);
            assert_eq!(contents(dir.path()), before);
        }
    }

    #[test]
    fn a_rename_that_fails_is_undone_with_all_before_it() {
        let dir = old_folder();
        let before = contents(dir.path());
        let staging = staged(dir.path());
        fs::remove_file(staging.temporary.path().join("config.json")).unwrap();

        let error = staging.commit(&STALE).unwrap_err().to_string();
        assert!(error.contains("config.json: "), "{error}");
        assert_eq!(contents(dir.path()), before);
    }

    /// Leaves a folder as a process does that is killed after `moved` of the renames of a commit.
    fn killed_after(dir: &Path, moved: usize) {
        let staging = staged(dir);
        let journal = |part: &str| staging.temporary.path().join("undo").join(part);
        fs::create_dir_all(journal("old")).unwrap();
        fs::create_dir_all(journal("absent")).unwrap();
        let aside = ["weights", "config.json", "stale"];
        let aside = aside.map(|name| (dir.join(name), journal("old").join(name)));
        fs::write(journal("absent").join("tokenizer.json"), "").unwrap();
        let new = ["weights", "tokenizer.json", "config.json"];
        let new = new.map(|name| (staging.temporary.path().join(name), dir.join(name)));
        for (from, to) in aside.into_iter().chain(new).take(moved) {
            fs::rename(from, to).unwrap();
        }
        staging.temporary.keep();
    }

    #[test]
    fn what_a_killed_process_began_is_undone() {
        for moved in 0..=6 {
            let dir = old_folder();
            let before = contents(dir.path());
            killed_after(dir.path(), moved);
            assert_ne!(contents(dir.path()), before);
            if moved == 3 {
                // Old files that wait for their names are content.
                fs::remove_file(dir.path().join("notes.txt")).unwrap();
                assert!(check_output_folder(dir.path(), false).is_err());
                fs::write(dir.path().join("notes.txt"), "old notes.txt").unwrap();
            }
            restore(dir.path()).unwrap();
            assert_eq!(contents(dir.path()), before, "{moved} renames");

            killed_after(dir.path(), moved);
            let staging = staged(dir.path());
            let old = fs::read_to_string(dir.path().join("weights")).unwrap();
            assert_eq!(old, "old weights");
            staging.commit(&STALE).unwrap();
            assert_eq!(contents(dir.path()).len(), 4);
        }
    }

    #[test]
    fn what_a_process_has_ended_stays() {
        let dir = old_folder();
        killed_after(dir.path(), 6);
        let temporary = fs::read_dir(dir.path()).unwrap().map(Result::unwrap);
        let temporary = temporary.filter(is_temporary).last().unwrap().path();
        fs::rename(temporary.join("undo"), temporary.join("done")).unwrap();

        restore(dir.path()).unwrap();
        let staging = staged(dir.path());
        assert!(!temporary.exists());
        let new = fs::read_to_string(dir.path().join("weights")).unwrap();
        assert_eq!(new, "new weights");
        drop(staging);
    }
}
