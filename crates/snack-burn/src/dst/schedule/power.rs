use serde::{Deserialize, Serialize};

use super::base::check_fraction;
use super::{Schedule, Timing, Turnover};
use crate::dst::DstError;

/// `f0 (1 - p)^k` at progress `p`: an option of RigL, with an exponent `k` of 1 or 3.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// Share of the connections that is replaced at the start, `f0`.
    pub initial: f64,
    /// The exponent `k`, above 0.
    pub exponent: f64,
    /// When updates happen; needs a stop.
    pub timing: Timing,
}

impl Schedule for Power {
    fn turnover(&self, step: u64) -> Option<Turnover> {
        self.timing.index(step)?;
        let rest = 1.0 - self.timing.progress(step);
        Turnover::replace(self.initial * rest.powf(self.exponent)).unless_zero()
    }

    fn validate(&self) -> Result<(), DstError> {
        check_fraction("drop fraction", self.initial)?;
        if !(self.exponent > 0.0 && self.exponent.is_finite()) {
            return Err(DstError::InvalidParameter {
                what: "exponent of a power schedule",
                value: self.exponent,
                expected: "a finite number above 0",
            });
        }
        self.timing.validate_bounded("power")
    }
}
