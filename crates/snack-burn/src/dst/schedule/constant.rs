use serde::{Deserialize, Serialize};

use super::{Schedule, Timing, Turnover};
use crate::dst::DstError;

/// The same turnover at every update: SET (0.3; Mocanu et al., 2018), SNACK's recipe (0.05).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Constant {
    /// What every update replaces.
    pub turnover: Turnover,
    /// When updates happen.
    pub timing: Timing,
}

impl Constant {
    /// Replaces a share of the connections at every update.
    pub fn new(fraction: f64, timing: Timing) -> Self {
        Self {
            turnover: Turnover::replace(fraction),
            timing,
        }
    }
}

impl Schedule for Constant {
    fn turnover(&self, step: u64) -> Option<Turnover> {
        self.timing.index(step)?;
        self.turnover.unless_zero()
    }

    fn validate(&self) -> Result<(), DstError> {
        self.turnover.validate()?;
        self.timing.validate()
    }
}
