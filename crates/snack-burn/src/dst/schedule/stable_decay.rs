use serde::{Deserialize, Serialize};

use super::base::check_fraction;
use super::{Schedule, Timing, Turnover};
use crate::dst::DstError;

/// `f0` for the first part of a run, then a straight line to `last f0`: an option of SMET
/// (Xiao et al., 2026).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StableThenDecay {
    /// Share of the connections that is replaced in the first part, `f0`.
    pub initial: f64,
    /// Progress at which the first part ends, in `[0, 1)`.
    pub stable: f64,
    /// What is left of `f0` at the end, in `[0, 1)`.
    pub last: f64,
    /// When updates happen; needs a stop.
    pub timing: Timing,
}

impl StableThenDecay {
    /// Stable for 90 % of the run, then down to a tenth.
    pub fn new(initial: f64, timing: Timing) -> Self {
        Self {
            initial,
            stable: 0.9,
            last: 0.1,
            timing,
        }
    }
}

impl Schedule for StableThenDecay {
    fn turnover(&self, step: u64) -> Option<Turnover> {
        self.timing.index(step)?;
        let past = (self.timing.progress(step) - self.stable).max(0.0) / (1.0 - self.stable);
        let factor = 1.0 - past * (1.0 - self.last);
        Turnover::replace(self.initial * factor).unless_zero()
    }

    fn validate(&self) -> Result<(), DstError> {
        check_fraction("drop fraction", self.initial)?;
        check_fraction("stable share of the run", self.stable)?;
        check_fraction("last share of the drop fraction", self.last)?;
        self.timing.validate_bounded("stable-then-decay")
    }
}
