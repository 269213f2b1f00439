//! What an update did.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Plan;
use crate::nn::{FoundLayer, layer_label};

/// What an update did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopologyUpdate {
    /// The optimizer step after which it happened, counted from 1.
    pub step: u64,
    /// The layers of the rules that were due, in the order of the model; without frozen ones.
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
    /// A value of a layer is infinite or undefined.
    NonFiniteValue {
        /// Path of the first such layer.
        layer: String,
    },
    /// No backward pass went through the weights of any layer, as the last step returned them.
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

/// A number with its thousands set apart, as in `1,234,567`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NonFiniteGradient { layer } => {
                let layer = layer_label(layer);
                write!(f, "the gradient of layer `{layer}` is not finite")
            }
            Self::NonFiniteValue { layer } => {
                let layer = layer_label(layer);
                write!(f, "a value of layer `{layer}` is not finite")
            }
            Self::NoGradient => write!(
                f,
                "no backward pass went through the model that the updater returned last"
            ),
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
        let layers = match self.layers.len() {
            1 => "1 layer".to_string(),
            count => format!("{count} layers"),
        };
        let [dropped, grown, nnz] = [dropped, grown, nnz].map(grouped);
        match dropped == grown {
            true => write!(
                f,
                "step {}: replaced {dropped} of {nnz} connections in {layers}",
                self.step
            ),
            false => write!(
                f,
                "step {}: dropped {dropped} and grew {grown} connections, {nnz} in {layers}",
                self.step
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_told_in_words() {
        let layer = |dropped, grown| LayerUpdate {
            name: String::new(),
            nnz: 1_234_567,
            density: 0.5,
            dropped,
            grown,
            returned: 0,
        };
        let update = |layers| TopologyUpdate {
            step: 7,
            layers,
            skipped: None,
        };
        assert_eq!(
            update(vec![layer(24_449, 24_449)]).to_string(),
            "step 7: replaced 24,449 of 1,234,567 connections in 1 layer"
        );
        assert_eq!(
            update(vec![layer(1000, 0), layer(0, 5)]).to_string(),
            "step 7: dropped 1,000 and grew 5 connections, 2,469,134 in 2 layers"
        );
        let skipped = TopologyUpdate {
            skipped: Some(SkipReason::NonFiniteValue {
                layer: String::new(),
            }),
            ..update(Vec::new())
        };
        assert_eq!(
            skipped.to_string(),
            "step 7: skipped, a value of layer `(model)` is not finite"
        );
    }
}
