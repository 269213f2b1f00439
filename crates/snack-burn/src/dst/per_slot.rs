//! What else has one element per connection.

use std::sync::{Arc, Mutex, PoisonError};

use burn::module::{Module, ParamId};
use burn::tensor::TensorData;

use super::Remap;
use crate::nn::{NewWeights, replace_weights, sparse_layers};
use crate::pattern::Pattern;
use crate::tensor::HostIndex;

/// What an update did to the connections of one layer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LayerChange {
    /// Path of the layer in the model.
    pub name: String,
    /// Parameter id of its values.
    pub values_id: ParamId,
    /// The coordinates before.
    pub before: Arc<Pattern>,
    /// The coordinates after.
    pub after: Pattern,
    /// Where each slot after the update comes from.
    pub remap: Remap,
}

/// Data with one element per connection that is neither a value nor a state of the optimizer:
/// averages of weights, scores, marks. Registered by
/// [`Dst::register`](super::Dst::register), it moves by the same remap.
pub trait PerSlot: Send {
    /// Follows an update of one layer.
    fn remap(&mut self, change: &LayerChange);
}

/// Shared with whoever reads it.
impl<T: PerSlot> PerSlot for Arc<Mutex<T>> {
    fn remap(&mut self, change: &LayerChange) {
        let mut inner = self.lock().unwrap_or_else(PoisonError::into_inner);
        inner.remap(change);
    }
}

/// What an update did to the connections of all layers that it changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Changes {
    /// The layers in the order of the model.
    pub layers: Vec<LayerChange>,
}

impl Changes {
    /// Applies the same changes to another module with the same sparse layers, such as an average
    /// of the trained model: values of survivors move with their coordinates, those of new
    /// connections are zero.
    ///
    /// # Panics
    ///
    /// Panics if a layer of the module has other coordinates than the updated one had.
    pub fn apply_to<M: Module>(&self, module: M) -> M {
        let weights = sparse_layers(&module)
            .into_iter()
            .filter_map(|layer| {
                let change = self.layers.iter().find(|c| c.name == layer.name)?;
                assert!(
                    layer.pattern == *change.before,
                    "Changes::apply_to: layer `{}` has other coordinates than before the update",
                    layer.name
                );
                let values: TensorData = layer.values.detach().into_data();
                let new = NewWeights {
                    pattern: change.after.clone().into(),
                    values: change.remap.apply(values),
                    index: HostIndex::default(),
                };
                Some((layer.name, new))
            })
            .collect();
        replace_weights(module, weights)
    }
}
