use crate::{EpochRecord, FashionError, Method, Results, RunResult};
use clap::ValueEnum;
use snack_burn::report::{TopologyLog, plot};
use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

const RESULTS: &str = "results.json";
const EPOCHS: &str = "epochs.csv";
const TOPOLOGY: &str = "topology.csv";
const PICTURES: [&str; 3] = ["density.svg", "fan-in.svg", "loss.svg"];
/// The folder of Burn's `Learner` in that of a run.
pub(super) const LEARNER: &str = "learner";

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

    /// Creates a folder, or takes one without results. With `overwrite` those of an earlier command
    /// are removed: the files that this program writes, nothing else.
    ///
    /// # Errors
    ///
    /// Those of [`check_free`](Self::check_free); [`FashionError::Io`] if it cannot be created, or a
    /// file cannot be removed.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, FashionError> {
        Self::check_free(path, overwrite)?;
        if overwrite {
            remove_results(path)?;
        }
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
        let file = Arc::new(file);
        let writer = EpochWriter { path, file };
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
        write(folder.join(TOPOLOGY), &log.to_csv())?;
        let losses: Vec<_> = run.epochs.iter().map(|e| (e.step, e.train_loss)).collect();
        let updates: Vec<u64> = log
            .reports()
            .iter()
            .filter_map(|report| report.step)
            .collect();
        let updates: Vec<u64> = updates.into_iter().filter(|&step| step > 0).collect();
        let last = losses.last().map_or(0, |&(step, _)| step);
        let [density, fan_in, loss] = PICTURES;
        let pictures = [
            (density, plot::density_to(log.reports(), last)),
            (loss, plot::loss(&losses, &updates)),
        ];
        let last = log.reports().last();
        let last = last.map(|report| (fan_in, plot::fan_in(report)));
        for (name, picture) in pictures.into_iter().chain(last) {
            // A run without a finite loss has no picture of it.
            if let Ok(picture) = picture {
                write(folder.join(name), &picture)?;
            }
        }
        Ok(())
    }
}

/// Writes `epochs.csv`, one line an epoch, each as soon as it is there.
///
/// Clones write to the same file.
#[derive(Debug, Clone)]
pub struct EpochWriter {
    path: PathBuf,
    file: Arc<File>,
}

impl EpochWriter {
    /// Appends an epoch of a run.
    ///
    /// # Errors
    ///
    /// [`FashionError::Io`] if the file cannot be written.
    pub fn write(
        &self,
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

    fn line(&self, text: &str) -> Result<(), FashionError> {
        // At once, so that a line is whole whenever the program ends.
        let text = format!("{text}\n");
        let mut file = &*self.file;
        file.write_all(text.as_bytes())
            .map_err(FashionError::io("write", &self.path))
    }
}

/// Replaces a file by a whole one, or leaves it as it was: a new file beside it is written to the
/// disk, and takes its name.
fn write(path: PathBuf, text: &str) -> Result<(), FashionError> {
    let mut new = path.clone().into_os_string();
    new.push(".new");
    let new = PathBuf::from(new);
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&new, &path));
    replaced.map_err(|source| {
        let _ = fs::remove_file(&new);
        FashionError::io("write", path)(source)
    })
}

/// Removes what earlier commands have left in a folder: the results first, which else would seem to
/// belong to the new runs.
fn remove_results(dir: &Path) -> Result<(), FashionError> {
    let files = [RESULTS, EPOCHS].map(|name| dir.join(name));
    files.iter().try_for_each(|path| remove_file(path))?;
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(FashionError::io("read the folder", dir)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(FashionError::io("read the folder", dir))?;
        // Links are left alone.
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        if is_dir && name.to_str().is_some_and(is_run) {
            remove_run(&entry.path())?;
        }
    }
    Ok(())
}

/// Whether a folder has the name of a run, `METHOD-SEED`.
fn is_run(name: &str) -> bool {
    let run = name.rsplit_once('-');
    run.is_some_and(|(method, seed)| {
        let is_method = Method::value_variants()
            .iter()
            .any(|m| m.to_string() == method);
        is_method
            && seed
                .parse::<u64>()
                .is_ok_and(|number| number.to_string() == seed)
    })
}

/// Removes the files of a run, and its folder unless something else is in it.
fn remove_run(folder: &Path) -> Result<(), FashionError> {
    for name in [TOPOLOGY].iter().chain(&PICTURES) {
        remove_file(&folder.join(name))?;
    }
    let learner = folder.join(LEARNER);
    if fs::symlink_metadata(&learner).is_ok_and(|found| found.is_dir()) {
        fs::remove_dir_all(&learner).map_err(FashionError::io("remove", &learner))?;
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => {
            Err(FashionError::io("remove", folder)(error))
        }
        _ => Ok(()),
    }
}

/// Removes a file that may not be there, and what an interrupted [`write`] has left of it.
fn remove_file(path: &Path) -> Result<(), FashionError> {
    let mut new = path.to_path_buf().into_os_string();
    new.push(".new");
    for path in [path, Path::new(&new)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(FashionError::io("remove", path)(error));
            }
            _ => {}
        }
    }
    Ok(())
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

    #[test]
    fn only_the_files_of_earlier_runs_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "old").unwrap();
        };
        let ours = [
            RESULTS,
            "results.json.new",
            EPOCHS,
            "set-0/topology.csv",
            "set-0/density.svg",
            "set-0/learner/train/epoch-1/Loss.log",
            "rigl-itop-17/loss.svg",
        ];
        let theirs = [
            "notes.txt",
            "set-x/topology.csv",
            "set-007/topology.csv",
            "mine-0/topology.csv",
            "static-0/notes.txt",
            "set-1/data/topology.csv",
        ];
        ours.iter().chain(&theirs).for_each(|name| put(name));
        put("static-0/topology.csv");
        RunDir::create(dir.path(), true).unwrap();
        for name in ours {
            assert!(!dir.path().join(name).exists(), "{name}");
        }
        for name in theirs {
            assert!(dir.path().join(name).exists(), "{name}");
        }
        for folder in ["set-0", "rigl-itop-17", "static-0/topology.csv"] {
            assert!(!dir.path().join(folder).exists(), "{folder}");
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.json");
        write(path.clone(), "one").unwrap();
        write(path.clone(), "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        // The new file cannot be made: the old one stays.
        fs::create_dir(dir.path().join("results.json.new")).unwrap();
        assert!(write(path.clone(), "three").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
