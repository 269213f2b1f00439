use super::HeaderFault;
use example_support::counted;
use safetensors::Dtype;
use snack_burn::prelude::SparseError;
use std::{
    io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Why the weights of a model cannot be read from or written to files.
#[derive(Debug, Error)]
pub enum WeightFileError {
    /// A file or folder cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// There is no file with weights.
    #[error("there are no weights in {}: it has none of {looked_for}{hint}", dir.display())]
    NoWeights {
        /// The folder.
        dir: PathBuf,
        /// The names that were looked for.
        looked_for: String,
        /// What is there instead.
        hint: String,
    },

    /// Several files could be meant.
    #[error("{} holds {found}; name the one to read instead of the folder", dir.display())]
    Ambiguous {
        /// The folder.
        dir: PathBuf,
        /// The files.
        found: String,
    },

    /// The file is not a safetensors file that can be used.
    #[error("{} is damaged or no safetensors file: {fault}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: HeaderFault,
    },

    /// The file has the sparse layout of another version.
    #[error("{} has version {found} of the sparse layout, but must have {allowed}", path.display())]
    LayoutVersion {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: String,
        /// The version that is read.
        allowed: &'static str,
    },

    /// A JSON file is not what its name says.
    #[error("{} cannot be used: {reason}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },

    /// `config.json` asks for something that this model does not have.
    #[error("{}: {key} is {found}, but must be {allowed}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// Its value, or `missing`.
        found: String,
        /// What is allowed.
        allowed: String,
    },

    /// Tensors that the model needs are in no file.
    #[error("{} lacks {} of the model's tensors: {}", path.display(), names.len(), listed(names))]
    Missing {
        /// The file, or the index of several.
        path: PathBuf,
        /// Names without the prefix `transformer.`.
        names: Vec<String>,
    },

    /// A tensor occurs twice.
    #[error("the tensor {name} occurs twice: in {} and in {}", first.display(), second.display())]
    Repeated {
        /// Name without the prefix `transformer.`.
        name: String,
        /// The file where it was found first.
        first: PathBuf,
        /// The file where it was found again.
        second: PathBuf,
    },

    /// A tensor has another shape.
    #[error("{}: the tensor {name} has shape {found:?}, but must have {expected:?}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape that `config.json` implies.
        expected: Vec<usize>,
    },

    /// A sparse matrix says of itself that it has another shape.
    #[error("{}: the matrix {name} has shape {found:?}, but must have {expected:?}", path.display())]
    SparseShape {
        /// The file.
        path: PathBuf,
        /// The matrix.
        name: String,
        /// Its shape, of which a number may be negative.
        found: Vec<i32>,
        /// The shape that `config.json` implies.
        expected: [usize; 2],
    },

    /// A tensor has numbers of a type that it cannot have.
    #[error("{}: the tensor {name} has type {found:?}, but must have {allowed}", path.display())]
    DataType {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type.
        found: Dtype,
        /// The types that are allowed.
        allowed: &'static str,
    },

    /// The output head is not the token embedding.
    #[error(
        "{}: lm_head.weight differs from wte.weight {differences}, but this model has one tensor \
         for both", path.display()
    )]
    UntiedHead {
        /// The file.
        path: PathBuf,
        /// How many elements differ.
        differences: String,
    },

    /// The coordinates of a sparse matrix break an invariant.
    #[error("{}: the coordinates of {name} are invalid: {source}", path.display())]
    Coordinates {
        /// The file.
        path: PathBuf,
        /// The matrix.
        name: String,
        /// The first broken invariant.
        source: SparseError,
    },

    /// The output folder holds files.
    #[error(
        "the folder {} is not empty; use --overwrite to replace the weights in it, or choose \
         another folder", dir.display()
    )]
    FolderNotEmpty {
        /// The folder.
        dir: PathBuf,
    },

    /// A name cannot be given to a file, and the old files cannot get theirs back.
    #[error(
        "cannot write {}: {reason}; the files that were there are now in {}, because they cannot be moved \
         back: {source}", path.display(), kept.display()
    )]
    NotRestored {
        /// The file.
        path: PathBuf,
        /// Why it cannot be written.
        reason: io::Error,
        /// The folder with the old files.
        kept: PathBuf,
        /// Why they cannot be moved back.
        source: io::Error,
    },

    /// Finite weights would become infinite.
    #[error(
        "{} of {name} {} too large for {dtype} and would become infinite; choose bf16 or f32",
        counted(*count, "weight"), if *count == 1 { "is" } else { "are" }
    )]
    Overflow {
        /// The first tensor with such weights.
        name: String,
        /// How many it has.
        count: usize,
        /// The type that was asked for.
        dtype: &'static str,
    },

    /// The file cannot be assembled.
    #[error("cannot write {}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl WeightFileError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

/// The first names of a list, and how many more there are.
pub(crate) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
