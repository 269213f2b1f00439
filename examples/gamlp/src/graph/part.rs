use crate::NodeSplit;
use clap::ValueEnum;
use core::fmt;
use serde::{Deserialize, Serialize};

/// A part of the nodes of a graph.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// To learn from.
    Train,
    /// To select by.
    Valid,
    /// To judge by.
    #[default]
    Test,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Train, Self::Valid, Self::Test];

    /// The word for it on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Valid => "valid",
            Self::Test => "test",
        }
    }

    /// Its nodes.
    pub fn of(self, split: &NodeSplit) -> &[u32] {
        match self {
            Self::Train => &split.train,
            Self::Valid => &split.valid,
            Self::Test => &split.test,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
