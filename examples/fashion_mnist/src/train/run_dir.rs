use crate::{EpochRecord, FashionError, Method, Results, RunResult};
use snack_burn::report::{TopologyLog, plot};
use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

const RESULTS: &str = "results.json";
const EPOCHS: &str = "epochs.csv";

/// The folder in which a command leaves what it measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Creates the next free `PREFIX-001`, `PREFIX-002`, ... in `parent`.
    ///
    /// # Errors
    ///
    /// [`FashionError::Io`] if the folder cannot be created.
    pub fn create_numbered(parent: &Path, prefix: &str) -> Result<Self, FashionError> {
        fs::create_dir_all(parent).map_err(FashionError::io("create the folder", parent))?;
        for number in 1_u32.. {
            let path = parent.join(format!("{prefix}-{number:03}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(FashionError::io("create the folder", path)(error)),
            }
        }
        unreachable!("there are fewer folders than numbers")
    }

    /// Creates a folder, or takes one without results.
    ///
    /// # Errors
    ///
    /// Those of [`check_free`](Self::check_free); [`FashionError::Io`] if it cannot be created.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, FashionError> {
        Self::check_free(path, overwrite)?;
        fs::create_dir_all(path).map_err(FashionError::io("create the folder", path))?;
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Checks that results may go to this folder; changes nothing.
    ///
    /// # Errors
    ///
    /// [`FashionError::FolderInUse`] if it holds results that `overwrite` does not allow to replace.
    pub fn check_free(path: &Path, overwrite: bool) -> Result<(), FashionError> {
        let used = [RESULTS, EPOCHS]
            .iter()
            .any(|name| path.join(name).exists());
        match used && !overwrite {
            true => Err(FashionError::FolderInUse {
                dir: path.to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of one run, created if absent.
    ///
    /// # Errors
    ///
    /// [`FashionError::Io`] if it cannot be created.
    pub fn run(&self, name: &str) -> Result<PathBuf, FashionError> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(FashionError::io("create the folder", &path))?;
        Ok(path)
    }

    /// Starts the list of epochs.
    ///
    /// # Errors
    ///
    /// [`FashionError::Io`] if the file cannot be written.
    pub fn epochs(&self) -> Result<EpochWriter, FashionError> {
        let path = self.path.join(EPOCHS);
        let file = File::create(&path).map_err(FashionError::io("create", &path))?;
        let mut writer = EpochWriter { path, file };
        writer.line(
            "method,seed,epoch,step,train_loss,test_loss,test_accuracy,replaced,nnz,seconds",
        )?;
        Ok(writer)
    }

    /// Writes all results as JSON.
    ///
    /// # Errors
    ///
    /// [`FashionError::Io`] if the file cannot be written.
    pub fn write_results(&self, results: &Results) -> Result<(), FashionError> {
        let text = serde_json::to_string_pretty(results).expect("all keys are strings");
        write(self.path.join(RESULTS), &(text + "\n"))
    }

    /// Writes the topology of a run to its folder: all reports as CSV, and pictures of density, fan-in
    /// and loss.
    ///
    /// # Errors
    ///
    /// [`FashionError::Io`] if a file cannot be written.
    pub fn write_topology(
        folder: &Path,
        run: &RunResult,
        log: &TopologyLog,
    ) -> Result<(), FashionError> {
        write(folder.join("topology.csv"), &log.to_csv())?;
        let losses: Vec<_> = run.epochs.iter().map(|e| (e.step, e.train_loss)).collect();
        let updates: Vec<u64> = log
            .reports()
            .iter()
            .filter_map(|report| report.step)
            .collect();
        let updates: Vec<u64> = updates.into_iter().filter(|&step| step > 0).collect();
        let pictures = [
            ("density.svg", plot::density(log.reports())),
            ("loss.svg", plot::loss(&losses, &updates)),
        ];
        let fan_in = log
            .reports()
            .last()
            .map(|report| ("fan-in.svg", plot::fan_in(report)));
        for (name, picture) in pictures.into_iter().chain(fan_in) {
            // A run without a finite loss has no picture of it.
            if let Ok(picture) = picture {
                write(folder.join(name), &picture)?;
            }
        }
        Ok(())
    }
}

/// Writes `epochs.csv`, one line an epoch, each as soon as it is there.
#[derive(Debug)]
pub struct EpochWriter {
    path: PathBuf,
    file: File,
}

impl EpochWriter {
    /// Appends an epoch of a run.
    ///
    /// # Errors
    ///
    /// [`FashionError::Io`] if the file cannot be written.
    pub fn write(
        &mut self,
        method: Method,
        seed: u64,
        epoch: &EpochRecord,
    ) -> Result<(), FashionError> {
        self.line(&format!(
            "{method},{seed},{},{},{},{},{},{},{},{}",
            epoch.epoch,
            epoch.step,
            epoch.train_loss,
            epoch.test_loss,
            epoch.test_accuracy,
            epoch.replaced,
            epoch.nnz,
            epoch.seconds
        ))
    }

    fn line(&mut self, text: &str) -> Result<(), FashionError> {
        writeln!(self.file, "{text}").map_err(FashionError::io("write", &self.path))
    }
}

fn write(path: PathBuf, text: &str) -> Result<(), FashionError> {
    fs::write(&path, text).map_err(FashionError::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_up() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().join("runs");
        for number in ["x-001", "x-002"] {
            let dir = RunDir::create_numbered(&parent, "x").unwrap();
            assert!(dir.path().ends_with(number));
        }
    }

    #[test]
    fn results_are_replaced_only_when_asked() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("notes.txt"), "mine").unwrap();
        assert!(RunDir::create(dir.path(), false).is_ok());
        fs::write(dir.path().join(RESULTS), "old").unwrap();
        let message = RunDir::create(dir.path(), false).unwrap_err().to_string();
        assert!(
            message.contains("already holds results; add --overwrite"),
            "{message}"
        );
        assert!(RunDir::create(dir.path(), true).is_ok());
    }
}
