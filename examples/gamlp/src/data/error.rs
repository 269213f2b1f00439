use std::{io, path::PathBuf};
use thiserror::Error;

/// What can be wrong with a line.
#[derive(Debug, Error, PartialEq)]
pub enum LineFault {
    /// It has more or fewer fields than it must.
    #[error("it has {found} fields, but must have {expected}")]
    Fields {
        /// Number of fields found.
        found: usize,
        /// Number of fields expected.
        expected: usize,
    },
    /// A field is no integer.
    #[error("{text:?} is not an integer")]
    NotAnInteger {
        /// The field.
        text: String,
    },
    /// A field is no number.
    #[error("{text:?} is not a number")]
    NotANumber {
        /// The field.
        text: String,
    },
    /// A feature is NaN, or infinite in single precision.
    #[error("{text:?} in field {field} is not a finite number in single precision")]
    NotFinite {
        /// The field.
        text: String,
        /// Its position, from 1.
        field: usize,
    },
    /// There is no node of this number.
    #[error("there is no node {node}: the graph has {nodes} nodes, counted from 0")]
    NoSuchNode {
        /// The number found.
        node: i64,
        /// Number of nodes.
        nodes: usize,
    },
    /// An integer that no field holds.
    #[error("{text} is too large")]
    TooLarge {
        /// The field.
        text: String,
    },
    /// A label is no class.
    #[error("the label is {text}, but must be between 0 and {max} in a graph of {nodes} nodes")]
    NoSuchClass {
        /// The field.
        text: String,
        /// The largest class allowed.
        max: usize,
        /// Number of nodes.
        nodes: usize,
    },
    /// A number is outside its range.
    #[error("the {what} is {found}, but must be between 0 and {max}")]
    OutOfRange {
        /// What is counted.
        what: &'static str,
        /// The number found.
        found: i64,
        /// The largest number allowed.
        max: i64,
    },
    /// A node that is to be learned or judged has no label.
    #[error("node {node} has no label")]
    Unlabelled {
        /// The node.
        node: u32,
    },
    /// A node is in a split twice, or in two splits.
    #[error("node {node} is already part of the {split} split")]
    Repeated {
        /// The node.
        node: u32,
        /// The split that holds it.
        split: &'static str,
    },
    /// A class has a name already.
    #[error("class {class} has a name already")]
    NamedTwice {
        /// The class.
        class: usize,
    },
    /// A quoted field does not end with its quote.
    #[error("the quotes of {text:?} do not end where it ends")]
    Quotes {
        /// The field.
        text: String,
    },
    /// It is longer than any line of such a file.
    #[error("it is longer than {max} bytes")]
    TooLong {
        /// The largest length allowed.
        max: usize,
    },
}

/// Why a graph cannot be read.
#[derive(Debug, Error)]
pub enum DataError {
    /// A file is missing.
    #[error("there is no file {}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A folder is missing.
    #[error("there is no folder {}", path.display())]
    MissingFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The graph has no features.
    #[error(
        "there is no file {}; for a graph without features choose those made from the degree of a \
         node or from its number", path.display()
    )]
    NoFeatures {
        /// The file.
        path: PathBuf,
    },
    /// A file or folder cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is not gzip, is cut short or is damaged.
    #[error("{}, line {line}: the gzip stream is cut short or damaged: {source}", path.display())]
    Gzip {
        /// The file.
        path: PathBuf,
        /// The first line that could not be unpacked, from 1.
        line: u64,
        /// What the decoder says.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{}, line {line}: {fault}{}", path.display(), fault.hint(*line))]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        fault: LineFault,
    },
    /// A file has more or fewer lines than it must.
    #[error("{} has {found} lines, but must have {expected} ({reason})", path.display())]
    Lines {
        /// The file.
        path: PathBuf,
        /// Number of lines found.
        found: u64,
        /// Number of lines expected.
        expected: u64,
        /// What says so.
        reason: &'static str,
    },
    /// A class is not among those that have names.
    #[error("{} has no line for class {class} after its header line, but must name all {classes} classes", path.display())]
    NoName {
        /// The file.
        path: PathBuf,
        /// The first class without a line.
        class: usize,
        /// Number of classes of the graph.
        classes: usize,
    },
    /// There are several files of names.
    #[error("{} must hold one file labelidx2*.csv.gz, but holds {}", path.display(), found.join(", "))]
    SeveralNames {
        /// The folder.
        path: PathBuf,
        /// The files found.
        found: Vec<String>,
    },
    /// A split holds no node.
    #[error("the split {} is empty", path.display())]
    EmptySplit {
        /// The file.
        path: PathBuf,
    },
    /// There are several splits, or none.
    #[error(
        "{} must hold the folder of one split, but holds {}", path.display(),
        if found.is_empty() { "none".into() } else { found.join(", ") + "; choose one with --split" }
    )]
    WhichSplit {
        /// The folder.
        path: PathBuf,
        /// The splits found.
        found: Vec<String>,
    },
    /// The split is stored as a pickled object.
    #[error(
        "{} takes the place of the split in .csv.gz files, but only those are read; write them, \
         and remove it", path.display()
    )]
    PickledSplit {
        /// The file.
        path: PathBuf,
    },
    /// One-hot features of so many nodes do not fit.
    #[error(
        "one-hot features of {nodes} nodes are {nodes} x {nodes} numbers; at most {max} nodes can \
         have them"
    )]
    OneHot {
        /// Number of nodes.
        nodes: usize,
        /// The largest number of nodes allowed.
        max: usize,
    },
}

impl LineFault {
    /// What may be the reason, given where it is.
    fn hint(&self, line: u64) -> &'static str {
        let word =
            |text: &str| text.starts_with(|c: char| c.is_alphabetic() || "\"'#_".contains(c));
        match self {
            Self::NotAnInteger { text } | Self::NotANumber { text } if line == 1 && word(text) => {
                "; these files have no header line"
            }
            _ => "",
        }
    }
}

impl DataError {
    /// If a node or a class is one that the graph does not have by its counts.
    pub(super) fn is_out_of_range(&self) -> bool {
        let Self::Line { fault, .. } = self else {
            return false;
        };
        matches!(
            fault,
            LineFault::NoSuchNode { .. } | LineFault::NoSuchClass { .. }
        )
    }

    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { path },
            _ => Self::Read { path, source },
        }
    }

    pub(super) fn read_folder(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::NotFound => Self::MissingFolder { path },
            _ => Self::Read { path, source },
        }
    }
}
