use serde::{Deserialize, Serialize};

use super::base::check_fraction;
use super::{Schedule, Timing, Turnover};
use crate::dst::DstError;

/// `f0 (1 - p)` at progress `p`: an option of SNFS (Dettmers and Zettlemoyer, 2019).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Linear {
    /// Share of the connections that is replaced at the start, `f0`.
    pub initial: f64,
    /// When updates happen; needs a stop.
    pub timing: Timing,
}

impl Schedule for Linear {
    fn turnover(&self, step: u64) -> Option<Turnover> {
        self.timing.index(step)?;
        let fraction = self.initial * (1.0 - self.timing.progress(step));
        Turnover::replace(fraction).unless_zero()
    }

    fn validate(&self) -> Result<(), DstError> {
        check_fraction("drop fraction", self.initial)?;
        self.timing.validate_bounded("linear")
    }
}
