//! What an update will change, before anything has changed.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::TensorData;
use rayon::prelude::*;

use super::follow::adopt_plans;
use super::{Dst, Rule};
use crate::dist::check_same;
use crate::dst::collect::{FoundFactors, read_all};
use crate::dst::{
    DstError, Functional, LayerGraph, LayerUpdate, NetView, Plan, Signals, SkipReason, StatePolicy,
    TopologyUpdate, UpdateRandom,
};
use crate::nn::{FoundLayer, find_layers};

/// What happens to a layer.
pub(super) struct Planned {
    pub layer: FoundLayer,
    /// Its values, which the plan was made from.
    pub values: TensorData,
    pub plan: Plan,
    pub policy: StatePolicy,
}

/// An update that is decided but not applied.
pub(super) struct Decision {
    pub update: TopologyUpdate,
    pub plans: Vec<Planned>,
}

impl Decision {
    /// A rule that is due changes nothing; the first reason is kept.
    fn skip(&mut self, reason: SkipReason) {
        self.update.skipped.get_or_insert(reason);
    }
}

impl Dst {
    /// The layers, unless this step neither updates nor captures nor comes before one that does.
    pub(super) fn layers_to_look_at<M: Module>(&self, model: &M) -> Option<Vec<FoundLayer>> {
        let busy = self.groups.iter().filter_map(|group| group.rule.as_ref());
        busy.into_iter()
            .any(|rule| {
                rule.schedule.turnover(self.step).is_some()
                    || rule.captures(self.step)
                    || rule.captures(self.step.saturating_add(1))
            })
            .then(|| find_layers(model))
    }

    pub(super) fn decide(&mut self, found: &[FoundLayer]) -> Result<Decision, DstError> {
        self.check(found)?;
        self.collect(found)?;
        let rules = self.groups.iter().filter_map(|group| group.rule.as_ref());
        if rules
            .into_iter()
            .any(|rule| rule.schedule.turnover(self.step).is_some())
        {
            check_same(&*self.ranks, found)?;
        }
        let mut decision = Decision {
            update: TopologyUpdate {
                step: self.step,
                layers: Vec::new(),
                skipped: None,
            },
            plans: Vec::new(),
        };
        let mut due = false;
        let mut outcomes = BTreeMap::new();
        for (index, group) in self.groups.iter().enumerate() {
            let Some(rule) = &group.rule else { continue };
            let Some(turnover) = rule.schedule.turnover(self.step) else {
                continue;
            };
            due = true;
            let members: Vec<usize> = (0..found.len())
                .filter(|&layer| self.layers[layer].group == index && !found[layer].frozen)
                .collect();
            if members.is_empty() {
                continue;
            }
            let needs = rule.method.needs();
            let factors = match needs.needs_factors() {
                true => self.collected.factors(found, &members, rule.scratch_bytes),
                false => BTreeMap::new(),
            };
            let measured = match needs.activity {
                true => self.slots.measured(found, &members, self.step),
                false => BTreeMap::new(),
            };
            // Whether the gradients of a layer are finite, if there are any.
            let finite = |layer: &usize| {
                let of_factors = factors.get(layer).map(|factors| match factors {
                    FoundFactors::Missing => None,
                    FoundFactors::NotFinite => Some(false),
                    FoundFactors::Finite(_) => Some(true),
                });
                let of_activity = measured.get(layer).copied();
                let mut answers = [of_factors, of_activity].into_iter().flatten();
                answers.try_fold(true, |all, answer| Some(all && answer?))
            };
            let is_bad = |layer: &&usize| finite(layer) == Some(false);
            if let Some(&layer) = members.iter().find(is_bad) {
                decision.skip(SkipReason::NonFiniteGradient {
                    layer: found[layer].name.clone(),
                });
                continue;
            }
            let usable: Vec<usize> = members
                .iter()
                .copied()
                .filter(|layer| finite(layer).is_some())
                .collect();
            if usable.is_empty() {
                decision.skip(SkipReason::NoGradient);
                continue;
            }
            let functional = match needs.functional {
                true => self.functional_of(found, rule)?,
                false => BTreeMap::new(),
            };
            let values = read_values(found, &usable);
            let views = self.slots.views(found, &values, needs, &factors, self.step);
            if let Some(view) = views.par_iter().find_first(|view| !view.is_finite()) {
                decision.skip(SkipReason::NonFiniteValue {
                    layer: view.name().to_string(),
                });
                continue;
            }
            let net = NetView::new(
                views
                    .iter()
                    .map(|view| view.as_view(functional.get(view.name())))
                    .collect(),
                self.step,
            );
            let random = UpdateRandom {
                seed: self.seed.wrapping_add((index as u64) << 32),
                step: self.step,
            };
            let plans = rule.method.plan(&net, turnover, random)?;
            if plans.len() != usable.len() {
                return Err(DstError::PlanCount {
                    expected: usable.len(),
                    found: plans.len(),
                });
            }
            drop(net);
            drop(views);
            let before: Vec<_> = usable
                .iter()
                .map(|&layer| &**found[layer].pattern.pattern())
                .collect();
            let plans = adopt_plans(&*self.ranks, &before, plans)?;
            for ((layer, values), plan) in values.into_iter().zip(plans) {
                outcomes.insert(layer, (plan, rule.state, values));
            }
        }
        for (index, layer) in found.iter().enumerate() {
            let is_due = |rule: &Rule| rule.schedule.turnover(self.step).is_some();
            if !self.rule_of(index).is_some_and(is_due) {
                continue;
            }
            self.collected.clear(&layer.name);
            if layer.frozen {
                continue;
            }
            let outcome = outcomes.remove(&index);
            let plan = outcome.as_ref().map(|(plan, ..)| plan);
            decision.update.layers.push(LayerUpdate::of(layer, plan));
            if let Some((plan, policy, values)) = outcome
                && !plan.is_noop()
            {
                decision.plans.push(Planned {
                    layer: layer.clone(),
                    values,
                    plan,
                    policy,
                });
            }
        }
        if due {
            self.skipped += u64::from(decision.update.skipped.is_some());
            self.last = Some(decision.update.clone());
        }
        Ok(decision)
    }

