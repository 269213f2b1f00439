use super::WeightFileError;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};
use tempfile::{Builder, TempPath};

/// New files of a folder, complete and on disk under temporary names until all of them are.
///
/// Dropped without [`commit`](Self::commit), it leaves the folder as it was.
#[derive(Debug)]
pub(crate) struct Staging {
    dir: PathBuf,
    /// Whether the folder was made for these files.
    created: bool,
    files: Vec<(TempPath, PathBuf)>,
}

/// Checks that weights may be written to `dir`; changes nothing.
///
/// # Errors
///
/// [`WeightFileError::FolderNotEmpty`] if it is a folder with content and `overwrite` is not set;
/// [`WeightFileError::Io`] if it is a file or cannot be read.
pub fn check_output_folder(dir: &Path, overwrite: bool) -> Result<(), WeightFileError> {
    let mut entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(WeightFileError::io("use the folder", dir)(error)),
    };
    match entries.next().is_some() && !overwrite {
        true => Err(WeightFileError::FolderNotEmpty {
            dir: dir.to_owned(),
        }),
        false => Ok(()),
    }
}

impl Staging {
    /// Prepares new files for a folder, which is created if need be.
    pub fn new(dir: &Path, overwrite: bool) -> Result<Self, WeightFileError> {
        check_output_folder(dir, overwrite)?;
        let created = !dir.exists();
        fs::create_dir_all(dir).map_err(WeightFileError::io("create the folder", dir))?;
        Ok(Self {
            dir: dir.to_owned(),
            created,
            files: Vec::new(),
        })
    }

    /// Writes one file with `write`, which gets a path that exists and may be replaced.
    pub fn add(
        &mut self,
        name: &str,
        write: impl FnOnce(&Path) -> Result<(), WeightFileError>,
    ) -> Result<(), WeightFileError> {
        let target = self.dir.join(name);
        let failed = |error| WeightFileError::io("write", &target)(error);
        let mut builder = Builder::new();
        builder.prefix(name).suffix(".tmp");
        // As other programs create files, not readable by the owner alone.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(&self.dir).map_err(failed)?;
        let permissions = file.as_file().metadata().map_err(failed)?.permissions();
        let path = file.into_temp_path();

        write(&path)?;
        fs::set_permissions(&path, permissions).map_err(failed)?;
        let file = File::options().write(true).open(&path).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        self.files.push((path, target));
        Ok(())
    }

    /// Gives all files their names, in the order in which they were added.
    pub fn commit(mut self) -> Result<(), WeightFileError> {
        for (path, target) in self.files.drain(..) {
            path.persist(&target)
                .map_err(|error| WeightFileError::io("write", &target)(error.error))?;
        }
        self.created = false;
        // The names are on disk only when the folder is; not every file system can be asked for that.
        #[cfg(unix)]
        File::open(&self.dir).and_then(|dir| dir.sync_all()).ok();
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.files.clear();
        if self.created {
            // Fails if there is anything in it, which then stays.
            fs::remove_dir(&self.dir).ok();
        }
    }
}
