//! One quota for all layers.

use rayon::prelude::*;

use super::{Composed, Redistribute};
use crate::dst::factors::merge_best;
use crate::dst::scope::{lowest, lowest_of_all};
use crate::dst::{DstError, Grow, NetView, Plan, Quota, Request, Turnover, UpdateRandom};
use crate::pattern::apportion;

impl Composed {
    pub(super) fn network_plans(
        &self,
        net: &NetView<'_>,
        turnover: Turnover,
        floor: usize,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        let scores = net.layers.par_iter().map(|layer| {
            let (scores, eligible) = self.scores(layer)?;
            let most = layer.pattern.nnz().saturating_sub(floor.max(1));
            Ok((scores, most.min(eligible)))
        });
        let scores: Result<Vec<_>, DstError> = scores.collect();
        let (scores, limits): (Vec<_>, Vec<_>) = scores?.into_iter().unzip();
        let nnz = net.layers.iter().map(|layer| layer.pattern.nnz()).sum();
        let size = net.layers.iter().map(|layer| layer.pattern.size()).sum();
        let initial = net.layers.iter().map(|layer| layer.initial).sum();
        let counts = turnover.quotas_from(nnz, size, initial);
        let mut dropped = match self.redistribute {
            Redistribute::ByRank => lowest_of_all(&scores, &limits, counts.drop),
            Redistribute::ByGradient => {
                let layers = net.layers.iter().zip(&scores).zip(&limits);
                let dropped = layers.map(|((layer, scores), &limit)| {
                    lowest(scores, layer.quotas(turnover).drop.min(limit))
                });
                dropped.collect()
            }
        };
        let lost: Vec<usize> = dropped.iter().map(Vec::len).collect();
        let total = match turnover.conserves() {
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
            if missing > 0 && turnover.conserves() {
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
                    let taken = self.taken(layer, &dropped[index]);
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
