//! Published training rules.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::schedule::{AnySchedule, Stage, Staircase, Timing, Turnover};
use super::{
    ActivityConfig, Anneal, CandidateLaw, DstConfig, DstError, FreshValue, GrowConfig, PruneConfig,
    Redistribute, Scope, SpecialConfig, StatePolicy,
};

/// # Presets
///
/// Rules with the defaults of their papers, where those are known; all numbers can be changed by
/// `with_...` methods. How many connections the layers have, and where, is decided when the layers
/// are made: [`Allocation`](super::Allocation) and [`Profile`](super::Profile) give what the papers
/// start from. `steps` is the length of the run in optimizer steps. The published intervals are
/// those of long runs: where `steps` is given, an interval is at most a fifth of the steps in which
/// there may be updates. [`updates_within`](Self::updates_within) says how many updates a run has.
///
/// Three published methods are out of scope. HASTE shares one list of inputs among groups of
/// neurons, which is another layer than `SparseLinear`. GNAP and BARTER change the numbers of
/// neurons, and with them the shapes of the neighbours of a layer.
impl DstConfig {
    /// The topology stays as it was drawn.
    pub fn static_pattern() -> Self {
        Self::new().with_special(Some(SpecialConfig::Static))
    }

    /// SET in its simplified form (Mocanu et al., 2018, as in RigL's and ITOP's baselines): the
    /// smallest magnitudes leave, uniformly drawn coordinates enter with value zero, 30 % every 100
    /// steps. The paper updates once per epoch, except the last, on layers of
    /// [`ErdosRenyi`](super::Allocation) density.
    pub fn set() -> Self {
        Self::new()
    }

    /// SET in its original form (Mocanu et al., 2018): the same share of the positive and of the
    /// negative connections leaves, those closest to zero, and newcomers start with `N(0, 0.1^2)`.
    pub fn set_original() -> Self {
        Self::new()
            .with_prune(PruneConfig::SignBalanced)
            .with_fresh(FreshValue::Normal { std: 0.1 })
    }

    /// The recipe of SNACK's GAMLP runs: every five epochs until epoch 25 of 40 the 5 % smallest
    /// magnitudes leave and uniformly drawn coordinates enter, with fresh uniform values. The run
    /// uses Adam, for which newcomers borrow second moments; the paper does not say.
    ///
    /// `epoch` is the length of an epoch in steps.
    pub fn snack_gamlp(epoch: u64) -> Self {
        Self::new()
            .with_drop_fraction(0.05)
            .with_every(epoch.saturating_mul(5))
            .with_stop(Some(epoch.saturating_mul(25)))
            .with_fresh(FreshValue::Uniform { gain: 1.0 })
            .with_state(StatePolicy::Borrow)
    }

    /// RigL (Evci et al., 2020): the smallest magnitudes leave and the largest gradients enter with
    /// value zero, 30 % falling with a cosine, every 100 steps until 75 % of the run. A connection
    /// that just left may return, with its value and its state. The paper updates in the place of
    /// an optimizer step, here the update follows it, on the gradients of the same step; it starts
    /// from ERK densities and uses SGD with momentum. With Adam choose [`StatePolicy::Borrow`] or
    /// [`StatePolicy::LocalClock`].
    pub fn rigl(steps: u64) -> Self {
        Self::new()
            .with_grow(GrowConfig::GradientTopK)
            .with_fresh(FreshValue::KeepIfReturned(Box::new(FreshValue::Zero)))
            .with_anneal(Anneal::Cosine)
            .with_every(interval(100, part(steps, 0.75)))
            .with_stop(Some(part(steps, 0.75)))
    }

    /// RigL with in-time over-parameterization (Liu et al., 2021): half of the connections, falling
    /// to 0.5 % over the run, every 4000 steps, so that each has time to prove itself.
    pub fn rigl_itop(steps: u64) -> Self {
        Self::itop(steps, 4000).with_grow(GrowConfig::GradientTopK)
    }

    /// SET with in-time over-parameterization (Liu et al., 2021), every 1500 steps. With
    /// [`GrowConfig::Unfired`] coordinates that were never active come first.
    pub fn set_itop(steps: u64) -> Self {
        Self::itop(steps, 1500)
    }

