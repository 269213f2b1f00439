use super::error::listed;
use core::fmt;

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
                write!(
                    f,
                    "{} tensors have no place in the model and are left out: {}",
                    names.len(),
                    listed(names)
                )
            }
            Self::NonFinite { name, count, total } => write!(
                f,
                "{count} of the {total} elements of {name} are infinite or not a number"
            ),
        }
    }
}
