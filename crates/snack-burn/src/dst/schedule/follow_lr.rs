use burn::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use serde::{Deserialize, Serialize};

use super::base::check_fraction;
use super::{Schedule, Timing, Turnover};
use crate::dst::DstError;

/// `f0 lr(t) / max lr`: the turnover falls with the learning rate, as in the RigL and SET runs of
/// "Gradient Flow in Sparse Neural Networks" (Evci et al., 2022).
///
/// The largest rate takes the place of the first one, with which it agrees unless the learning rate
/// is warmed up. The rates of the whole run are evaluated when the schedule is made, and one number
/// per update is kept, so that it stays a pure function of the step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FollowLearningRate {
    fractions: Vec<f64>,
    timing: Timing,
}

impl FollowLearningRate {
    /// A schedule that follows any function of the step.
    ///
    /// # Arguments
    ///
    /// * `initial` - share of the connections that is replaced at the largest rate, `f0`.
    /// * `timing` - when updates happen; needs a stop.
    /// * `rate` - the learning rate of a step, called once for each of `1..=stop`, in order.
    ///
    /// # Errors
    ///
    /// `initial` is not in `[0, 1)`, the timing is wrong, or [`DstError::InvalidParameter`] for a
    /// rate that is negative or not finite, and if all are 0.
    pub fn new(
        initial: f64,
        timing: Timing,
        mut rate: impl FnMut(u64) -> f64,
    ) -> Result<Self, DstError> {
        check_fraction("drop fraction", initial)?;
        timing.validate_bounded("follow-the-learning-rate")?;
        let mut largest = 0.0f64;
        let mut fractions = Vec::new();
        for step in 1..=timing.stop.unwrap_or(0) {
            let value = rate(step);
            if !(value >= 0.0 && value.is_finite()) {
                return Err(invalid_rate(value, "a finite number of at least 0"));
            }
            largest = largest.max(value);
            if timing.index(step).is_some() {
                fractions.push(value);
            }
        }
        if largest == 0.0 && !fractions.is_empty() {
            return Err(invalid_rate(0.0, "one above 0 in some step"));
        }
        for fraction in &mut fractions {
            *fraction = initial * (*fraction / largest);
        }
        Ok(Self { fractions, timing })
    }

    pub(super) fn timing(&self) -> Timing {
        self.timing
    }

    /// A schedule that follows the base rate of a scheduler of Burn, from its present state on.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn of_scheduler(
        initial: f64,
        timing: Timing,
        scheduler: impl Into<ModuleLrScheduler>,
    ) -> Result<Self, DstError> {
        let mut scheduler = scheduler.into();
        Self::new(initial, timing, |_| scheduler.step().base())
    }
}

fn invalid_rate(value: f64, expected: &'static str) -> DstError {
    DstError::InvalidParameter {
        what: "learning rate",
        value,
        expected,
    }
}

impl Schedule for FollowLearningRate {
    fn turnover(&self, step: u64) -> Option<Turnover> {
        let index = usize::try_from(self.timing.index(step)?).ok()?;
        Turnover::replace(*self.fractions.get(index)?).unless_zero()
    }

    fn validate(&self) -> Result<(), DstError> {
        for &fraction in &self.fractions {
            check_fraction("drop fraction", fraction)?;
        }
        self.timing.validate_bounded("follow-the-learning-rate")
    }
}
