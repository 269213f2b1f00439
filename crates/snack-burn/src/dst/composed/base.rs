use std::borrow::Cow;
use std::sync::OnceLock;

use rand_chacha::ChaCha8Rng;
use rayon::in_place_scope;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::guided::guided;
use crate::dst::prune::lower_non_functional;
use crate::dst::{
    DstError, FreshValue, Grow, LayerView, Method, NetView, Plan, Prune, Quota, Request, Scope,
    Signals, Turnover, UpdateRandom,
};
use crate::error::SparseError;
use crate::pattern::Pattern;

/// The score of a connection that may not leave: after all numbers and every other NaN.
const YOUNG: f32 = f32::from_bits(0x7fff_ffff);

/// A rule made of pieces.
pub struct Composed {
    /// Which connections leave.
    pub prune: Box<dyn Prune>,
    /// Which connections enter; `None` only prunes.
    pub grow: Option<Box<dyn Grow>>,
    /// Where quotas apply.
    pub scope: Scope,
    /// Which layers get the places that a scope of the network has freed.
    pub redistribute: Redistribute,
    /// Values of connections that enter.
    pub fresh: FreshValue,
    /// How much reachability decides, in `[0, 1]`: connections on no path through the network
    /// leave first, and so large a share of the new ones lies on a path. `None` does not look.
    pub guidance: Option<f64>,
    /// Connections younger than so many steps do not leave.
    pub grace: u32,
    /// Whether the gradient at new connections is measured, for the optimizer's state.
    pub seed_state: bool,
}

/// How a scope of the network gives the places of dropped connections to the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Redistribute {
    /// To the coordinates with the best scores of all layers, where the grow criterion ranks them;
    /// else every layer regrows what it lost.
    ByRank,
    /// In proportion to the mean magnitude of the gradient of the connections that stay, while
    /// every layer gives up the same share of its connections (SNFS; Dettmers and Zettlemoyer,
    /// 2019, which takes the momentum in place of the gradient).
    ByGradient,
}

/// What a layer asks of the grow criterion.
pub(super) struct Asked<'a> {
    /// The score of each connection.
    pub scores: Vec<f32>,
    /// Those that leave.
    pub dropped: Vec<u32>,
    /// What may not enter.
    pub taken: Cow<'a, Pattern>,
    /// How many enter.
    pub places: Places,
}

/// As [`Quota`], owned.
pub(super) enum Places {
    Layer(usize),
    Rows(Vec<usize>),
}

impl Asked<'_> {
    pub fn quota(&self) -> Quota<'_> {
        match &self.places {
            Places::Layer(count) => Quota::Layer(*count),
            Places::Rows(counts) => Quota::Rows(counts),
        }
    }
}

/// What the grow criterion answers.
pub(super) struct Grown {
    pub flats: Vec<u64>,
    /// The random numbers of the layer, where the criterion has left off.
    pub rng: ChaCha8Rng,
}

impl Composed {
    /// A rule on the layer scope whose newcomers start at zero.
    pub fn new(prune: impl Prune + 'static, grow: impl Grow + 'static) -> Self {
        Self {
            prune: Box::new(prune),
            grow: Some(Box::new(grow)),
            scope: Scope::Layer,
            redistribute: Redistribute::ByRank,
            fresh: FreshValue::Zero,
            guidance: None,
            grace: 0,
            seed_state: false,
        }
    }

    /// Scores, young connections last; and how many connections may leave.
    pub(super) fn scores(&self, layer: &LayerView<'_>) -> Result<(Vec<f32>, usize), DstError> {
        let mut scores = self.prune.scores(layer)?;
        let nnz = layer.pattern.nnz();
        if scores.len() != nnz {
            return Err(DstError::ScoreCount {
                layer: layer.name.to_string(),
                expected: nnz,
                found: scores.len(),
            });
        }
        if let Some(guidance) = self.guidance {
            let functional = layer.functional()?.slots(layer.pattern);
            lower_non_functional(&mut scores, |slot| functional[slot], guidance);
        }
        let mut eligible = nnz;
        if self.grace > 0 {
            for (score, &age) in scores.iter_mut().zip(layer.ages()?) {
                if age < self.grace {
                    *score = YOUNG;
                    eligible -= 1;
                }
            }
        }
        Ok((scores, eligible))
    }

