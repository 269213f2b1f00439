use crate::{
    ConfigError, OptimizerChoice, Options,
    output::{counted, short},
};
use clap::{ValueEnum, builder::PossibleValue};
use serde::{Deserialize, Serialize};
use snack_burn::{
    dst::{DstConfig, Preset, StatePolicy, schedule::AnySchedule},
    pattern::Profile,
};

/// How the topology changes during training: a preset of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Method(pub Preset);

/// Updates after which a method that only prunes stops: at 5 % each, half of the connections are
/// gone.
const PRUNINGS: u64 = 14;

static ALL: [Method; Preset::ALL.len()] = {
    let mut all = [Method::STATIC; Preset::ALL.len()];
    let mut index = 0;
    while index < all.len() {
        all[index] = Method(Preset::ALL[index]);
        index += 1;
    }
    all
};

impl ValueEnum for Method {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.about()))
    }
}

impl core::fmt::Display for Method {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

impl Method {
    /// The topology stays as it was drawn.
    pub const STATIC: Self = Self(Preset::Static);
    /// Sparse evolutionary training as its authors published it.
    pub const SET: Self = Self(Preset::SetOriginal);

    /// Whether the topology changes.
    pub fn changes(self) -> bool {
        self != Self::STATIC
    }

    fn about(self) -> &'static str {
        match self.0 {
            Preset::Static => "The topology stays as it was drawn",
            Preset::Set => "Sparse evolutionary training, simplified: magnitudes, newcomers at 0",
            Preset::SetOriginal => {
                "Sparse evolutionary training as published: by sign, N(0, 0.1^2)"
            }
            Preset::SnackGamlp => {
                "SNACK's recipe for GAMLP: 5 % every eighth of the run, until 5/8"
            }
            Preset::Rigl => "RigL: the largest gradients enter",
            Preset::RiglItop => "RigL with long intervals (in-time over-parameterization)",
            Preset::SetItop => "SET with long intervals (in-time over-parameterization)",
            Preset::MestEm => "MEST: magnitude and gradient decide, in stages",
            Preset::MestEms => "MEST with a surplus of connections between updates",
            Preset::Smet => "SMET: SET on a cosine; made for Adam",
            Preset::Guided => {
                "SET that grows on paths from pixels to classes; differs above 99 % sparsity"
            }
            Preset::Gse => "Guided stochastic exploration: the best of random candidates enter",
            Preset::FixedFanInSet => "SET with equal fan-ins",
            Preset::Srigl => "RigL with equal fan-ins and removal of weak neurons",
            Preset::Psn => "RigL from log-normal fan-ins",
            Preset::Dadp => "Activity-dependent pruning, to half of the connections",
            Preset::Snfs => "Sparse momentum, approximately",
            Preset::DeepR => "Deep rewiring, approximately: flipped signs leave",
        }
    }

    /// How many inputs the units of a layer start with.
    pub fn profile(self) -> Profile {
        match self.0 {
            Preset::FixedFanInSet | Preset::Srigl => Profile::Constant,
            Preset::Psn => Profile::LogNormal { cv: 0.5 },
            _ => Profile::Free,
        }
    }

    /// Whether it was published with an update after every epoch, except the last.
    fn goes_by_epochs(self) -> bool {
        matches!(
            self.0,
            Preset::Set | Preset::SetOriginal | Preset::Guided | Preset::FixedFanInSet
        )
    }

    /// Whether shares come from stages that no single number can take the place of.
    pub fn has_stages(self) -> bool {
        matches!(self.0, Preset::MestEm | Preset::MestEms)
    }
}

impl Options {
    /// The topology updates of a run.
    pub fn topology(&self, seed: u64, steps_per_epoch: u64) -> DstConfig {
        let steps = self.epochs as u64 * steps_per_epoch;
        let mut config = match (self.method.0, self.update_every) {
            // Whose stages end with an update.
            (Preset::MestEms, Some(every)) => DstConfig::mest_ems_every(steps, every),
            (preset, _) => preset.config(steps),
        };
        config.seed = seed;
        if self.method.goes_by_epochs() {
            // One step into the epoch, so that the test between epochs sees trained connections.
            let start = steps_per_epoch + 1;
            config = config
                .with_every(steps_per_epoch)
                .with_start(start)
                .with_stop(Some(steps.max(start)));
        }
        if let Some(every) = self.update_every {
            config.every = every;
            config.start = 0;
            if let Some(AnySchedule::Staircase(staircase)) = &mut config.schedule {
                staircase.timing.interval = every;
            }
        }
        if self.method == Method(Preset::Dadp) {
            config.stop = Some(PRUNINGS.saturating_mul(config.every));
        }
        if let Some(share) = self.update_stop {
            let stop = (share * steps as f64).round() as u64;
            config.stop = Some(stop.max(config.start));
        }
        if self.optimizer == OptimizerChoice::Adam && config.state == StatePolicy::Zero {
            // Adam's shared step counter makes the first steps of newcomers too large.
            config.state = StatePolicy::Borrow;
        }
        if let Some(share) = self.drop_fraction {
            config.drop_fraction = share;
        }
        config
    }

