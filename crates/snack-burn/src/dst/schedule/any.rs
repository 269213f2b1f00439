use serde::{Deserialize, Serialize};

use super::{
    Constant, Cosine, CosineFloor, FollowLearningRate, Linear, Power, Schedule, ShareOf,
    StableThenDecay, Staircase, Timing, Turnover,
};
use crate::dst::DstError;

/// Any schedule of this module, for configurations that are read from files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum AnySchedule {
    /// [`Constant`].
    Constant(Constant),
    /// [`Cosine`].
    Cosine(Cosine),
    /// [`CosineFloor`].
    CosineFloor(CosineFloor),
    /// [`Linear`].
    Linear(Linear),
    /// [`Power`].
    Power(Power),
    /// [`Staircase`].
    Staircase(Staircase),
    /// [`StableThenDecay`].
    StableThenDecay(StableThenDecay),
    /// [`FollowLearningRate`].
    FollowLearningRate(FollowLearningRate),
}

impl AnySchedule {
    fn timing(&self) -> Timing {
        match self {
            Self::Constant(schedule) => schedule.timing,
            Self::Cosine(schedule) => schedule.timing,
            Self::CosineFloor(schedule) => schedule.timing,
            Self::Linear(schedule) => schedule.timing,
            Self::Power(schedule) => schedule.timing,
            Self::Staircase(schedule) => schedule.timing,
            Self::StableThenDecay(schedule) => schedule.timing,
            Self::FollowLearningRate(schedule) => schedule.timing(),
        }
    }

    /// The number of updates in a run of so many optimizer steps: how often the topology may
    /// change, which is never where the turnover is 0 or the first update comes after the run.
    pub fn updates_within(&self, steps: u64) -> u64 {
        let timing = self.timing();
        match self {
            Self::Staircase(staircase) => staircase.updates_within(steps),
            Self::FollowLearningRate(_) => {
                let updates = (0..timing.updates_within(steps)).map(|index| timing.step_of(index));
                updates
                    .filter(|&step| self.turnover(step).is_some())
                    .count() as u64
            }
            // The others never rise from 0.
            _ => {
                let is_update = |index: u64| self.turnover(timing.step_of(index)).is_some();
                let mut count = timing.updates_within(steps);
                if count > 0 && !is_update(0) {
                    return 0;
                }
                while count > 0 && !is_update(count - 1) {
                    count -= 1;
                }
                count
            }
        }
    }

    /// Whether some turnover is a surplus over the initial number of connections.
    pub(crate) fn counts_from_initial(&self) -> bool {
        let is = |turnover: &Turnover| turnover.of == ShareOf::Initial;
        match self {
            Self::Constant(schedule) => is(&schedule.turnover),
            Self::Staircase(schedule) => schedule.stages.iter().any(|stage| is(&stage.turnover)),
            _ => false,
        }
    }

    fn schedule(&self) -> &dyn Schedule {
        match self {
            Self::Constant(schedule) => schedule,
            Self::Cosine(schedule) => schedule,
            Self::CosineFloor(schedule) => schedule,
            Self::Linear(schedule) => schedule,
            Self::Power(schedule) => schedule,
            Self::Staircase(schedule) => schedule,
            Self::StableThenDecay(schedule) => schedule,
            Self::FollowLearningRate(schedule) => schedule,
        }
    }
}

impl Schedule for AnySchedule {
    fn turnover(&self, step: u64) -> Option<Turnover> {
        self.schedule().turnover(step)
    }

    fn captures(&self, step: u64, window: u64) -> bool {
        self.schedule().captures(step, window)
    }

    fn validate(&self) -> Result<(), DstError> {
        self.schedule().validate()
    }
}

macro_rules! impl_from_for_any {
    ($($name:ident),* $(,)?) => {
        $(
            impl From<$name> for AnySchedule {
                fn from(schedule: $name) -> Self {
                    Self::$name(schedule)
                }
            }
        )*
    };
}

impl_from_for_any!(
    Constant,
    Cosine,
    CosineFloor,
    Linear,
    Power,
    Staircase,
    StableThenDecay,
    FollowLearningRate,
);
