//! Configuration of topology updates.

use burn::config::Config;

use super::schedule::Constant;
use super::{Dst, DstState, Magnitude, Timing, Uniform};

/// Configuration of a [`Dst`] that prunes by magnitude and regrows uniformly.
#[derive(Config, Debug)]
pub struct DstConfig {
    /// Share of each layer's connections that an update replaces, in `[0, 1]`.
    #[config(default = 0.3)]
    pub drop_fraction: f64,
    /// Optimizer steps between updates.
    #[config(default = 100)]
    pub every: u64,
    /// Last step at which an update may happen; `None` never stops.
    pub stop: Option<u64>,
    /// Seed of the random regrowth.
    #[config(default = 0)]
    pub seed: u64,
}

impl DstConfig {
    /// SET in its simplified form (Mocanu et al., 2018): the smallest magnitudes leave, uniformly
    /// drawn coordinates enter with value zero, 30 % every 100 steps.
    pub fn set() -> Self {
        Self::new()
    }

    /// The updater at step 0.
    ///
    /// # Panics
    ///
    /// Panics if `drop_fraction` is not in `[0, 1]` or `every` is 0.
    pub fn init(&self) -> Dst {
        self.init_from(DstState { step: 0 })
    }

    /// The updater of an interrupted run; with the same configuration it continues as if
    /// uninterrupted.
    ///
    /// # Panics
    ///
    /// As [`init`](Self::init).
    pub fn init_from(&self, state: DstState) -> Dst {
        assert!(
            (0.0..=1.0).contains(&self.drop_fraction),
            "DstConfig: drop_fraction must be in [0, 1], got {}",
            self.drop_fraction
        );
        assert!(self.every > 0, "DstConfig: every must be at least 1, got 0");
        let timing = Timing {
            stop: self.stop,
            ..Timing::every(self.every)
        };
        let schedule = Constant::new(self.drop_fraction, timing);
        Dst::new(Magnitude, Uniform, schedule, self.seed).at(state)
    }
}
