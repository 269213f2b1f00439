use std::collections::BTreeMap;

use burn::module::{Module, ParamId};
use burn::optim::ModuleOptimizer;
use burn_pack::Reader;
use serde::{Deserialize, Serialize};

use super::{LayerReport, Memory};
use crate::dst::{DstError, LayerGraph};
use crate::nn::{FoundLayer, find_layers};
use crate::pattern::Pattern;

/// The sparse layers of a model at one moment.
///
/// [`Display`](std::fmt::Display) gives a table, serde JSON, [`to_csv`](Self::to_csv) one line for
/// each layer and one for all of them.
///
/// ```
/// use burn::tensor::Device;
/// use snack_burn::prelude::*;
/// use snack_burn::report::DensityReport;
///
/// let layer = SparseLinearConfig::new(40, 20).with_sparsity(0.9).init(&Device::default());
/// let report = DensityReport::of(&layer);
///
/// assert_eq!(report.layers[0].nnz, 80);
/// assert_eq!(report.layers[0].fan_in.mean, 4.0);
/// assert_eq!(report.total.density, 0.1);
/// println!("{report}");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DensityReport {
    /// The optimizer step, in a [`TopologyLog`](super::TopologyLog).
    pub step: Option<u64>,
    /// The layers in the order of the model.
    pub layers: Vec<LayerReport>,
    /// All layers together.
    pub total: TotalReport,
}

/// The sparse layers of a model together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TotalReport {
    /// Number of coordinates.
    pub size: u64,
    /// Number of non-zeros.
    pub nnz: usize,
    /// `nnz / size`; 0 if there are no coordinates.
    pub density: f64,
    /// The density that the layers should have together, if all have a target.
    pub target_density: Option<f64>,
    /// Outputs without a connection.
    pub dead_outputs: usize,
    /// Inputs without a connection.
    pub dead_inputs: usize,
    /// Share of the connections of the report before that are still there.
    pub kept_previous: Option<f64>,
    /// Share of the connections of the first report that are there now.
    pub kept_initial: Option<f64>,
    /// Share of the coordinates that were active in any report, `R_s` of in-time
    /// over-parameterization (Liu et al., 2021).
    pub explored: Option<f64>,
    /// Connections on a path from an input to an output, if known for all layers.
    pub functional: Option<usize>,
    /// Bytes in memory.
    pub memory: Memory,
}

/// What a report should say beyond what the layers tell by themselves.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportConfig {
    /// How the layers are connected. With it, reports count functional connections.
    pub graph: Option<LayerGraph>,
    /// Densities that layers should have, by name.
    pub targets: BTreeMap<String, f64>,
}

impl DensityReport {
    /// Describes all [`SparseLinear`](crate::nn::SparseLinear) layers of a model.
    pub fn of<M: Module>(model: &M) -> Self {
        let report = ReportConfig::default().report(model, None);
        report.expect("without a graph there is no layer to miss")
    }

    /// The layer of a name.
    pub fn layer(&self, name: &str) -> Option<&LayerReport> {
        self.layers.iter().find(|layer| layer.name == name)
    }

    /// Brings `total` up to date.
    pub(super) fn sum_up(&mut self) {
        let layers = &self.layers;
        let size: u64 = layers.iter().map(LayerReport::size).sum();
        let nnz = layers.iter().map(|layer| layer.nnz).sum();
        let of_size = |count: f64| if size == 0 { 0.0 } else { count / size as f64 };
        let target = |layer: &LayerReport| Some(layer.target_density? * layer.size() as f64);
        let histories = all(layers, |layer| layer.history).filter(|list| !list.is_empty());
        let sum = |part: fn(&super::LayerHistory) -> usize| {
            histories
                .as_ref()
                .map(|list| list.iter().map(part).sum::<usize>())
        };
        let explored = histories
            .as_ref()
            .map(|list| list.iter().map(|h| h.explored).sum::<u64>());
        let share =
            |part: Option<usize>, whole: Option<usize>| Some(super::layer::share(part?, whole?));
        let mut memory = Memory::default();
        layers.iter().for_each(|layer| memory += layer.memory);
        self.total = TotalReport {
            size,
            nnz,
            density: of_size(nnz as f64),
            target_density: all(layers, target)
                .filter(|list| !list.is_empty())
                .map(|list| of_size(list.iter().sum())),
            dead_outputs: layers.iter().map(|layer| layer.fan_in.dead).sum(),
            dead_inputs: layers.iter().map(|layer| layer.fan_out.dead).sum(),
            kept_previous: share(sum(|h| h.kept_previous), sum(|h| h.previous)),
            kept_initial: share(sum(|h| h.kept_initial), sum(|h| h.initial)),
            explored: explored.map(|explored| of_size(explored as f64)),
            functional: all(layers, |layer| layer.functional)
                .filter(|list| !list.is_empty())
                .map(|list| list.iter().sum()),
            memory,
        };
    }
}

