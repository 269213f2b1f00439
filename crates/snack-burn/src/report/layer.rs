use serde::{Deserialize, Serialize};

use super::{Degrees, Memory};
use crate::nn::FoundLayer;
use crate::pattern::Pattern;
use crate::tensor::DevicePattern;

/// One sparse layer of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerReport {
    /// Path of the layer in the model; empty for the model itself.
    pub name: String,
    /// `[outputs, inputs]`, `[m, k]`.
    pub shape: [usize; 2],
    /// Number of non-zeros.
    pub nnz: usize,
    /// `nnz / (m k)`; 0 if there are no coordinates.
    pub density: f64,
    /// The density that the layer should have, where the report was told.
    pub target_density: Option<f64>,
    /// Connections of the outputs (rows). Its `dead` outputs are constant: they have a bias only.
    pub fan_in: Degrees,
    /// Connections of the inputs (columns). The layer ignores its `dead` inputs.
    pub fan_out: Degrees,
    /// What happened to the layer since earlier reports, in a [`TopologyLog`](super::TopologyLog).
    pub history: Option<LayerHistory>,
    /// Connections on a path from an input to an output of the model, where the report was told
    /// how its layers are connected.
    pub functional: Option<usize>,
    /// Bytes in memory.
    pub memory: Memory,
}

/// A layer compared with its own past.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LayerHistory {
    /// Connections of the report before that are still there.
    pub kept_previous: usize,
    /// Connections that the report before had.
    pub previous: usize,
    /// Connections of the first report that are there now, without interruption or again.
    pub kept_initial: usize,
    /// Connections that the first report had.
    pub initial: usize,
    /// Coordinates that were active in any report, this one included.
    pub explored: u64,
}

impl LayerReport {
    /// Describes a layer.
    pub(super) fn of(layer: &FoundLayer) -> Self {
        let pattern = layer.pattern.pattern();
        Self {
            name: layer.name.clone(),
            shape: pattern.shape(),
            nnz: pattern.nnz(),
            density: pattern.density(),
            target_density: None,
            fan_in: Degrees::of(&pattern.fan_in()),
            fan_out: Degrees::of(&pattern.fan_out()),
            history: None,
            functional: None,
            memory: memory(layer, pattern),
        }
    }

    /// Number of coordinates, `m k`.
    pub fn size(&self) -> u64 {
        self.shape[0] as u64 * self.shape[1] as u64
    }
}

impl LayerHistory {
    /// Share of the connections of the report before that are still there; 1 if it had none.
    pub fn share_of_previous(&self) -> f64 {
        share(self.kept_previous, self.previous)
    }

    /// Share of the connections of the first report that are there now; 1 if it had none.
    pub fn share_of_initial(&self) -> f64 {
        share(self.kept_initial, self.initial)
    }
}

pub(super) fn share(part: usize, whole: usize) -> f64 {
    match whole {
        0 => 1.0,
        _ => part as f64 / whole as f64,
    }
}

fn memory(layer: &FoundLayer, pattern: &Pattern) -> Memory {
    let element = layer.values.dtype().size() as u64;
    Memory {
        values: element * pattern.nnz() as u64,
        indices: DevicePattern::bytes_in_training(pattern, &layer.values.device()) as u64,
        dense_values: element * pattern.size(),
        ..Memory::default()
    }
}
