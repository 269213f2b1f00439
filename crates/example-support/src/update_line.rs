use crate::counted;
use core::fmt;
use serde::{Deserialize, Serialize};
use snack_burn::prelude::TopologyUpdate;

/// One topology update, summed over the layers, as a log has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateLine {
    /// Number of layers.
    pub layers: usize,
    /// Connections removed.
    pub dropped: usize,
    /// Connections added.
    pub grown: usize,
    /// Connections present.
    pub nnz: usize,
}

impl From<&TopologyUpdate> for UpdateLine {
    fn from(update: &TopologyUpdate) -> Self {
        let layers = &update.layers;
        Self {
            layers: layers.len(),
            dropped: layers.iter().map(|layer| layer.dropped).sum(),
            grown: layers.iter().map(|layer| layer.grown).sum(),
            nnz: layers.iter().map(|layer| layer.nnz).sum(),
        }
    }
}

impl fmt::Display for UpdateLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            dropped,
            grown,
            nnz,
            ..
        } = self;
        match dropped == grown {
            true => write!(f, "{grown} of {nnz} connections moved")?,
            false => write!(f, "{dropped} connections dropped, {grown} grown, {nnz} now")?,
        }
        write!(f, " in {}", counted(self.layers, "layer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_that_changes_the_number_says_so() {
        let line = |dropped, grown| UpdateLine {
            layers: 2,
            dropped,
            grown,
            nnz: 740,
        };
        assert_eq!(
            line(5, 5).to_string(),
            "5 of 740 connections moved in 2 layers"
        );
        assert_eq!(
            line(39, 0).to_string(),
            "39 connections dropped, 0 grown, 740 now in 2 layers"
        );
    }
}
