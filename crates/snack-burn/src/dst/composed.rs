//! The usual rule: a prune criterion, a grow criterion, and where their quotas apply.

use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::factors::merge_best;
use super::prune::lower_non_functional;
use super::scope::{lowest, lowest_of_all, lowest_per_row};
use super::{
    DstError, FreshValue, Grow, LayerView, Method, NetView, Plan, Prune, Quota, Quotas, Rectangle,
    Request, Scope, Signals, Turnover, UpdateRandom,
};
use crate::error::SparseError;
use crate::pattern::{Pattern, apportion};

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
    fn scores(&self, layer: &LayerView<'_>) -> Result<(Vec<f32>, usize), DstError> {
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

    fn layer_plans(
        &self,
        net: &NetView<'_>,
        turnover: Turnover,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        self.each(net, |index, layer| {
            let (scores, eligible) = self.scores(layer)?;
            let quotas = turnover.quotas(layer.pattern.nnz(), layer.pattern.size());
            let conserve = turnover.drop == turnover.grow;
            let drop = quotas.drop.min(eligible);
            let quota = match (&self.grow, conserve) {
                (None, _) => 0,
                (_, true) => drop,
                (_, false) => quotas.grow,
            };
            let mut rng = random.layer(index);
            let dropped = lowest(&scores, drop);
            let grown = self.grow(layer, &dropped, Quota::Layer(quota), &mut rng)?;
            let dropped = match conserve && grown.len() < quota {
                true => lowest(&scores, grown.len()),
                false => dropped,
            };
            self.finish(layer, &dropped, &grown, &mut rng)
        })
    }

    /// One plan per layer, on all cores unless the device is asked for gradients.
    fn each(
        &self,
        net: &NetView<'_>,
        plan: impl Fn(usize, &LayerView<'_>) -> Result<Plan, DstError> + Sync,
    ) -> Result<Vec<Plan>, DstError> {
        let plan = |(index, layer)| plan(index, layer);
        match self.needs().needs_factors() {
            true => net.layers.iter().enumerate().map(plan).collect(),
            false => net.layers.par_iter().enumerate().map(plan).collect(),
        }
    }

    fn row_plans(
        &self,
        net: &NetView<'_>,
        turnover: Turnover,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        self.each(net, |index, layer| {
            let (scores, _) = self.scores(layer)?;
            let offsets = layer.pattern.row_offsets();
            let width = layer.pattern.columns();
            let (mut drops, mut quotas) = (Vec::new(), Vec::new());
            for bounds in offsets.windows(2) {
                let row = &scores[bounds[0]..bounds[1]];
                let young = match self.grace {
                    0 => 0,
                    _ => row.iter().filter(|score| is_young(**score)).count(),
                };
                let Quotas { drop, grow } = turnover.quotas(row.len(), width as u64);
                let drop = drop.min(row.len() - young);
                let conserve = turnover.drop == turnover.grow;
                drops.push(drop);
                quotas.push(match (&self.grow, conserve) {
                    (None, _) => 0,
                    (_, true) => drop,
                    (_, false) => grow,
                });
            }
            let mut rng = random.layer(index);
            let mut dropped = lowest_per_row(&scores, layer.pattern, &drops);
            let grown = self.grow(layer, &dropped, Quota::Rows(&quotas), &mut rng)?;
            if turnover.drop == turnover.grow && grown.len() < drops.iter().sum() {
                let mut found = vec![0; drops.len()];
                let rows = grown.iter().map(|flat| (flat / width as u64) as usize);
                // What is out of range is refused below.
                rows.filter(|&row| row < drops.len())
                    .for_each(|row| found[row] += 1);
                dropped = lowest_per_row(&scores, layer.pattern, &found);
            }
            self.finish(layer, &dropped, &grown, &mut rng)
        })
    }

    fn network_plans(
        &self,
        net: &NetView<'_>,
        turnover: Turnover,
        floor: usize,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        let (mut scores, mut limits) = (Vec::new(), Vec::new());
        for layer in &net.layers {
            let (layer_scores, eligible) = self.scores(layer)?;
            let most = layer.pattern.nnz().saturating_sub(floor.max(1));
            scores.push(layer_scores);
            limits.push(most.min(eligible));
        }
        let nnz = net.layers.iter().map(|layer| layer.pattern.nnz()).sum();
        let size = net.layers.iter().map(|layer| layer.pattern.size()).sum();
        let counts = turnover.quotas(nnz, size);
        let mut dropped = match self.redistribute {
            Redistribute::ByRank => lowest_of_all(&scores, &limits, counts.drop),
            Redistribute::ByGradient => {
                let layers = net.layers.iter().zip(&scores).zip(&limits);
                let dropped = layers.map(|((layer, scores), &limit)| {
                    let pattern = layer.pattern;
                    let drop = turnover.quotas(pattern.nnz(), pattern.size()).drop;
                    lowest(scores, drop.min(limit))
                });
                dropped.collect()
            }
        };
        let lost: Vec<usize> = dropped.iter().map(Vec::len).collect();
        let total = match turnover.drop == turnover.grow {
            true => lost.iter().sum(),
            false => counts.grow,
        };
        let quotas = match &self.grow {
            None => vec![0; lost.len()],
            Some(grow) => self.shares(grow, net, &dropped, total, random)?,
        };
        let mut plans = Vec::new();
        for (index, layer) in net.layers.iter().enumerate() {
            let mut rng = random.layer(index);
            let quota = Quota::Layer(quotas[index]);
            let grown = self.grow(layer, &dropped[index], quota, &mut rng)?;
            let missing = quotas[index] - grown.len();
            if missing > 0 && turnover.drop == turnover.grow {
                // The budget of the network stays: what cannot be regrown here does not leave here.
                let fewer = lost[index].saturating_sub(missing);
                dropped[index] = lowest(&scores[index], fewer);
            }
            plans.push(self.finish(layer, &dropped[index], &grown, &mut rng)?);
        }
        Ok(plans)
    }

    /// How many of `total` places each layer gets.
    fn shares(
        &self,
        grow: &dyn Grow,
        net: &NetView<'_>,
        dropped: &[Vec<u32>],
        total: usize,
        random: UpdateRandom,
    ) -> Result<Vec<usize>, DstError> {
        let lost: Vec<usize> = dropped.iter().map(Vec::len).collect();
        let free: Vec<usize> = net
            .layers
            .iter()
            .zip(&lost)
            .map(|(layer, &lost)| {
                let free = layer.pattern.size() - layer.pattern.nnz() as u64;
                let free = usize::try_from(free).unwrap_or(usize::MAX);
                free.saturating_add(if self.fresh.keeps_returned() { lost } else { 0 })
            })
            .collect();
        let weights = match self.redistribute {
            Redistribute::ByGradient => {
                let mut weights = Vec::new();
                for (layer, dropped) in net.layers.iter().zip(dropped) {
                    weights.push(mean_of_survivors(layer.gradient()?, dropped));
                }
                weights
            }
            Redistribute::ByRank => {
                let mut lists = Vec::new();
                for (index, layer) in net.layers.iter().enumerate() {
                    let taken = self.taken(layer, &dropped[index])?;
                    let request = Request::new(Quota::Layer(total), &taken);
                    match grow.ranked(layer, &request, &mut random.layer(index))? {
                        Some(list) => lists.push(list),
                        None => break,
                    }
                }
                if lists.len() == net.layers.len() {
                    return Ok(merge_best(&lists, total));
                }
                lost.iter().map(|&lost| lost as f64).collect()
            }
        };
        Ok(shared(&weights, &free, total))
    }

    /// What a layer may not grow: all that it had before the update, or all that it keeps.
    fn taken(&self, layer: &LayerView<'_>, dropped: &[u32]) -> Result<Pattern, DstError> {
        if !self.fresh.keeps_returned() || dropped.is_empty() {
            return Ok(layer.pattern.clone());
        }
        Ok(Plan::new(layer.pattern, dropped, &[])?.pattern)
    }

    fn grow(
        &self,
        layer: &LayerView<'_>,
        dropped: &[u32],
        quota: Quota<'_>,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<u64>, DstError> {
        let (Some(grow), 1..) = (&self.grow, quota.total()) else {
            return Ok(Vec::new());
        };
        let taken = self.taken(layer, dropped)?;
        let grown = match (self.guidance, quota) {
            (Some(guidance), Quota::Layer(count)) => {
                guided(&**grow, layer, &taken, count, guidance, rng)?
            }
            _ => grow.propose(layer, &Request::new(quota, &taken), rng)?,
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

    fn finish(
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

/// Coordinates of which a share lies where a connection is functional, or at least where the inputs
/// of the network reach, as far as there are such.
fn guided(
    grow: &dyn Grow,
    layer: &LayerView<'_>,
    taken: &Pattern,
    count: usize,
    guidance: f64,
    rng: &mut ChaCha8Rng,
) -> Result<Vec<u64>, DstError> {
    let functional = layer.functional()?;
    let target = (guidance * count as f64).round() as usize;
    let forward = functional.inputs();
    let everywhere = (0..taken.rows() as u32).collect();
    let regions = [
        (functional.outputs(), forward.clone()),
        (everywhere, forward),
    ]
    .map(|(rows, cols)| Some(Rectangle { rows, cols }));
    let mut taken = taken.clone();
    let mut grown: Vec<u64> = Vec::new();
    for (within, target) in regions.iter().map(|r| (r, target)).chain([(&None, count)]) {
        if grown.len() >= target {
            continue;
        }
        let request = Request {
            within: within.as_ref(),
            ..Request::new(Quota::Layer(target - grown.len()), &taken)
        };
        let more = grow.propose(layer, &request, rng)?;
        let pattern = Pattern::from_sorted_flats(taken.shape(), more.iter().copied())
            .map_err(|source| proposal(layer, source))?;
        taken = taken.union(&pattern)?;
        grown.extend(more);
    }
    grown.sort_unstable();
    Ok(grown)
}

fn is_young(score: f32) -> bool {
    score.to_bits() == YOUNG.to_bits()
}

fn proposal(layer: &LayerView<'_>, source: SparseError) -> DstError {
    DstError::Proposal {
        layer: layer.name.to_string(),
        source,
    }
}

/// Mean magnitude over the slots that are not in the increasing list `dropped`.
fn mean_of_survivors(gradient: &[f32], dropped: &[u32]) -> f64 {
    let all: f64 = gradient.iter().map(|&g| f64::from(g.abs())).sum();
    let gone: f64 = dropped
        .iter()
        .map(|&slot| f64::from(gradient[slot as usize].abs()))
        .sum();
    let count = gradient.len() - dropped.len();
    ((all - gone) / count.max(1) as f64).max(0.0)
}

/// `total` places in proportion to the weights, at most `limits[i]` for each; fewer if the limits do
/// not allow so many.
fn shared(weights: &[f64], limits: &[usize], total: usize) -> Vec<usize> {
    let bounds: Vec<_> = limits.iter().map(|&limit| 0..=limit as u64).collect();
    let most = limits
        .iter()
        .fold(0usize, |sum, &limit| sum.saturating_add(limit));
    let total = total.min(most) as u64;
    let shares = apportion(weights, &bounds, total).expect("the limits allow the total");
    shares.into_iter().map(|share| share as usize).collect()
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dst::{GradientTopK, HostFactors, Magnitude, Uniform};
    use rand::Rng;

    const RANDOM: UpdateRandom = UpdateRandom { seed: 3, step: 7 };

    fn pattern(shape: [usize; 2], nnz: usize) -> Pattern {
        Pattern::random(shape, nnz, &mut RANDOM.layer(nnz)).unwrap()
    }

    /// Finds at most so many coordinates, whatever it is asked for.
    struct Few(usize);

    impl Grow for Few {
        fn propose(
            &self,
            layer: &LayerView<'_>,
            request: &Request<'_>,
            rng: &mut dyn Rng,
        ) -> Result<Vec<u64>, DstError> {
            let mut flats = Uniform.propose(layer, request, rng)?;
            flats.truncate(self.0);
            Ok(flats)
        }
    }

    #[test]
    fn who_finds_fewer_drops_fewer() {
        let pattern = pattern([6, 10], 20);
        let values: Vec<f32> = (1..=20).map(|v| v as f32).collect();
        let layer = LayerView::new("", &pattern, &values);
        let net = NetView::new(vec![layer, layer], 7);
        for scope in [Scope::Row, Scope::Layer, Scope::Network { floor: 1 }] {
            for found in [0, 1, 3] {
                let mut method = Composed::new(Magnitude, Few(found));
                method.scope = scope;
                let plans = method.plan(&net, Turnover::replace(0.5), RANDOM).unwrap();
                for plan in plans {
                    assert_eq!((plan.dropped, plan.grown), (found, found), "{scope:?}");
                    assert_eq!(plan.pattern.nnz(), 20);
                }
            }
        }
    }

    /// The smallest of both layers leave; the largest gradients of both enter.
    #[test]
    fn a_network_compares_layers() {
        let patterns = [pattern([4, 5], 8), pattern([4, 5], 8)];
        let (small, large) = ([0.1; 8], [5.0; 8]);
        let ones = |factor: f32| {
            let x = (1..=5).map(|x| x as f32).collect();
            HostFactors::new([4, 5], 1, vec![factor; 4], x)
        };
        let factors = [ones(1.0), ones(10.0)];
        let mut layers = [
            LayerView::new("a", &patterns[0], &small),
            LayerView::new("b", &patterns[1], &large),
        ];
        layers[0].factors = Some(&factors[0]);
        layers[1].factors = Some(&factors[1]);
        let net = NetView::new(layers.to_vec(), 7);
        let mut method = Composed::new(Magnitude, GradientTopK);
        method.scope = Scope::Network { floor: 2 };
        let plans = method.plan(&net, Turnover::replace(0.25), RANDOM).unwrap();
        assert_eq!([plans[0].dropped, plans[1].dropped], [4, 0]);
        assert_eq!([plans[0].grown, plans[1].grown], [0, 4]);
        // The floor: six of the first layer may leave at most.
        let plans = method.plan(&net, Turnover::replace(0.9), RANDOM).unwrap();
        assert_eq!([plans[0].dropped, plans[1].dropped], [6, 6]);
    }

    /// Both layers give up a half; the places go where the survivors' gradients are, as far as there
    /// is room.
    #[test]
    fn budgets_follow_the_gradient_of_survivors() {
        let patterns = [pattern([10, 10], 40), pattern([4, 6], 14)];
        let values: Vec<f32> = (1..=40).map(|v| v as f32).collect();
        let factors = HostFactors::new([10, 10], 1, vec![1.0; 10], vec![1.0; 10]);
        // The halves that leave have the largest gradients, which must not count.
        let gradient = |survivors: f32, count: usize| -> Vec<f32> {
            let gradient = |slot| if slot < count / 2 { 1e6 } else { survivors };
            (0..count).map(gradient).collect()
        };
        for (ratio, expected) in [(1.0, [17, 10]), (0.0, [17, 10]), (f32::MAX, [27, 0])] {
            let gradients = [gradient(ratio, 40), gradient(1.0, 14)];
            let mut layers = [
                LayerView::new("a", &patterns[0], &values),
                LayerView::new("b", &patterns[1], &values[..14]),
            ];
            layers[0].gradient = Some(&gradients[0]);
            layers[1].gradient = Some(&gradients[1]);
            layers[0].factors = Some(&factors);
            let net = NetView::new(layers.to_vec(), 7);
            let mut method = Composed::new(Magnitude, Uniform);
            method.scope = Scope::Network { floor: 1 };
            method.redistribute = Redistribute::ByGradient;
            let plans = method.plan(&net, Turnover::replace(0.5), RANDOM).unwrap();
            assert_eq!([plans[0].dropped, plans[1].dropped], [20, 7]);
            // The second layer has room for ten.
            assert_eq!([plans[0].grown, plans[1].grown], expected, "{ratio}");
        }
    }

    #[test]
    fn rows_keep_their_fan_in() {
        let pattern = pattern([7, 9], 30);
        let values: Vec<f32> = (0..30).map(|v| ((v * 7) % 30) as f32 - 15.0).collect();
        let net = NetView::new(vec![LayerView::new("", &pattern, &values)], 7);
        let mut method = Composed::new(Magnitude, Uniform);
        method.scope = Scope::Row;
        let plans = method.plan(&net, Turnover::replace(0.4), RANDOM).unwrap();
        assert_eq!(plans[0].pattern.fan_in(), pattern.fan_in());
        assert!(plans[0].dropped > 5);
    }
}
