//! What a group of layers follows.

use burn::module::ParamGroup;

use crate::dst::{ActivityConfig, LayerGraph, Method, Schedule, StatePolicy};
use crate::nn::FoundLayer;

/// When, how and with what consequences for the optimizer a group of layers is rewired; made by
/// [`DstConfig::rule`](crate::dst::DstConfig::rule).
pub struct Rule {
    pub(crate) method: Box<dyn Method>,
    pub(crate) schedule: Box<dyn Schedule>,
    pub(crate) state: StatePolicy,
    pub(crate) accumulate: u64,
    pub(crate) max_rows: Option<usize>,
    pub(crate) scratch_bytes: usize,
    pub(crate) activity: Option<ActivityConfig>,
    pub(crate) graph: Option<LayerGraph>,
}

/// Path of a layer's values in the model.
pub(super) fn values_path(layer: &FoundLayer) -> String {
    match layer.name.as_str() {
        "" => "values".to_string(),
        name => format!("{name}.values"),
    }
}

/// Layers and their rule; `None` leaves them as they are.
pub(super) struct Group {
    /// `None` matches all.
    pub group: Option<ParamGroup>,
    pub rule: Option<Rule>,
}

impl Group {
    pub fn matches(&self, layer: &FoundLayer) -> bool {
        let Some(group) = &self.group else {
            return true;
        };
        let values = values_path(layer);
        [&values, &layer.name]
            .iter()
            .any(|path| group.matches(&layer.values_id, Some(path)))
    }
}

impl Rule {
    /// Whether the factors of a step are wanted.
    pub(super) fn captures(&self, step: u64) -> bool {
        self.activity.is_some()
            || self.method.needs().needs_factors() && self.schedule.captures(step, self.accumulate)
    }
}