    /// One plan per layer, on all cores.
    ///
    /// A device that is asked for gradients is asked by the calling thread, layer by layer, while
    /// the others plan what it has answered.
    pub(super) fn each<'a>(
        &self,
        net: &NetView<'a>,
        ask: impl Fn(&LayerView<'a>) -> Result<Asked<'a>, DstError> + Sync,
        plan: impl Fn(&LayerView<'a>, Asked<'a>, Grown) -> Result<Plan, DstError> + Sync,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        let grow = |index: usize, layer: &LayerView<'a>, asked: &Asked<'a>| {
            let mut rng = random.layer(index);
            let flats = self.grow_outside(layer, &asked.taken, asked.quota(), &mut rng)?;
            Ok::<_, DstError>(Grown { flats, rng })
        };
        let whole = |(index, layer): (usize, &LayerView<'a>)| {
            let asked = ask(layer)?;
            let grown = grow(index, layer, &asked)?;
            plan(layer, asked, grown)
        };
        if !self.needs().needs_factors() {
            return net.layers.par_iter().enumerate().map(whole).collect();
        }
        if self.seed_state {
            return net.layers.iter().enumerate().map(whole).collect();
        }
        let asked: Vec<_> = net.layers.par_iter().map(&ask).collect();
        let plans: Vec<_> = net.layers.iter().map(|_| OnceLock::new()).collect();
        in_place_scope(|scope| {
            let layers = net.layers.iter().zip(asked).zip(&plans);
            for (index, ((layer, asked), cell)) in layers.enumerate() {
                let answer = asked.and_then(|asked| {
                    let grown = grow(index, layer, &asked)?;
                    Ok((asked, grown))
                });
                let (asked, grown) = match answer {
                    Ok(answer) => answer,
                    Err(error) => {
                        let _ = cell.set(Err(error));
                        break;
                    }
                };
                let plan = &plan;
                scope.spawn(move |_| {
                    let _ = cell.set(plan(layer, asked, grown));
                });
            }
        });
        // Past an error there are no plans, and none is looked for.
        plans.into_iter().filter_map(OnceLock::into_inner).collect()
    }

    /// What a layer may not grow: all that it had before the update, or all that it keeps.
    pub(super) fn taken<'a>(&self, layer: &LayerView<'a>, dropped: &[u32]) -> Cow<'a, Pattern> {
        match !self.fresh.keeps_returned() || dropped.is_empty() {
            true => Cow::Borrowed(layer.pattern),
            false => Cow::Owned(layer.pattern.without_slots(dropped)),
        }
    }

    pub(super) fn grow(
        &self,
        layer: &LayerView<'_>,
        dropped: &[u32],
        quota: Quota<'_>,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<u64>, DstError> {
        let taken = self.taken(layer, dropped);
        self.grow_outside(layer, &taken, quota, rng)
    }

    fn grow_outside(
        &self,
        layer: &LayerView<'_>,
        taken: &Pattern,
        quota: Quota<'_>,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<u64>, DstError> {
        let (Some(grow), 1..) = (&self.grow, quota.total()) else {
            return Ok(Vec::new());
        };
        let grown = match (self.guidance, quota) {
            (Some(guidance), Quota::Layer(count)) => {
                guided(&**grow, layer, taken, count, guidance, rng)?
            }
            _ => grow.propose(layer, &Request::new(quota, taken), rng)?,
        };
        if grown.len() > quota.total() {
            let source = SparseError::LengthMismatch {
                what: "list of proposed coordinates",
                expected: quota.total(),
                found: grown.len(),
            };
            return Err(proposal(layer, source));
        }
        Ok(grown)
    }

    pub(super) fn finish(
        &self,
        layer: &LayerView<'_>,
        dropped: &[u32],
        grown: &[u64],
        rng: &mut ChaCha8Rng,
    ) -> Result<Plan, DstError> {
        let mut plan =
            Plan::new(layer.pattern, dropped, grown).map_err(|source| proposal(layer, source))?;
        if plan.grown > 0 {
            let fresh = plan.remap.fresh();
            plan.values = self.fresh.draw(&plan.pattern, &fresh, rng);
            if self.seed_state {
                plan.gradients = Some(layer.factors()?.gradients(&plan.fresh_flats())?);
            }
        }
        Ok(plan)
    }
}

pub(super) fn is_young(score: f32) -> bool {
    score.to_bits() == YOUNG.to_bits()
}

pub(super) fn proposal(layer: &LayerView<'_>, source: SparseError) -> DstError {
    DstError::Proposal {
        layer: layer.name.to_string(),
        source,
    }
}

impl Method for Composed {
    fn needs(&self) -> Signals {
        let mut needs = self.prune.needs();
        if let Some(grow) = &self.grow {
            needs = needs | grow.needs();
        }
        if self.grace > 0 {
            needs = needs | Signals::AGES;
        }
        if self.seed_state {
            needs = needs | Signals::FACTORS;
        }
        if self.guidance.is_some() {
            needs = needs | Signals::FUNCTIONAL;
        }
        if self.redistribute == Redistribute::ByGradient {
            needs = needs | Signals::GRADIENT;
        }
        needs
    }

    fn plan(
        &self,
        net: &NetView<'_>,
        turnover: Turnover,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        match self.scope {
            Scope::Row => self.row_plans(net, turnover, random),
            Scope::Layer => self.layer_plans(net, turnover, random),
            Scope::Network { floor } => self.network_plans(net, turnover, floor, random),
        }
    }

    fn validate(&self) -> Result<(), DstError> {
        self.prune.validate()?;
        self.grow.as_ref().map_or(Ok(()), |grow| grow.validate())?;
        self.fresh.validate()?;
        let Some(guidance) = self.guidance else {
            return Ok(());
        };
        if !(0.0..=1.0).contains(&guidance) {
            return Err(DstError::InvalidParameter {
                what: "guidance",
                value: guidance,
                expected: "a number in [0, 1]",
            });
        }
        match self.scope {
            Scope::Row => Err(DstError::Incompatible {
                what: "reachability cannot guide quotas per row, use the scope of the layer",
            }),
            _ => Ok(()),
        }
    }
}