    /// Whether the topology changes in a run of so many steps an epoch.
    ///
    /// # Returns
    ///
    /// What to tell the user if it does not, though the method would change it in a longer run.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if that is because of an option for its updates.
    pub fn check_updates(&self, steps_per_epoch: u64) -> Result<Option<String>, ConfigError> {
        let steps = self.epochs as u64 * steps_per_epoch;
        let config = self.topology(0, steps_per_epoch);
        if !self.method.changes() || config.updates_within(steps) > 0 {
            return Ok(None);
        }
        let method = self.method;
        if self.drop_fraction == Some(0.0) {
            let reason = "replaces nothing: choose a share above 0, or --method static";
            return Err(ConfigError::other(format!("--drop-fraction 0 {reason}")));
        }
        let given = [
            self.update_every
                .map(|every| format!("--update-every {every}")),
            self.update_stop
                .map(|share| format!("--update-stop {share}")),
        ];
        let given: Vec<String> = given.into_iter().flatten().collect();
        let run = format!(
            "this run of {} ({} each)",
            counted(self.epochs, "epoch"),
            counted(steps_per_epoch as usize, "step")
        );
        match given.is_empty() {
            false => Err(ConfigError::other(format!(
                "with {} {method} makes no topology update in {run}: choose a smaller interval, a \
                 later end or more --epochs",
                given.join(" and "),
            ))),
            true => Ok(Some(format!(
                "{method} makes no topology update in {run}; it needs more --epochs, or \
                 --update-every"
            ))),
        }
    }

    /// Refuses numbers that the method has no use for.
    pub(crate) fn check_method(&self) -> Result<(), ConfigError> {
        let refuse = |name, value: Option<f64>, reason| match value {
            Some(value) => {
                let reason = format!("with --method {}, {reason}", self.method);
                Err(ConfigError::no_effect(name, short(value), reason))
            }
            None => Ok(()),
        };
        if self.method.has_stages() {
            let reason = "whose shares come in stages";
            refuse("--drop-fraction", self.drop_fraction, reason)?;
            refuse("--update-stop", self.update_stop, reason)?;
        }
        if self.method == Method(Preset::DeepR) {
            let reason = "which replaces whatever flips its sign";
            refuse("--drop-fraction", self.drop_fraction, reason)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(preset: Preset) -> Options {
        Options {
            method: Method(preset),
            ..Options::default()
        }
    }

    #[test]
    fn set_updates_between_epochs() {
        let config = options(Preset::SetOriginal).topology(3, 50);
        // 399 updates, the first at step 51, the last at step 19 951 of 20 000.
        assert_eq!(
            (config.every, config.start, config.stop),
            (50, 51, Some(20_000))
        );
        assert_eq!((config.drop_fraction, config.seed), (0.3, 3));
    }

    #[test]
    fn given_numbers_take_the_place_of_the_preset_s() {
        let options = Options {
            update_every: Some(7),
            drop_fraction: Some(0.1),
            ..options(Preset::Rigl)
        };
        let config = options.topology(0, 50);
        assert_eq!((config.every, config.drop_fraction), (7, 0.1));
        assert_eq!(config.stop, Some(15_000));

        let options = Options {
            update_stop: Some(0.5),
            ..options
        };
        assert_eq!(options.topology(0, 50).stop, Some(10_000));
    }

    #[test]
    fn runs_without_updates_are_noticed() {
        let checked = |preset, epochs, change: fn(&mut Options)| {
            let mut options = Options {
                epochs,
                ..options(preset)
            };
            change(&mut options);
            let checked = options.check_updates(50);
            checked.map_err(|error| error.to_string())
        };
        let nothing = |_: &mut Options| {};
        assert_eq!(checked(Preset::SetOriginal, 2, nothing), Ok(None));
        assert_eq!(checked(Preset::Static, 1, nothing), Ok(None));
        let warning = checked(Preset::SetOriginal, 1, nothing).unwrap().unwrap();
        assert_eq!(
            warning,
            "set-original makes no topology update in this run of 1 epoch (50 steps each); it needs \
             more --epochs, or --update-every"
        );
        for preset in Preset::ALL {
            let late = checked(preset, 2, |o| o.update_every = Some(101));
            match preset {
                Preset::Static => assert_eq!(late, Ok(None)),
                _ => {
                    let error = late.unwrap_err();
                    assert!(error.starts_with("with --update-every 101 "), "{error}");
                }
            }
        }
        let zero = checked(Preset::Rigl, 400, |o| o.drop_fraction = Some(0.0));
        assert!(
            zero.unwrap_err()
                .starts_with("--drop-fraction 0 replaces nothing")
        );
        let early = checked(Preset::Rigl, 2, |o| o.update_stop = Some(0.001));
        assert!(early.unwrap_err().contains("--update-stop 0.001"));
    }

    #[test]
    fn with_adam_newcomers_borrow_unless_they_have_clocks() {
        let state = |preset, optimizer| {
            let options = Options {
                optimizer,
                ..options(preset)
            };
            options.topology(0, 50).state
        };
        assert_eq!(state(Preset::Set, OptimizerChoice::Sgd), StatePolicy::Zero);
        assert_eq!(
            state(Preset::Set, OptimizerChoice::Adam),
            StatePolicy::Borrow
        );
        assert_eq!(
            state(Preset::Smet, OptimizerChoice::Adam),
            StatePolicy::LocalClock
        );
    }

    #[test]
    fn names_and_helps_are_there_for_all_presets() {
        let values: Vec<_> = Method::value_variants()
            .iter()
            .map(|method| method.to_possible_value().unwrap())
            .collect();
        assert_eq!(values.len(), Preset::ALL.len());
        assert_eq!(values[0].get_name(), "static");
        assert!(values.iter().all(|value| value.get_help().is_some()));
    }
}
