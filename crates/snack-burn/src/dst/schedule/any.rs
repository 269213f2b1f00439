use serde::{Deserialize, Serialize};

use super::{
    Constant, Cosine, CosineFloor, FollowLearningRate, Linear, Power, Schedule, StableThenDecay,
    Staircase, Turnover,
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
