//! What an update did.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Plan;
use crate::nn::FoundLayer;

/// What an update did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopologyUpdate {
    /// The optimizer step after which it happened, counted from 1.
    pub step: u64,
    /// The layers of the rules that were due, in the order of the model.
    pub layers: Vec<LayerUpdate>,
    /// Why a rule that was due changed nothing.
    #[serde(default)]
    pub skipped: Option<SkipReason>,
}

/// What an update did to one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerUpdate {
    /// Path of the layer in the model.
    pub name: String,
    /// Non-zeros after the update.
    pub nnz: usize,
    /// `nnz / (m k)`.
    pub density: f64,
    /// Connections that left.
    pub dropped: usize,
    /// Connections that entered.
    pub grown: usize,
    /// Connections that were chosen to leave and returned at once; neither dropped nor grown.
    #[serde(default)]
    pub returned: usize,
}

/// Why an update that was due did not happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkipReason {
    /// The gradient of a layer is infinite or undefined.
    NonFiniteGradient {
        /// Path of the first such layer.
        layer: String,
    },
    /// No backward pass went through the weights of any layer.
    NoGradient,
}

impl LayerUpdate {
    pub(crate) fn of(layer: &FoundLayer, plan: Option<&Plan>) -> Self {
        let pattern = match plan {
            Some(plan) => &plan.pattern,
            None => &**layer.pattern.pattern(),
        };
        Self {
            name: layer.name.clone(),
            nnz: pattern.nnz(),
            density: pattern.density(),
            dropped: plan.map_or(0, |plan| plan.dropped),
            grown: plan.map_or(0, |plan| plan.grown),
            returned: plan.map_or(0, |plan| plan.returned),
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NonFiniteGradient { layer } => {
                write!(f, "the gradient of layer `{layer}` is not finite")
            }
            Self::NoGradient => write!(f, "no backward pass gave a gradient"),
        }
    }
}

impl fmt::Display for TopologyUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = &self.skipped {
            return write!(f, "step {}: skipped, {reason}", self.step);
        }
        let nnz: usize = self.layers.iter().map(|layer| layer.nnz).sum();
        let [dropped, grown] = [|l: &LayerUpdate| l.dropped, |l: &LayerUpdate| l.grown]
            .map(|count| self.layers.iter().map(count).sum::<usize>());
        let layers = self.layers.len();
        match dropped == grown {
            true => write!(
                f,
                "step {}: replaced {dropped} of {nnz} connections in {layers} layers",
                self.step
            ),
            false => write!(
                f,
                "step {}: dropped {dropped} and grew {grown} connections, {nnz} in {layers} layers",
                self.step
            ),
        }
    }
}