    fn itop(steps: u64, every: u64) -> Self {
        Self::new()
            .with_drop_fraction(0.5)
            .with_anneal(Anneal::CosineFloor { floor: 0.005 })
            .with_every(interval(every, steps))
            .with_stop(Some(steps))
    }

    /// MEST with elastic mutation (Yuan et al., 2021): `|w| + 0.01 |g|` decides who leaves, uniform
    /// growth, a share that falls in stages: a half of the connections until 90/160 of the run, a
    /// quarter until 120/160, then none, every 5/160. Those are the paper's 5 % and 2.5 % of all
    /// coordinates at a density of 10 %. The weight of the gradient is ours; the released scripts
    /// use magnitudes alone.
    pub fn mest_em(steps: u64) -> Self {
        let shares = [(90.0 / 160.0, 0.5), (120.0 / 160.0, 0.25)];
        Self::mest(Staircase {
            stages: stages(
                shares.map(|(share, turnover)| (part(steps, share), Turnover::replace(turnover))),
            ),
            timing: Timing::every(part(steps, 5.0 / 160.0)),
        })
    }

    /// MEST with elastic mutation and a soft memory bound (Yuan et al., 2021): as
    /// [`mest_em`](Self::mest_em), but the first update only grows, and the surplus of a half and
    /// then of a quarter is trained between updates, so that newcomers compete with trained
    /// connections. The layers need memory for one and a half times their connections, or for all
    /// their coordinates where those are fewer. After 120/160 of the run every layer is back at the
    /// number of connections with which the updater was made, exactly. A run too short for two
    /// updates has none.
    pub fn mest_ems(steps: u64) -> Self {
        Self::mest_ems_every(steps, part(steps, 5.0 / 160.0))
    }

    /// As [`mest_ems`](Self::mest_ems) with another number of steps between updates, to which the
    /// ends of its stages are rounded down.
    pub fn mest_ems_every(steps: u64, every: u64) -> Self {
        let every = every.max(1);
        let update_before = |share: f64| part(steps, share) / every * every;
        let (first, second) = (update_before(90.0 / 160.0), update_before(120.0 / 160.0));
        let list = [
            (first.saturating_sub(every), Turnover::surplus(0.5)),
            (second.saturating_sub(every), Turnover::surplus(0.25)),
            (second, Turnover::surplus(0.0)),
        ];
        Self::mest(Staircase {
            stages: match second > every {
                true => stages(list),
                false => Vec::new(),
            },
            timing: Timing::every(every),
        })
    }

    fn mest(staircase: Staircase) -> Self {
        Self::new()
            .with_prune(PruneConfig::MagnitudePlusGradient { lambda: 0.01 })
            .with_schedule(Some(AnySchedule::Staircase(staircase)))
    }

    /// SMET (Xiao et al., 2026), element-wise: magnitude and uniform growth, 20 % falling to 0.5 %,
    /// every 100 steps. It belongs to [`LocalClockAdam`](super::LocalClockAdam), whose ramp spans
    /// 100 steps, and to a learning rate divided by the density
    /// ([`scale_learning_rate`](super::scale_learning_rate)). A [`grace`](Self::grace) of 100 would
    /// keep newcomers until they learn at full rate; the paper has none.
    pub fn smet(steps: u64) -> Self {
        Self::new()
            .with_drop_fraction(0.2)
            .with_anneal(Anneal::CosineFloor { floor: 0.005 })
            .with_every(interval(100, steps))
            .with_stop(Some(steps))
            .with_state(StatePolicy::LocalClock)
    }

    /// SET guided by reachability (2026): connections on no path from the inputs to the outputs
    /// leave first, and new ones are drawn where they lie on one. Below a sparsity of 99 % nearly all
    /// connections lie on one, and this is [`set`](Self::set);
    /// [`with_guidance`](Self::with_guidance) guides any other rule of the layer or network scope.
    pub fn guided() -> Self {
        Self::new().with_guidance(Some(1.0))
    }

