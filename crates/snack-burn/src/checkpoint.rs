//! A training run in one file.

use std::path::{Path, PathBuf};

use burn::optim::OptimizerRecord;
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::{Bytes, DType};
use burn_pack::{Reader, Scalar, Tensor, Writer};

use crate::dst::DstState;

/// Version of the layout that this library writes and reads.
const VERSION: u32 = 3;
const KIND: &str = "snack-burn checkpoint";

const MODEL: &str = "model";
const OPTIMIZER: &str = "optimizer";
const DST: &str = "dst";
const USER: &str = "user";

/// Model, optimizer and topology updater of a training run, and the caller's own state.
///
/// The optimizer's state loads into an optimizer of the same kind and with the same groups only:
/// another kind would silently begin with fresh states for what it does not find.
///
/// Stored as one burnpack container whose tensors `model`, `optimizer`, `dst` and `user` are byte
/// strings: three nested burnpack containers and a JSON text. Every section carries a checksum.
pub struct Checkpoint {
    /// The model, from [`Module::into_record`](burn::module::Module::into_record); load it with
    /// [`SparseModule::try_load_sparse_record`](crate::nn::SparseModule::try_load_sparse_record).
    pub model: ModuleRecord,
    /// The optimizer, from [`ModuleOptimizer::to_record`](burn::optim::ModuleOptimizer::to_record).
    pub optimizer: OptimizerRecord,
    /// The topology updater, from [`Dst::state`](crate::dst::Dst::state).
    pub dst: DstState,
    /// Whatever else the run needs to continue.
    pub user: serde_json::Value,
}

/// Why a checkpoint cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file cannot be written.
    #[error("cannot write checkpoint `{path}`: {reason}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// The file cannot be read.
    #[error("cannot read checkpoint `{path}`: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// The file is readable but not a checkpoint of this library.
    #[error("`{path}` is not a {KIND}: {reason}")]
    NotACheckpoint {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The file was written by another version of the library.
    #[error("checkpoint `{path}` has version {found}, this library reads version {VERSION}")]
    Version {
        /// The file.
        path: PathBuf,
        /// Version in the file.
        found: u64,
    },
    /// A section's bytes changed after it was written.
    #[error("checkpoint `{path}` is damaged: the checksum of its section `{section}` differs")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The section.
        section: &'static str,
    },
}

impl Checkpoint {
    /// Writes the file whole or not at all: to a temporary file beside it, then by renaming. The
    /// path is taken as it is, without adding an extension.
    ///
    /// # Errors
    ///
    /// Returns an error if a part cannot be serialized or the file cannot be written; an existing
    /// checkpoint is then untouched.
    pub fn save(self, path: impl AsRef<Path>) -> Result<(), CheckpointError> {
        let path = path.as_ref();
        let failed = |reason: String| CheckpointError::Write {
            path: path.to_path_buf(),
            reason,
        };
        let record = |error: RecordError| failed(error.to_string());
        let sections = [
            (MODEL, self.model.into_bytes().map_err(record)?),
            (OPTIMIZER, self.optimizer.into_bytes().map_err(record)?),
            (
                DST,
                self.dst
                    .to_bytes()
                    .map_err(|error| failed(error.to_string()))?,
            ),
            (USER, json(&self.user).map_err(failed)?),
        ];
        let sums: Vec<_> = sections
            .iter()
            .map(|(name, bytes)| (*name, checksum(bytes)))
            .collect();
        let tensors = sections.map(|(name, bytes)| {
            let length = bytes.len();
            Tensor::new(name.to_string(), DType::U8, [length], None, bytes)
        });
        let mut writer = Writer::new(tensors.into())
            .auto_extension(false)
            .with_metadata("kind", KIND)
            .with_scalar("version", Scalar::from(u64::from(VERSION)));
        for (name, sum) in sums {
            writer = writer.with_scalar(&format!("{name}.crc32"), Scalar::from(sum));
        }
        writer
            .write_to_file(path)
            .map_err(|error| failed(error.to_string()))
    }

    /// Reads a file that [`save`](Checkpoint::save) wrote.
    ///
    /// # Errors
    ///
    /// Returns an error that names the file and the fault if it does not exist, is truncated or
    /// damaged, is not a checkpoint, or has another version.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let path = path.as_ref();
        let failed = |reason: String| CheckpointError::Read {
            path: path.to_path_buf(),
            reason,
        };
        let reader =
            Reader::from_file_exact(path).map_err(|error| match std::fs::metadata(path) {
                Ok(file) if file.is_file() => failed(format!(
                    "it is empty, truncated or no burnpack container ({} bytes): {error}",
                    file.len()
                )),
                _ => failed(error.to_string()),
            })?;
        if reader.metadata().get("kind").map(String::as_str) != Some(KIND) {
            return Err(not_a_checkpoint(path, "it does not say so"));
        }
        let scalar = |name: &str| {
            let scalar = reader.scalars().get(name).copied();
            scalar
                .and_then(|scalar| u64::try_from(scalar).ok())
                .ok_or_else(|| not_a_checkpoint(path, &format!("it has no `{name}`")))
        };
        let version = scalar("version")?;
        if version != u64::from(VERSION) {
            return Err(CheckpointError::Version {
                path: path.to_path_buf(),
                found: version,
            });
        }
        let section = |name: &'static str| {
            let bytes = reader
                .tensor_data(name)
                .map_err(|error| not_a_checkpoint(path, &error.to_string()))?;
            match scalar(&format!("{name}.crc32"))? == checksum(&bytes) {
                true => Ok(bytes),
                false => Err(CheckpointError::Damaged {
                    path: path.to_path_buf(),
                    section: name,
                }),
            }
        };
        let record = |error: RecordError| failed(error.to_string());
        let model = Bytes::from_bytes_vec(section(MODEL)?);
        let optimizer = Bytes::from_bytes_vec(section(OPTIMIZER)?);
        Ok(Self {
            model: ModuleRecord::from_bytes(model).map_err(record)?,
            optimizer: OptimizerRecord::from_bytes(optimizer).map_err(record)?,
            dst: DstState::from_bytes(Bytes::from_bytes_vec(section(DST)?))
                .map_err(|error| not_a_checkpoint(path, &error.to_string()))?,
            user: serde_json::from_slice(&section(USER)?)
                .map_err(|error| not_a_checkpoint(path, &error.to_string()))?,
        })
    }
}

impl core::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Checkpoint")
            .field("model", &self.model)
            .field("optimizer", &self.optimizer)
            .field("dst", &self.dst)
            .field("user", &self.user)
            .finish()
    }
}

fn json(value: &impl serde::Serialize) -> Result<Bytes, String> {
    let text = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    Ok(Bytes::from_bytes_vec(text))
}

fn checksum(bytes: &[u8]) -> u64 {
    u64::from(crc32fast::hash(bytes))
}

fn not_a_checkpoint(path: &Path, reason: &str) -> CheckpointError {
    CheckpointError::NotACheckpoint {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
}
