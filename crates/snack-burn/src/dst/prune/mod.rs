//! Which connections leave.

mod activity;
mod magnitude;
mod magnitude_gradient;
mod reachability_first;
mod sign_balanced;

pub use activity::*;
pub use magnitude::*;
pub use magnitude_gradient::*;
pub use sign_balanced::*;

pub(crate) use reachability_first::*;

use super::{DstError, LayerView, Signals};

/// Ranks the connections of a layer for removal.
pub trait Prune: Send + Sync {
    /// What the scores depend on, beyond pattern and values.
    fn needs(&self) -> Signals {
        Signals::NONE
    }

    /// One score per slot, in slot order; the lowest scores leave first, equal ones by lower slot.
    /// NaN is kept longest; values are always finite, an update of others is skipped. Scores of different layers are compared where the scope is the
    /// network.
    ///
    /// # Errors
    ///
    /// Returns an error if data is not there that [`needs`](Self::needs) names.
    fn scores(&self, layer: &LayerView<'_>) -> Result<Vec<f32>, DstError>;

    /// Refuses numbers out of range, before anything is updated.
    ///
    /// # Errors
    ///
    /// The first that is.
    fn validate(&self) -> Result<(), DstError> {
        Ok(())
    }
}

impl Prune for Box<dyn Prune> {
    fn needs(&self) -> Signals {
        (**self).needs()
    }

    fn scores(&self, layer: &LayerView<'_>) -> Result<Vec<f32>, DstError> {
        (**self).scores(layer)
    }

    fn validate(&self) -> Result<(), DstError> {
        (**self).validate()
    }
}