impl ReportConfig {
    /// For a model whose sparse layers form a chain: each one's outputs, and nothing else, are the
    /// next one's inputs, with activations that act on single units between them.
    ///
    /// # Errors
    ///
    /// [`DstError::BlocksDoNotChain`] if the shapes contradict that, or [`DstError::RepeatedLayer`].
    pub fn chain<M: Module>(model: &M) -> Result<Self, DstError> {
        let layers = find_layers(model);
        Ok(Self {
            graph: Some(LayerGraph::chain(&named(&layers))?),
            ..Self::default()
        })
    }

    /// Describes the sparse layers of a model and, if an optimizer is given, counts what it keeps
    /// per weight.
    ///
    /// # Errors
    ///
    /// [`DstError`] if a layer of the graph is not in the model, or has another shape.
    ///
    /// # Panics
    ///
    /// Panics if the optimizer cannot be recorded.
    pub fn report<M: Module>(
        &self,
        model: &M,
        optimizer: Option<&ModuleOptimizer>,
    ) -> Result<DensityReport, DstError> {
        self.describe(&find_layers(model), optimizer)
    }

    pub(super) fn describe(
        &self,
        layers: &[FoundLayer],
        optimizer: Option<&ModuleOptimizer>,
    ) -> Result<DensityReport, DstError> {
        let mut report = DensityReport {
            step: None,
            layers: layers.iter().map(LayerReport::of).collect(),
            total: TotalReport::default(),
        };
        for layer in &mut report.layers {
            layer.target_density = self.targets.get(&layer.name).copied();
        }
        if let Some(graph) = &self.graph {
            let functional = graph.functional(&named(layers))?;
            for (index, functional) in functional.into_iter().enumerate() {
                let count = functional.map(|found| found.count(layers[index].pattern.pattern()));
                report.layers[index].functional = count;
            }
        }
        if let Some(optimizer) = optimizer {
            let moments = moments(optimizer, layers);
            for (report, layer) in report.layers.iter_mut().zip(layers) {
                let bytes = moments.get(&layer.values_id).copied().unwrap_or(0);
                report.memory.moments = bytes;
                report.memory.dense_moments = match report.nnz as u64 {
                    0 => 0,
                    nnz => bytes / nnz * report.size(),
                };
            }
        }
        report.sum_up();
        Ok(report)
    }
}

fn named(layers: &[FoundLayer]) -> Vec<(&str, &Pattern)> {
    layers
        .iter()
        .map(|layer| (layer.name.as_str(), &**layer.pattern.pattern()))
        .collect()
}

/// `None` if any layer has none.
fn all<T>(layers: &[LayerReport], part: impl Fn(&LayerReport) -> Option<T>) -> Option<Vec<T>> {
    layers.iter().map(part).collect()
}

/// Bytes of all states that have one element per slot, by the parameter that they belong to.
fn moments(optimizer: &ModuleOptimizer, layers: &[FoundLayer]) -> BTreeMap<ParamId, u64> {
    let slots: BTreeMap<ParamId, usize> = layers
        .iter()
        .map(|layer| (layer.values_id, layer.pattern.pattern().nnz()))
        .collect();
    let failed = |error: &dyn std::fmt::Display| -> ! {
        panic!("the optimizer cannot be recorded: {error}")
    };
    let bytes = optimizer.to_record().into_bytes();
    let bytes = bytes.unwrap_or_else(|error| failed(&error));
    let tensors = Reader::from_bytes(bytes).and_then(Reader::into_tensors);
    let mut found = BTreeMap::new();
    for tensor in tensors.unwrap_or_else(|error| failed(&error)) {
        let size = tensor.byte_len() as u64;
        let (_, _, shape, id, _) = tensor.into_parts().unwrap_or_else(|error| failed(&error));
        let Some(id) = id.map(ParamId::from) else {
            continue;
        };
        if slots
            .get(&id)
            .is_some_and(|&slots| shape.as_slice() == [slots])
        {
            *found.entry(id).or_insert(0) += size;
        }
    }
    found
}
