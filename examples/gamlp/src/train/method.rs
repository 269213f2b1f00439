use super::TrainOptions;
use crate::{ConfigError, Gamlp, GamlpConfig, NodeTask};
use burn::optim::{AdamConfig, ModuleOptimizer, decay::WeightDecayConfig};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use snack_burn::{
    dst::{LocalClockAdamConfig, Preset, StatePolicy, schedule::AnySchedule},
    pattern::Profile,
    prelude::*,
};

/// Added to the root of the second moment of Adam, as PyTorch does.
const EPSILON: f32 = 1e-8;

/// Takes the name of a preset on a command line.
pub(crate) fn method_parser() -> impl TypedValueParser<Value = Preset> {
    PossibleValuesParser::new(Preset::ALL.map(Preset::name)).try_map(|name| name.parse::<Preset>())
}

/// How many inputs the units of sparse layers start with.
fn profile_of(method: Preset) -> Profile {
    match method {
        Preset::FixedFanInSet | Preset::Srigl => Profile::Constant,
        Preset::Psn => Profile::LogNormal { cv: 0.5 },
        _ => Profile::Free,
    }
}

impl TrainOptions {
    /// The options with what they have to take from the graph and from the method: numbers of
    /// features and classes, and how many inputs units start with.
    pub fn fitted_to(mut self, task: &NodeTask) -> Self {
        self.model = GamlpConfig {
            features: task.features(),
            classes: task.classes(),
            profile: profile_of(self.method),
            ..self.model
        };
        self
    }

    /// The topology updates of a stage, `None` if there are none.
    ///
    /// `epoch` is the number of steps of an epoch.
    pub(crate) fn topology(
        &self,
        model: &Gamlp,
        state: DstState,
        stage: usize,
        epoch: usize,
    ) -> Result<Option<Dst>, DstError> {
        if !self.updates_topology() {
            return Ok(None);
        }
        let steps = (self.epochs[stage] * epoch) as u64;
        let every = (self.update_every * epoch) as u64;
        let config = match self.method {
            // Its stages end at updates.
            Preset::MestEms => DstConfig::mest_ems_every(steps, every),
            method => method.config(steps),
        };
        let mut config = config.with_seed(self.stage_seed(stage));
        config.every = every;
        if let Some(AnySchedule::Staircase(staircase)) = &mut config.schedule {
            staircase.timing.interval = config.every;
        } else {
            config.stop = Some((self.last_update(stage) * epoch) as u64);
        }
        if let Some(share) = self.drop_fraction {
            config.drop_fraction = share;
        }
        config.init_from(model, state).map(Some)
    }

    /// Adam, with a step counter for every connection where the method asks for one.
    pub fn optimizer(&self) -> ModuleOptimizer {
        if self.method.config(1).state == StatePolicy::LocalClock {
            return LocalClockAdamConfig::new()
                .with_epsilon(EPSILON)
                .with_weight_decay(self.weight_decay)
                .init();
        }
        let decay = Some(WeightDecayConfig::new(self.weight_decay));
        AdamConfig::new()
            .with_epsilon(EPSILON)
            .with_weight_decay(decay.filter(|decay| decay.penalty != 0.0))
            .init()
    }

    /// Refuses numbers that the method has no use for.
    pub(crate) fn check_method(&self) -> Result<(), ConfigError> {
        let reason = match self.method {
            Preset::MestEm | Preset::MestEms => "whose shares come in stages",
            Preset::DeepR => "which replaces whatever flips its sign",
            _ => return Ok(()),
        };
        match self.drop_fraction {
            Some(share) => {
                let allowed = format!("left out with --method {}, {reason}", self.method);
                Err(ConfigError::new("--drop-fraction", share, allowed))
            }
            None => Ok(()),
        }
    }
}
