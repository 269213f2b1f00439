use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How the topology changes during training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Not at all
    Static,
    /// Sparse evolutionary training as published
    Set,
}

impl core::fmt::Display for Method {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Static => "static",
            Self::Set => "set",
        })
    }
}
