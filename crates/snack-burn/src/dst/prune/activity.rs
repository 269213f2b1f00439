use super::Prune;
use crate::dst::{DstError, LayerView, Signals};

/// The accumulated product of a connection's input and its output's gradient: what carried little
/// leaves first (activity-dependent pruning, DADP).
///
/// How the product is accumulated is a setting of the updater
/// ([`ActivityConfig`](crate::dst::ActivityConfig)). The scores of all layers share one scale if
/// their losses do, so that a threshold over the network makes sense.
#[derive(Debug, Clone, Copy, Default)]
pub struct Activity;

impl Prune for Activity {
    fn needs(&self) -> Signals {
        Signals::ACTIVITY
    }

    fn scores(&self, layer: &LayerView<'_>) -> Result<Vec<f32>, DstError> {
        Ok(layer.activity()?.to_vec())
    }
}
