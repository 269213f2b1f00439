use super::error::listed;
use core::fmt;
use example_support::counted;
use std::path::PathBuf;

/// Something odd about weights that were loaded all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadWarning {
    /// Tensors that the model has no place for.
    Unused {
        /// Their names, in order.
        names: Vec<String>,
    },
    /// Weights that are infinite or not a number.
    NonFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// How many of its elements.
        count: usize,
        /// How many elements it has.
        total: usize,
    },
}

impl fmt::Display for LoadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused { names } => {
                let (have, are) = match names.len() {
                    1 => ("has", "is"),
                    _ => ("have", "are"),
                };
                write!(
                    f,
                    "{} {have} no place in the model and {are} left out: {}",
                    counted(names.len(), "tensor"),
                    listed(names)
                )
            }
            Self::NonFinite {
                path,
                name,
                count,
                total,
            } => write!(
                f,
                "{}: {count} of the {} of {name} {} infinite or not a number",
                path.display(),
                counted(*total, "element"),
                if *count == 1 { "is" } else { "are" },
            ),
        }
    }
}
