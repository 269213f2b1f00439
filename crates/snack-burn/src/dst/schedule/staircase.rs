use serde::{Deserialize, Serialize};

use super::{Schedule, Timing, Turnover};
use crate::dst::DstError;

/// A turnover of its own for every stage of a run: MEST (Yuan et al., 2021).
///
/// Drop and grow may differ. Where an update of MEST's soft memory bound drops the surplus of one
/// stage and grows the smaller surplus of the next, that update is a stage of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Staircase {
    /// The stages, by increasing last step. After the last one there are no updates.
    pub stages: Vec<Stage>,
    /// When updates happen.
    pub timing: Timing,
}

/// One stage of a [`Staircase`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Last step of the stage.
    pub until: u64,
    /// What every update of the stage replaces.
    pub turnover: Turnover,
}

impl Staircase {
    /// The number of updates in steps `1..=steps`.
    pub(super) fn updates_within(&self, steps: u64) -> u64 {
        let mut before = 0;
        let mut count = 0;
        for stage in &self.stages {
            let until = self.timing.updates_within(stage.until.min(steps));
            if stage.turnover.unless_zero().is_some() {
                count += until.saturating_sub(before);
            }
            before = until;
        }
        count
    }
}

impl Schedule for Staircase {
    fn turnover(&self, step: u64) -> Option<Turnover> {
        self.timing.index(step)?;
        let stage = self.stages.partition_point(|stage| stage.until < step);
        self.stages.get(stage)?.turnover.unless_zero()
    }

    fn validate(&self) -> Result<(), DstError> {
        for stage in &self.stages {
            stage.turnover.validate()?;
        }
        for (position, pair) in self.stages.windows(2).enumerate() {
            let [previous, until] = [pair[0].until, pair[1].until];
            if until <= previous {
                return Err(DstError::StagesOutOfOrder {
                    position: position + 1,
                    until,
                    previous,
                });
            }
        }
        self.timing.validate()
    }
}