    /// Guided stochastic exploration (Heddes et al., 2024): one budget for the network, 20 %
    /// falling with a cosine, every 1000 steps until 60 % of the run; of as many random candidates
    /// as there are connections, drawn where a bound of the gradient is large, those with the
    /// largest gradients enter. The substitute for [`rigl`](Self::rigl) below a density of 1 %.
    pub fn gse(steps: u64) -> Self {
        Self::new()
            .with_grow(GrowConfig::Sampled {
                law: CandidateLaw::GraBo,
                candidates: 1.0,
            })
            .with_scope(Scope::Network { floor: 1 })
            .with_drop_fraction(0.2)
            .with_anneal(Anneal::Cosine)
            .with_every(interval(1000, part(steps, 0.6)))
            .with_stop(Some(part(steps, 0.6)))
    }

    /// SET with a fixed fan-in (Schultheis and Babbar, 2023): every neuron replaces its smallest
    /// connections by uniformly drawn ones. For layers of
    /// [`Profile::Constant`](super::Profile). The share of 30 % is SET's.
    pub fn fixed_fan_in_set() -> Self {
        Self::new().with_scope(Scope::Row)
    }

    /// SRigL (Lasby et al., 2024): RigL with a constant fan-in and the removal of neurons with less
    /// than 30 % of it in salient connections (95 % in transformers). For layers of
    /// [`Profile::Constant`](super::Profile).
    pub fn srigl(steps: u64) -> Self {
        Self::rigl(steps).with_special(Some(SpecialConfig::SRigL {
            ablation: Some(0.3),
        }))
    }

    /// RigL on layers that start from a fan-in profile (PSN; Tomczak, 2026): the profile, such as
    /// [`Profile::LogNormal`](super::Profile), is chosen when the layers are made.
    pub fn psn(steps: u64) -> Self {
        Self::rigl(steps)
    }

    /// Activity-dependent pruning (DADP, 2026): what carried the least product of input and output
    /// gradient leaves, by one threshold over the network, and nothing enters. The abstract gives
    /// no numbers: 5 % every 100 steps and a decay of 0.99 are ours. Activity is measured in every
    /// step. Use [`with_stop`](Self::with_stop) to end at a density.
    pub fn dadp() -> Self {
        Self::new()
            .with_prune(PruneConfig::Activity(ActivityConfig {
                decay: 0.99,
                per_sample: true,
            }))
            .with_grow(GrowConfig::Nothing)
            .with_scope(Scope::Network { floor: 1 })
            .with_drop_fraction(0.05)
    }

    /// Sparse momentum (SNFS; Dettmers and Zettlemoyer, 2019), approximately: half of every layer's
    /// connections, falling to 0.5 %, leave by magnitude, and the network's budget goes to the
    /// layers in proportion to the mean gradient of what stays. The paper uses the momentum of all
    /// weights, a dense state; here the gradients of the last 10 steps take its place.
    pub fn snfs(steps: u64) -> Self {
        Self::new()
            .with_grow(GrowConfig::GradientTopK)
            .with_scope(Scope::Network { floor: 1 })
            .with_redistribute(Redistribute::ByGradient)
            .with_drop_fraction(0.5)
            .with_anneal(Anneal::CosineFloor { floor: 0.005 })
            .with_every(interval(100, steps))
            .with_stop(Some(steps))
            .with_accumulate(10)
    }

    /// Deep Rewiring (Bellec et al., 2018), approximately: connections whose sign has flipped are
    /// replaced every 10 steps, see [`SignFlip`](super::SignFlip).
    pub fn deep_r() -> Self {
        Self::new()
            .with_special(Some(SpecialConfig::SignFlip))
            .with_every(10)
    }
}

/// Stages by increasing last step; one that ends no later than another before it is left out.
fn stages(list: impl IntoIterator<Item = (u64, Turnover)>) -> Vec<Stage> {
    let mut stages: Vec<Stage> = Vec::new();
    for (until, turnover) in list {
        if until > stages.last().map_or(0, |last| last.until) {
            stages.push(Stage { until, turnover });
        }
    }
    stages
}

/// The published number of steps between updates, but at most a fifth of the steps in which there
/// may be some.
fn interval(published: u64, steps: u64) -> u64 {
    published.min((steps / 5).max(1))
}

