//! Configuration of topology updates.

use burn::config::Config;
use burn::module::{Module, ParamGroup};
use serde::{Deserialize, Serialize};

use super::schedule::{
    AnySchedule, Constant, Cosine, CosineFloor, Linear, Power, Schedule, StableThenDecay,
    Staircase, Timing, Turnover,
};
use super::{
    Activity, CandidateLaw, Composed, Dst, DstError, DstState, FreshValue, GradientTopK, Grow,
    LayerGraph, Magnitude, MagnitudePlusGradient, Method, Prune, Redistribute, Rule, SRigL,
    Sampled, Scope, SignBalanced, SignFlip, StatePolicy, Static, Unfired, Uniform,
};
use crate::tensor::GradientFactors;

/// Configuration of a [`Dst`], from one of the presets below. The module explains the
/// [words](crate::dst#words).
///
/// ```
/// use burn::tensor::Device;
/// use snack_burn::prelude::*;
///
/// let device = Device::default();
/// let model = SparseLinearConfig::new(20, 10).init(&device);
/// let dst = DstConfig::rigl(1000).with_every(50).init(&model)?;
/// # Ok::<(), DstError>(())
/// ```
#[derive(Config, Debug)]
pub struct DstConfig {
    /// A rule that is no composition of the pieces below, and takes the place of them.
    pub special: Option<SpecialConfig>,
    /// Which connections leave.
    #[config(default = "PruneConfig::Magnitude")]
    pub prune: PruneConfig,
    /// Which connections enter.
    #[config(default = "GrowConfig::Uniform")]
    pub grow: GrowConfig,
    /// Where quotas apply.
    #[config(default = "Scope::Layer")]
    pub scope: Scope,
    /// Who gets the places that a scope of the network frees.
    #[config(default = "Redistribute::ByRank")]
    pub redistribute: Redistribute,
    /// Values of connections that enter, and whether one that just left may return.
    #[config(default = "FreshValue::Zero")]
    pub fresh: FreshValue,
    /// Optimizer state of connections that enter.
    #[config(default = "StatePolicy::Zero")]
    pub state: StatePolicy,
    /// Share of the connections that an update replaces, in `[0, 1)`.
    #[config(default = 0.3)]
    pub drop_fraction: f64,
    /// How that share changes over the run.
    #[config(default = "Anneal::Constant")]
    pub anneal: Anneal,
    /// Optimizer steps between updates.
    #[config(default = 100)]
    pub every: u64,
    /// Step of the first update, and the origin of the annealing; 0: the first is at `every`.
    #[config(default = 0)]
    pub start: u64,
    /// Last step at which an update may happen; `None` never stops.
    pub stop: Option<u64>,
    /// A schedule that takes the place of `drop_fraction`, `anneal`, `every`, `start` and `stop`.
    pub schedule: Option<AnySchedule>,
    /// Optimizer steps whose gradients a grow criterion collects, up to and including the update.
    #[config(default = 1)]
    pub accumulate: u64,
    /// Rows of a batch that are kept of captured factors, drawn at random; `None` keeps all.
    pub max_rows: Option<usize>,
    /// Bytes of panels in which the gradient is scanned; a panel has one row at least.
    #[config(default = "GradientFactors::SCRATCH")]
    pub scratch_bytes: usize,
    /// How much reachability decides, in `[0, 1]`; see
    /// [`Composed::guidance`](super::Composed::guidance).
    pub guidance: Option<f64>,
    /// How the layers are connected, for reachability; `None` is a chain in the order of the model.
    pub graph: Option<LayerGraph>,
    /// Connections younger than so many steps do not leave.
    #[config(default = 0)]
    pub grace: u32,
    /// Seed of all that is random.
    #[config(default = 0)]
    pub seed: u64,
}

/// Which connections leave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum PruneConfig {
    /// [`Magnitude`].
    Magnitude,
    /// [`SignBalanced`].
    SignBalanced,
    /// [`MagnitudePlusGradient`].
    MagnitudePlusGradient {
        /// Weight of the gradient.
        lambda: f32,
    },
    /// [`Activity`].
    Activity(ActivityConfig),
}

/// A rule that is no composition of a prune and a grow criterion.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum SpecialConfig {
    /// Nothing ever changes.
    Static,
    /// [`SRigL`].
    SRigL {
        /// Salient share below which a neuron is removed; `None` removes none.
        ablation: Option<f64>,
    },
    /// [`SignFlip`], the approximate DeepR.
    SignFlip,
}

/// How activity scores are accumulated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ActivityConfig {
    /// What is left of a score after a step, in `[0, 1]`; 1 forgets nothing.
    pub decay: f32,
    /// What a step adds: `sum_b |x g|` if true, else `|sum_b x g|`, the gradient's magnitude.
    pub per_sample: bool,
}

