use serde::{Deserialize, Serialize};

use crate::dst::DstError;

/// At which optimizer steps, counted from 1, a schedule updates: `start`, `start + interval` and
/// so on, up to and including `stop`. A `start` of 0 is not a step: the first update is then at
/// `interval`.
///
/// # Example
///
/// ```
/// use snack_burn::dst::schedule::Timing;
///
/// let timing = Timing::every(100).starting_at(250).until(500);
/// let steps: Vec<u64> = (1..1000).filter(|&step| timing.index(step).is_some()).collect();
/// assert_eq!(steps, [250, 350, 450]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Steps between updates, at least 1.
    pub interval: u64,
    /// Step of the first update (warm start), and where the progress of a schedule begins.
    pub start: u64,
    /// The topology is frozen after this step; `None` never freezes it.
    pub stop: Option<u64>,
}

impl Timing {
    /// Updates at all multiples of `interval`.
    pub fn every(interval: u64) -> Self {
        Self {
            interval,
            start: 0,
            stop: None,
        }
    }

    /// The same with a first update at step `start`.
    pub fn starting_at(self, start: u64) -> Self {
        Self { start, ..self }
    }

    /// The same without updates after step `stop`.
    pub fn until(self, stop: u64) -> Self {
        Self {
            stop: Some(stop),
            ..self
        }
    }

    /// How many updates come before the one at `step`; `None` if there is none at `step`.
    pub fn index(&self, step: u64) -> Option<u64> {
        let over = self.stop.is_some_and(|stop| step > stop);
        let since = step.checked_sub(self.start)?;
        let on_time = self.interval > 0 && since.is_multiple_of(self.interval);
        if over || !on_time || step == 0 {
            return None;
        }
        Some(since / self.interval - u64::from(self.start == 0))
    }

    /// The number of updates in steps `1..=steps`.
    pub fn updates_within(&self, steps: u64) -> u64 {
        let last = self.stop.map_or(steps, |stop| stop.min(steps));
        match last.checked_sub(self.start) {
            Some(since) if self.interval > 0 && last > 0 => {
                since / self.interval + u64::from(self.start > 0)
            }
            _ => 0,
        }
    }

    /// The step of the update with so many before it.
    pub(super) fn step_of(&self, index: u64) -> u64 {
        let intervals = index.saturating_add(u64::from(self.start == 0));
        self.start
            .saturating_add(intervals.saturating_mul(self.interval))
    }

    /// `(step - start) / (stop - start)`, within `[0, 1]`; 0 without a `stop`.
    pub fn progress(&self, step: u64) -> f64 {
        let Some(stop) = self.stop else { return 0.0 };
        let done = step.saturating_sub(self.start) as f64;
        match stop.saturating_sub(self.start) {
            0 => 1.0,
            all => (done / all as f64).min(1.0),
        }
    }

    /// Refuses an interval of 0 and a stop before the start.
    ///
    /// # Errors
    ///
    /// [`DstError::ZeroInterval`] or [`DstError::StopBeforeStart`].
    pub fn validate(&self) -> Result<(), DstError> {
        if self.interval == 0 {
            return Err(DstError::ZeroInterval);
        }
        match self.stop {
            Some(stop) if stop < self.start => Err(DstError::StopBeforeStart {
                start: self.start,
                stop,
            }),
            _ => Ok(()),
        }
    }

    /// As [`validate`](Self::validate), and a stop must be set.
    pub(super) fn validate_bounded(&self, schedule: &'static str) -> Result<(), DstError> {
        self.validate()?;
        match self.stop {
            Some(_) => Ok(()),
            None => Err(DstError::MissingStop { schedule }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(timing: Timing) -> Vec<u64> {
        (0..40)
            .filter(|&step| timing.index(step).is_some())
            .collect()
    }

    #[test]
    fn updates_from_start_to_stop() {
        assert_eq!(steps(Timing::every(10)), [10, 20, 30]);
        assert_eq!(steps(Timing::every(10).until(20)), [10, 20]);
        assert_eq!(steps(Timing::every(10).starting_at(5)), [5, 15, 25, 35]);
        assert_eq!(steps(Timing::every(10).starting_at(10).until(29)), [10, 20]);
        assert_eq!(steps(Timing::every(10).starting_at(7).until(7)), [7]);
        assert!(steps(Timing::every(50)).is_empty());
        assert!(steps(Timing::every(0)).is_empty());
    }

    #[test]
    fn updates_are_numbered_from_0() {
        for timing in [
            Timing::every(10),
            Timing::every(10).starting_at(3),
            Timing::every(10).starting_at(10),
        ] {
            let indices: Vec<u64> = (0..40).filter_map(|step| timing.index(step)).collect();
            assert_eq!(indices, Vec::from_iter(0..indices.len() as u64));
        }
    }

    #[test]
    fn updates_are_counted() {
        for timing in [
            Timing::every(10),
            Timing::every(10).until(20),
            Timing::every(10).starting_at(5),
            Timing::every(10).starting_at(10).until(29),
            Timing::every(10).starting_at(7).until(7),
            Timing::every(50),
            Timing::every(0),
        ] {
            let all = steps(timing);
            for last in 0..40 {
                let expected = all.iter().filter(|&&step| step <= last).count() as u64;
                assert_eq!(
                    timing.updates_within(last),
                    expected,
                    "{timing:?} to {last}"
                );
            }
            for (index, &step) in all.iter().enumerate() {
                assert_eq!(timing.step_of(index as u64), step, "{timing:?}");
            }
        }
        assert_eq!(Timing::every(1).updates_within(u64::MAX), u64::MAX);
    }

    #[test]
    fn progress_runs_from_start_to_stop() {
        let timing = Timing::every(10).starting_at(100).until(300);
        assert_eq!(
            [0, 100, 150, 300, 999].map(|step| timing.progress(step)),
            [0.0, 0.0, 0.25, 1.0, 1.0]
        );
        assert_eq!(Timing::every(10).progress(70), 0.0);
        assert_eq!(Timing::every(1).starting_at(5).until(5).progress(5), 1.0);
    }

    #[test]
    fn refuses_what_cannot_update() {
        assert_eq!(Timing::every(0).validate(), Err(DstError::ZeroInterval));
        assert_eq!(
            Timing::every(1).starting_at(5).until(4).validate(),
            Err(DstError::StopBeforeStart { start: 5, stop: 4 })
        );
        assert_eq!(Timing::every(1).starting_at(5).until(5).validate(), Ok(()));
        assert_eq!(
            Timing::every(1).validate_bounded("cosine"),
            Err(DstError::MissingStop { schedule: "cosine" })
        );
    }
}