/// `round(share steps)`, at least 1.
fn part(steps: u64, share: f64) -> u64 {
    ((steps as f64 * share).round() as u64).max(1)
}

/// The presets of [`DstConfig`] by name, for command lines and sweeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// [`DstConfig::static_pattern`].
    Static,
    /// [`DstConfig::set`].
    Set,
    /// [`DstConfig::set_original`].
    SetOriginal,
    /// [`DstConfig::snack_gamlp`] with a run of 40 epochs.
    SnackGamlp,
    /// [`DstConfig::rigl`].
    Rigl,
    /// [`DstConfig::rigl_itop`].
    RiglItop,
    /// [`DstConfig::set_itop`].
    SetItop,
    /// [`DstConfig::mest_em`].
    MestEm,
    /// [`DstConfig::mest_ems`].
    MestEms,
    /// [`DstConfig::smet`].
    Smet,
    /// [`DstConfig::guided`].
    Guided,
    /// [`DstConfig::gse`].
    Gse,
    /// [`DstConfig::fixed_fan_in_set`].
    FixedFanInSet,
    /// [`DstConfig::srigl`].
    Srigl,
    /// [`DstConfig::psn`].
    Psn,
    /// [`DstConfig::dadp`].
    Dadp,
    /// [`DstConfig::snfs`].
    Snfs,
    /// [`DstConfig::deep_r`].
    DeepR,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 18] = [
        Self::Static,
        Self::Set,
        Self::SetOriginal,
        Self::SnackGamlp,
        Self::Rigl,
        Self::RiglItop,
        Self::SetItop,
        Self::MestEm,
        Self::MestEms,
        Self::Smet,
        Self::Guided,
        Self::Gse,
        Self::FixedFanInSet,
        Self::Srigl,
        Self::Psn,
        Self::Dadp,
        Self::Snfs,
        Self::DeepR,
    ];

    /// The name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Set => "set",
            Self::SetOriginal => "set-original",
            Self::SnackGamlp => "snack-gamlp",
            Self::Rigl => "rigl",
            Self::RiglItop => "rigl-itop",
            Self::SetItop => "set-itop",
            Self::MestEm => "mest-em",
            Self::MestEms => "mest-ems",
            Self::Smet => "smet",
            Self::Guided => "guided",
            Self::Gse => "gse",
            Self::FixedFanInSet => "fixed-fan-in-set",
            Self::Srigl => "srigl",
            Self::Psn => "psn",
            Self::Dadp => "dadp",
            Self::Snfs => "snfs",
            Self::DeepR => "deep-r",
        }
    }

    /// The configuration for a run of so many optimizer steps. An interval that the preset has
    /// whatever the length of the run is at most a fifth of it too.
    pub fn config(self, steps: u64) -> DstConfig {
        let mut config = match self {
            Self::Static => DstConfig::static_pattern(),
            Self::Set => DstConfig::set(),
            Self::SetOriginal => DstConfig::set_original(),
            Self::SnackGamlp => DstConfig::snack_gamlp(part(steps, 1.0 / 40.0)),
            Self::Rigl => DstConfig::rigl(steps),
            Self::RiglItop => DstConfig::rigl_itop(steps),
            Self::SetItop => DstConfig::set_itop(steps),
            Self::MestEm => DstConfig::mest_em(steps),
            Self::MestEms => DstConfig::mest_ems(steps),
            Self::Smet => DstConfig::smet(steps),
            Self::Guided => DstConfig::guided(),
            Self::Gse => DstConfig::gse(steps),
            Self::FixedFanInSet => DstConfig::fixed_fan_in_set(),
            Self::Srigl => DstConfig::srigl(steps),
            Self::Psn => DstConfig::psn(steps),
            Self::Dadp => DstConfig::dadp(),
            Self::Snfs => DstConfig::snfs(steps),
            Self::DeepR => DstConfig::deep_r(),
        };
        if config.stop.is_none() {
            config.every = interval(config.every, steps);
        }
        config
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = DstError;

    fn from_str(name: &str) -> Result<Self, DstError> {
        let found = Self::ALL.into_iter().find(|preset| preset.name() == name);
        found.ok_or_else(|| DstError::UnknownPreset {
            name: name.to_string(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}