impl ActivityConfig {
    fn validate(&self) -> Result<(), DstError> {
        match (0.0..=1.0).contains(&self.decay) {
            true => Ok(()),
            false => Err(DstError::InvalidParameter {
                what: "decay of activity",
                value: f64::from(self.decay),
                expected: "a number in [0, 1]",
            }),
        }
    }
}

/// Which connections enter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum GrowConfig {
    /// None.
    Nothing,
    /// [`Uniform`].
    Uniform,
    /// [`Unfired`].
    Unfired,
    /// [`GradientTopK`].
    GradientTopK,
    /// [`Sampled`].
    Sampled {
        /// How candidates are drawn.
        law: CandidateLaw,
        /// Candidates as a multiple of the connections.
        candidates: f64,
    },
}

/// How the turnover changes between the first update and the last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Anneal {
    /// Not at all.
    Constant,
    /// Half a cosine wave down to 0.
    Cosine,
    /// Half a cosine wave down to a floor.
    CosineFloor {
        /// The last share.
        floor: f64,
    },
    /// A straight line to 0.
    Linear,
    /// `(1 - progress)^exponent`.
    Power {
        /// The exponent.
        exponent: f64,
    },
    /// Constant for 90 % of the run, then a straight line to a tenth.
    StableThenDecay,
}

impl DstConfig {
    /// The updater of a model, at step 0.
    ///
    /// # Errors
    ///
    /// A drop fraction outside `[0, 1)`, an interval of 0, a stop before the start, an annealed
    /// schedule without a stop, other numbers out of range (whether or not the rule looks at them),
    /// pieces that exclude each other, a model without sparse layers, or one with tied layers.
    pub fn init<M: Module>(&self, model: &M) -> Result<Dst, DstError> {
        self.init_from(model, DstState::default())
    }

    /// The updater of an interrupted run; with the same configuration it continues as if
    /// uninterrupted.
    ///
    /// # Errors
    ///
    /// As [`init`](Self::init), and if the state belongs to other layers, to other coordinates, or
    /// to a rule that keeps or looks at other things. [`DstState::at_step`] is a state for any rule.
    pub fn init_from<M: Module>(&self, model: &M, state: DstState) -> Result<Dst, DstError> {
        Dst::new(model, self.rule()?, self.seed, state)
    }

    /// As [`init`](Self::init), for groups of parameters with rules of their own, `None` for a
    /// topology that stays. The last group that matches a layer decides, as in
    /// [`ModuleOptimizer::with_group`](burn::optim::ModuleOptimizer::with_group). Paths are those
    /// of the values, such as `blocks.0.fc.values`, or of the layer.
    ///
    /// # Errors
    ///
    /// As [`init_from`](Self::init_from), and if a group matches no sparse layer.
    pub fn init_groups<M: Module>(
        &self,
        model: &M,
        groups: Vec<(ParamGroup, Option<DstConfig>)>,
        state: DstState,
    ) -> Result<Dst, DstError> {
        let rules = groups
            .into_iter()
            .map(|(group, config)| Ok((group, config.map(|config| config.rule()).transpose()?)))
            .collect::<Result<_, DstError>>()?;
        Dst::with_groups(model, Some(self.rule()?), rules, self.seed, state)
    }

    /// The rule that this configuration describes.
    ///
    /// # Errors
    ///
    /// As [`init`](Self::init).
    pub fn rule(&self) -> Result<Rule, DstError> {
        self.validate_unused()?;
        match self.special {
            Some(SpecialConfig::Static) => {
                let never = Staircase {
                    stages: Vec::new(),
                    timing: Timing::every(1),
                };
                let config = self.clone().with_schedule(Some(never.into()));
                return config.rule_of(Static);
            }
            Some(SpecialConfig::SRigL { ablation }) => {
                return self.rule_of(SRigL::new(ablation)?);
            }
            Some(SpecialConfig::SignFlip) => return self.rule_of(SignFlip),
            None => {}
        }
        if self.scope == Scope::Row {
            let what = match self.grow {
                GrowConfig::Sampled { .. } => {
                    "sampled growth has no quotas per row, use the whole gradient"
                }
                _ if self.any_schedule().counts_from_initial() => {
                    "a surplus over the initial connections has no quotas per row, use the scope \
                     of the layer"
                }
                _ => "",
            };
            if !what.is_empty() {
                return Err(DstError::Incompatible { what });
            }
        }
        let prune: Box<dyn Prune> = match self.prune {
            PruneConfig::Magnitude => Box::new(Magnitude),
            PruneConfig::SignBalanced => Box::new(SignBalanced),
            PruneConfig::MagnitudePlusGradient { lambda } => {
                Box::new(MagnitudePlusGradient { lambda })
            }
            PruneConfig::Activity(_) => Box::new(Activity),
        };
        let grow: Option<Box<dyn Grow>> = match self.grow {
            GrowConfig::Nothing => None,
            GrowConfig::Uniform => Some(Box::new(Uniform)),
            GrowConfig::Unfired => Some(Box::new(Unfired)),
            GrowConfig::GradientTopK => Some(Box::new(GradientTopK)),
            GrowConfig::Sampled { law, candidates } => Some(Box::new(Sampled { law, candidates })),
        };
        let method = Composed {
            prune,
            grow,
            scope: self.scope,
            redistribute: self.redistribute,
            fresh: self.fresh.clone(),
            guidance: self.guidance,
            grace: self.grace,
            seed_state: matches!(self.state, StatePolicy::GradientSeed { .. }),
        };
        self.rule_of(method)
    }

