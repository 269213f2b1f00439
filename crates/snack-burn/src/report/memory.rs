use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Bytes that weights take while a model trains, and what dense ones of the same shape would take.
/// Gradients, which live for a part of a step only, and biases are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Values of the non-zeros.
    pub values: u64,
    /// Index tensors on the device, the column order of the backward pass included.
    pub indices: u64,
    /// Per-weight states of the optimizer; 0 if the report was made without one.
    pub moments: u64,
    /// Values of the dense weights.
    pub dense_values: u64,
    /// Per-weight states of the optimizer for dense weights.
    pub dense_moments: u64,
}

impl Memory {
    /// Values, indices and moments.
    pub fn total(&self) -> u64 {
        self.values + self.indices + self.moments
    }

    /// Values and moments of dense weights.
    pub fn dense_total(&self) -> u64 {
        self.dense_values + self.dense_moments
    }

    /// `total / dense_total`; 0 if there is nothing.
    pub fn ratio(&self) -> f64 {
        match self.dense_total() {
            0 => 0.0,
            dense => self.total() as f64 / dense as f64,
        }
    }
}

impl AddAssign for Memory {
    fn add_assign(&mut self, other: Self) {
        self.values += other.values;
        self.indices += other.indices;
        self.moments += other.moments;
        self.dense_values += other.dense_values;
        self.dense_moments += other.dense_moments;
    }
}
