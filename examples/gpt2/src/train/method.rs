use crate::{
    ConfigError, Gpt2, TrainOptions,
    fused::{FusedAdamW, FusedAdamWConfig},
};
use burn::{module::ParamGroup, optim::ModuleOptimizer};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use snack_burn::{
    dst::{LocalClockAdamConfig, Preset, StatePolicy, schedule::AnySchedule},
    pattern::Profile,
    prelude::*,
};

/// Decays of the moments of AdamW.
const BETAS: (f32, f32) = (0.9, 0.95);
/// Added to the root of its second moment.
const EPSILON: f32 = 1e-8;

/// Takes the name of a preset on a command line.
pub(crate) fn method_parser() -> impl TypedValueParser<Value = Preset> {
    PossibleValuesParser::new(Preset::ALL.map(Preset::name)).try_map(|name| name.parse::<Preset>())
}

/// How many inputs the units of sparse layers start with.
pub(crate) fn profile_of(method: Preset) -> Profile {
    match method {
        Preset::FixedFanInSet | Preset::Srigl => Profile::Constant,
        Preset::Psn => Profile::LogNormal { cv: 0.5 },
        _ => Profile::Free,
    }
}

impl TrainOptions {
    /// The topology updates of the run, `None` if there are none.
    pub(crate) fn topology(&self, model: &Gpt2, state: DstState) -> Result<Option<Dst>, DstError> {
        if !self.updates_topology() {
            return Ok(None);
        }
        let (steps, every) = (self.steps as u64, self.update_every as u64);
        let config = match self.method {
            // Its stages end at updates.
            Preset::MestEms => DstConfig::mest_ems_every(steps, every),
            method => method.config(steps),
        };
        let mut config = config.with_seed(self.seed);
        config.every = every;
        if let Some(AnySchedule::Staircase(staircase)) = &mut config.schedule {
            staircase.timing.interval = config.every;
        } else {
            config.stop = Some(self.last_update() as u64);
        }
        if let Some(share) = self.drop_fraction {
            config.drop_fraction = share;
        }
        config.init_from(model, state).map(Some)
    }

    /// AdamW for everything, without decay for biases and layer norms; with a step counter for every
    /// connection where the method asks for one.
    pub(crate) fn optimizer(&self) -> ModuleOptimizer {
        let matrices = ParamGroup::from_regex(r"(weight|values)$").expect("the pattern is valid");
        if self.method.config(self.steps as u64).state == StatePolicy::LocalClock {
            let config = |decay| {
                LocalClockAdamConfig::adamw(decay)
                    .with_beta_1(BETAS.0)
                    .with_beta_2(BETAS.1)
                    .with_epsilon(EPSILON)
            };
            let values = ParamGroup::from_regex(r"values$").expect("the pattern is valid");
            let dense = adamw(self.weight_decay);
            return config(0.0)
                .init()
                .with_group(matrices, dense, None)
                .with_group(values, config(self.weight_decay).build(), None);
        }
        ModuleOptimizer::from(adamw(0.0)).with_group(matrices, adamw(self.weight_decay), None)
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

fn adamw(weight_decay: f32) -> FusedAdamW {
    FusedAdamW::new(FusedAdamWConfig {
        beta_1: BETAS.0,
        beta_2: BETAS.1,
        epsilon: EPSILON,
        weight_decay,
    })
}