    /// The number of updates in a run of so many optimizer steps; 0 where the first would come later,
    /// where nothing is to be replaced, and for a static topology.
    ///
    /// ```
    /// use snack_burn::prelude::*;
    ///
    /// assert_eq!(DstConfig::set().updates_within(1000), 10);
    /// assert_eq!(DstConfig::set().updates_within(99), 0);
    /// assert_eq!(DstConfig::static_pattern().updates_within(1000), 0);
    /// ```
    pub fn updates_within(&self, steps: u64) -> u64 {
        match self.special {
            Some(SpecialConfig::Static) => 0,
            _ => self.any_schedule().updates_within(steps),
        }
    }

    /// Refuses numbers out of range whether or not the rule looks at them, so that a slip is found
    /// before the day that it is looked at.
    fn validate_unused(&self) -> Result<(), DstError> {
        let fields = Self {
            schedule: None,
            ..self.clone()
        };
        match fields.any_schedule().validate() {
            // Only a schedule that is used must know its end.
            Err(DstError::MissingStop { .. }) | Ok(()) => {}
            Err(error) => return Err(error),
        }
        if let Some(SpecialConfig::SRigL { ablation }) = self.special {
            SRigL::new(ablation)?;
        }
        if let PruneConfig::MagnitudePlusGradient { lambda } = self.prune {
            MagnitudePlusGradient { lambda }.validate()?;
        }
        if let PruneConfig::Activity(activity) = self.prune {
            activity.validate()?;
        }
        if let GrowConfig::Sampled { law, candidates } = self.grow {
            Sampled { law, candidates }.validate()?;
        }
        if let Some(guidance) = self.guidance
            && !(0.0..=1.0).contains(&guidance)
        {
            return Err(DstError::InvalidParameter {
                what: "guidance",
                value: guidance,
                expected: "a number in [0, 1]",
            });
        }
        self.fresh.validate()
    }

    /// As [`rule`](Self::rule), with a method of one's own in the place of the pieces.
    ///
    /// # Errors
    ///
    /// As [`init`](Self::init).
    pub fn rule_of(&self, method: impl Method + 'static) -> Result<Rule, DstError> {
        let schedule = self.any_schedule();
        schedule.validate()?;
        let at_least = |what, value: f64, low: f64, expected| match value >= low {
            true => Ok(()),
            false => Err(DstError::InvalidParameter {
                what,
                value,
                expected,
            }),
        };
        at_least("accumulation", self.accumulate as f64, 1.0, "at least 1")?;
        let rows = self.max_rows.unwrap_or(usize::MAX) as f64;
        at_least("number of captured rows", rows, 1.0, "at least 1")?;
        method.validate()?;
        self.state.validate()?;
        Ok(Rule {
            method: Box::new(method),
            schedule: Box::new(schedule),
            state: self.state,
            accumulate: self.accumulate,
            max_rows: self.max_rows,
            scratch_bytes: self.scratch_bytes,
            graph: self.graph.clone(),
            activity: match self.prune {
                PruneConfig::Activity(activity) => Some(activity),
                _ => None,
            },
        })
    }

    fn any_schedule(&self) -> AnySchedule {
        if let Some(schedule) = &self.schedule {
            return schedule.clone();
        }
        let timing = Timing {
            interval: self.every,
            start: self.start,
            stop: self.stop,
        };
        let initial = self.drop_fraction;
        match self.anneal {
            Anneal::Constant => {
                let turnover = match self.grow {
                    GrowConfig::Nothing => Turnover::new(initial, 0.0),
                    _ => Turnover::replace(initial),
                };
                AnySchedule::Constant(Constant { turnover, timing })
            }
            Anneal::Cosine => AnySchedule::Cosine(Cosine { initial, timing }),
            Anneal::CosineFloor { floor } => AnySchedule::CosineFloor(CosineFloor {
                initial,
                floor,
                timing,
            }),
            Anneal::Linear => AnySchedule::Linear(Linear { initial, timing }),
            Anneal::Power { exponent } => AnySchedule::Power(Power {
                initial,
                exponent,
                timing,
            }),
            Anneal::StableThenDecay => {
                AnySchedule::StableThenDecay(StableThenDecay::new(initial, timing))
            }
        }
    }
}
