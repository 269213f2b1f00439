use super::{
    WeightFileError,
    temporary_folder::{TemporaryFolder, is_temporary, remove_leftovers},
};
use crate::error::without_path;
use std::{
    fs::{self, File},
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
    files: Vec<(PathBuf, PathBuf)>,
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
/// What killed commands left in it is no content.
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
    let mut content = entries.filter(|entry| !entry.as_ref().is_ok_and(is_temporary));
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
            files: Vec::new(),
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
        self.files.push((path, target));
        Ok(())
    }

    /// Gives all files their names, in the order in which they were added.
    pub fn commit(self) -> Result<(), WeightFileError> {
        for (path, target) in &self.files {
            fs::rename(path, target).map_err(WeightFileError::io("write", target))?;
        }
        // The names are on disk only when the folder is; not every file system can be asked for that.
        #[cfg(unix)]
        File::open(&self.dir).and_then(|dir| dir.sync_all()).ok();
        Ok(())
    }
}