    /// The layers must be those that the updater was made for.
    fn check(&self, found: &[FoundLayer]) -> Result<(), DstError> {
        if let Some(layer) = self
            .layers
            .iter()
            .zip(found)
            .find(|(a, b)| a.name != b.name)
        {
            return Err(DstError::UnknownLayer {
                name: layer.1.name.clone(),
            });
        }
        match found.len() == self.layers.len() {
            true => self.slots.check(found),
            false => Err(DstError::LayerCount {
                expected: self.layers.len(),
                found: found.len(),
            }),
        }
    }

    pub(super) fn needs(&self, layer: usize) -> Signals {
        match &self.groups[self.layers[layer].group].rule {
            Some(rule) => rule.method.needs(),
            None => Signals::NONE,
        }
    }

    pub(super) fn needs_of_all(&self) -> Signals {
        (0..self.layers.len()).fold(Signals::NONE, |needs, layer| needs | self.needs(layer))
    }

    pub(super) fn rule_of(&self, layer: usize) -> Option<&Rule> {
        self.groups[self.layers[layer].group].rule.as_ref()
    }

    /// Reachability must make sense of the layers where a rule needs it.
    pub(super) fn check_reachability(&self, found: &[FoundLayer]) -> Result<(), DstError> {
        for rule in self.groups.iter().filter_map(|group| group.rule.as_ref()) {
            if rule.method.needs().functional {
                self.functional_of(found, rule)?;
            }
        }
        Ok(())
    }

    fn functional_of(
        &self,
        found: &[FoundLayer],
        rule: &Rule,
    ) -> Result<BTreeMap<String, Functional>, DstError> {
        let layers: Vec<_> = found
            .iter()
            .map(|layer| (layer.name.as_str(), &**layer.pattern.pattern()))
            .collect();
        let chain;
        let graph = match &rule.graph {
            Some(graph) => graph,
            None => {
                chain = LayerGraph::chain(&layers).map_err(|source| DstError::NoChain {
                    source: Box::new(source),
                })?;
                &chain
            }
        };
        let functional = graph.functional(&layers)?;
        let names = layers.iter().map(|(name, _)| name.to_string());
        Ok(names
            .zip(functional)
            .zip(found)
            .map(|((name, functional), layer)| {
                let everywhere = || Functional::everywhere(layer.pattern.pattern().shape());
                (name, functional.unwrap_or_else(everywhere))
            })
            .collect())
    }
}

/// The values of the given layers.
fn read_values(found: &[FoundLayer], members: &[usize]) -> Vec<(usize, TensorData)> {
    let values = members
        .iter()
        .map(|&index| found[index].values.clone().detach().without_autodiff());
    let read = read_all(values.collect());
    members.iter().copied().zip(read).collect()
}
