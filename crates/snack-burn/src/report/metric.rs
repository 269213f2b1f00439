//! Metrics for Burn's `Learner`: how dense the model is, and how much of it changes.

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::TensorReadError;
use burn::train::metric::state::{FormatOptions, NumericMetricState};
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes, NumericEntry,
    SerializedEntry,
};

use crate::dst::{LayerUpdate, TopologyUpdate};
use crate::nn::find_layers;

/// What [`DensityMetric`] and [`TurnoverMetric`] are computed from: the sparse layers at one step.
///
/// The output of a training step holds one and gives it out by `Adaptor<TopologyInput>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopologyInput {
    /// Number of non-zeros.
    pub nnz: usize,
    /// Number of coordinates.
    pub size: u64,
    /// Connections that left since the step before, or that entered, whichever are more in a layer.
    pub replaced: usize,
}

impl TopologyInput {
    /// The sparse layers of a model, and the update since the step before, if there was one.
    pub fn of<M: Module>(model: &M, update: Option<&TopologyUpdate>) -> Self {
        let layers = find_layers(model);
        let moved = |layer: &LayerUpdate| layer.dropped.max(layer.grown);
        let replaced = update.map(|update| update.layers.iter().map(moved).sum());
        Self {
            nnz: layers
                .iter()
                .map(|layer| layer.pattern.pattern().nnz())
                .sum(),
            size: layers
                .iter()
                .map(|layer| layer.pattern.pattern().size())
                .sum(),
            replaced: replaced.unwrap_or(0),
        }
    }
}

/// Share of the weights of sparse layers that exist, in percent; the mean over the steps of an
/// epoch.
#[derive(Clone)]
pub struct DensityMetric {
    name: MetricName,
    state: NumericMetricState,
}

/// Connections that topology updates replaced, in percent of all; the sum over the steps of an
/// epoch.
#[derive(Clone)]
pub struct TurnoverMetric {
    name: MetricName,
    current: f64,
    sum: f64,
}

impl DensityMetric {
    /// The metric.
    pub fn new() -> Self {
        Self {
            name: Arc::new("Density".into()),
            state: NumericMetricState::default(),
        }
    }

    fn format(&self) -> FormatOptions {
        FormatOptions::new(self.name()).unit("%").precision(3)
    }
}

impl Default for DensityMetric {
    fn default() -> Self {
        Self::new()
    }
}

impl TurnoverMetric {
    /// The metric.
    pub fn new() -> Self {
        Self {
            name: Arc::new("Turnover".into()),
            current: 0.0,
            sum: 0.0,
        }
    }

    fn entry(&self, value: &NumericEntry) -> SerializedEntry {
        let formatted = format!("epoch {:.2} % - batch {:.2} %", self.sum, self.current);
        SerializedEntry::new(formatted, value.serialize())
    }
}

impl Default for TurnoverMetric {
    fn default() -> Self {
        Self::new()
    }
}

/// Neither more nor less is better, but Burn wants to know.
fn attributes() -> MetricAttributes {
    NumericAttributes {
        unit: Some("%".into()),
        higher_is_better: false,
    }
    .into()
}

impl Metric for DensityMetric {
    type Input = TopologyInput;

    fn update(
        &mut self,
        input: &TopologyInput,
        _metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        let share = match input.size {
            0 => 0.0,
            size => input.nnz as f64 / size as f64,
        };
        self.state.update(100.0 * share, 1);
        Ok(self.state.compute_update(self.format()))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self.state.compute_final(self.format()))
    }

    fn clear(&mut self) {
        self.state.reset();
    }

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn description(&self) -> Option<String> {
        Some("Share of the weights of sparse layers that exist".into())
    }

    fn attributes(&self) -> MetricAttributes {
        attributes()
    }
}

impl Numeric for DensityMetric {
    fn value(&self) -> Option<NumericEntry> {
        Some(self.state.current_value())
    }

    fn running_value(&self) -> Option<NumericEntry> {
        Some(self.state.running_value())
    }

    fn final_value(&self) -> NumericEntry {
        self.state.final_value()
    }
}

impl Metric for TurnoverMetric {
    type Input = TopologyInput;

    fn update(
        &mut self,
        input: &TopologyInput,
        _metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        self.current = match input.nnz {
            0 => 0.0,
            nnz => 100.0 * input.replaced as f64 / nnz as f64,
        };
        self.sum += self.current;
        Ok(self.entry(&NumericEntry::Value(self.current)))
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(self.entry(&self.final_value()))
    }

    fn clear(&mut self) {
        (self.current, self.sum) = (0.0, 0.0);
    }

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn description(&self) -> Option<String> {
        Some("Connections that topology updates replaced".into())
    }

    fn attributes(&self) -> MetricAttributes {
        attributes()
    }
}

impl Numeric for TurnoverMetric {
    fn value(&self) -> Option<NumericEntry> {
        Some(NumericEntry::Value(self.current))
    }

    fn running_value(&self) -> Option<NumericEntry> {
        Some(NumericEntry::Value(self.sum))
    }

    fn final_value(&self) -> NumericEntry {
        NumericEntry::Final(self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::SparseLinearConfig;
    use burn::data::dataloader::Progress;
    use burn::tensor::Device;

    fn metadata() -> MetricMetadata {
        MetricMetadata {
            progress: Progress::new(1, 1, None),
            iteration: None,
            lr: None,
        }
    }

    #[test]
    fn density_is_averaged_and_turnover_summed() {
        let step = |nnz, replaced| TopologyInput {
            nnz,
            size: 200,
            replaced,
        };
        let mut density = DensityMetric::new();
        let mut turnover = TurnoverMetric::new();
        for (nnz, replaced) in [(20, 0), (40, 10), (20, 2)] {
            density.update(&step(nnz, replaced), &metadata()).unwrap();
            turnover.update(&step(nnz, replaced), &metadata()).unwrap();
        }
        assert_eq!(density.value().unwrap().current(), 10.0);
        assert!((density.final_value().current() - 40.0 / 3.0).abs() < 1e-12);
        assert_eq!(turnover.value().unwrap().current(), 10.0);
        assert_eq!(turnover.final_value().current(), 35.0);
        assert_eq!(turnover.compute().unwrap().serialized, "35,final");

        turnover.clear();
        assert_eq!(turnover.final_value().current(), 0.0);
    }

    #[test]
    fn a_model_without_connections_has_neither() {
        let empty = TopologyInput {
            nnz: 0,
            size: 0,
            replaced: 0,
        };
        let mut density = DensityMetric::new();
        density.update(&empty, &metadata()).unwrap();
        assert_eq!(density.final_value().current(), 0.0);
        let mut turnover = TurnoverMetric::new();
        turnover.update(&empty, &metadata()).unwrap();
        assert_eq!(turnover.final_value().current(), 0.0);
    }

    #[test]
    fn the_input_counts_all_layers() {
        let layer = SparseLinearConfig::new(10, 10).with_sparsity(0.9);
        let model = vec![
            layer.init(&Device::default()),
            layer.init(&Device::default()),
        ];
        let input = TopologyInput::of(&model, None);
        assert_eq!((input.nnz, input.size, input.replaced), (20, 200, 0));
    }
}
