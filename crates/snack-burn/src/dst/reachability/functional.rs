use std::fmt;

use crate::dst::bits::Bits;
use crate::pattern::Pattern;

/// Which inputs of a layer can be reached from the inputs of the network, and from which of its
/// outputs the outputs of the network can be reached.
///
/// A connection between two such ends is *functional*: it lies on a path through the network. A
/// neuron that only has a bias is not reachable.
#[derive(Clone, PartialEq, Eq)]
pub struct Functional {
    pub(super) inputs: Bits,
    pub(super) outputs: Bits,
}

impl Functional {
    /// Everything is reachable in a layer of shape `[m, k]`.
    pub fn everywhere(shape: [usize; 2]) -> Self {
        Self {
            inputs: Bits::all(shape[1] as u64),
            outputs: Bits::all(shape[0] as u64),
        }
    }

    /// `[m, k]`.
    pub fn shape(&self) -> [usize; 2] {
        [self.outputs.len() as usize, self.inputs.len() as usize]
    }

    /// Columns that the inputs of the network reach, increasing.
    pub fn inputs(&self) -> Vec<u32> {
        self.inputs.iter().map(|col| col as u32).collect()
    }

    /// Rows from which the outputs of the network are reached, increasing.
    pub fn outputs(&self) -> Vec<u32> {
        self.outputs.iter().map(|row| row as u32).collect()
    }

    /// Whether a connection at this coordinate is functional.
    pub fn contains(&self, row: usize, col: usize) -> bool {
        self.outputs.contains(row as u64) && self.inputs.contains(col as u64)
    }

    /// Whether the connection of each slot is functional, `[nnz]`.
    ///
    /// # Panics
    ///
    /// Panics if the pattern has another shape.
    pub fn slots(&self, pattern: &Pattern) -> Vec<bool> {
        self.check(pattern);
        pattern
            .iter()
            .map(|(row, col)| self.contains(row, col))
            .collect()
    }

    /// Number of functional connections.
    ///
    /// # Panics
    ///
    /// Panics if the pattern has another shape.
    pub fn count(&self, pattern: &Pattern) -> usize {
        self.check(pattern);
        let reached = |row: &u64| {
            let cols = pattern.row(*row as usize).iter();
            cols.filter(|&&col| self.inputs.contains(u64::from(col)))
                .count()
        };
        self.outputs.iter().map(|row| reached(&row)).sum()
    }

    /// Share of connections that are functional; 1 if there are none.
    ///
    /// # Panics
    ///
    /// Panics if the pattern has another shape.
    pub fn share(&self, pattern: &Pattern) -> f64 {
        match pattern.nnz() {
            0 => 1.0,
            nnz => self.count(pattern) as f64 / nnz as f64,
        }
    }

    pub(super) fn check(&self, pattern: &Pattern) {
        assert_eq!(
            pattern.shape(),
            self.shape(),
            "the pattern must have the shape of the layer whose reachability this is"
        );
    }
}

impl fmt::Debug for Functional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functional")
            .field("shape", &self.shape())
            .field("inputs", &self.inputs.count())
            .field("outputs", &self.outputs.count())
            .finish()
    }
}
