use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::base::check_fraction;
use super::{Schedule, Timing, Turnover};
use crate::dst::DstError;

/// `f0 / 2 (1 + cos(pi p))` at progress `p`, none at `p = 1`: RigL (Evci et al., 2020), SRigL, GSE.
///
/// The progress counts from the first update, so that a warm start begins with all of `f0`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cosine {
    /// Share of the connections that is replaced at the start, `f0`.
    pub initial: f64,
    /// When updates happen; needs a stop.
    pub timing: Timing,
}

/// `f_min + (f0 - f_min) / 2 (1 + cos(pi p))` at progress `p`: SNFS, ITOP, SMET (`f_min` 0.005).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CosineFloor {
    /// Share of the connections that is replaced at the start, `f0`.
    pub initial: f64,
    /// Share of the connections that is replaced at the end, `f_min`.
    pub floor: f64,
    /// When updates happen; needs a stop.
    pub timing: Timing,
}

/// Falls from 1 to 0 as the progress goes from 0 to 1.
fn half_wave(progress: f64) -> f64 {
    0.5 * (1.0 + (PI * progress).cos())
}

impl Schedule for Cosine {
    fn turnover(&self, step: u64) -> Option<Turnover> {
        self.timing.index(step)?;
        let fraction = self.initial * half_wave(self.timing.progress(step));
        Turnover::replace(fraction).unless_zero()
    }

    fn validate(&self) -> Result<(), DstError> {
        check_fraction("drop fraction", self.initial)?;
        self.timing.validate_bounded("cosine")
    }
}

impl Schedule for CosineFloor {
    fn turnover(&self, step: u64) -> Option<Turnover> {
        self.timing.index(step)?;
        let range = self.initial - self.floor;
        let fraction = self.floor + range * half_wave(self.timing.progress(step));
        Turnover::replace(fraction).unless_zero()
    }

    fn validate(&self) -> Result<(), DstError> {
        check_fraction("drop fraction", self.initial)?;
        check_fraction("smallest drop fraction", self.floor)?;
        self.timing.validate_bounded("cosine")
    }
}
