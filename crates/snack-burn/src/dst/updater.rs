//! Topology updates of whole models.

use std::collections::BTreeMap;
use std::fmt;

use burn::module::{Module, ParamGroup};
use burn::optim::ModuleOptimizer;

use super::collect::{Collected, FoundFactors};
use super::slots::SlotStates;
use super::{
    ActivityConfig, Changes, DstError, DstState, History, LayerChange, LayerGraph, LayerUpdate,
    Method, NetView, PerSlot, Plan, Schedule, Signals, SkipReason, SlotChange, StatePolicy,
    TopologyUpdate, UpdateRandom, remapped_record,
};
use crate::nn::{FoundLayer, NewWeights, find_layers, replace_weights};
use crate::tap::{Listener, RowSample};

/// When, how and with what consequences for the optimizer a group of layers is rewired; made by
/// [`DstConfig::rule`](super::DstConfig::rule).
pub struct Rule {
    pub(crate) method: Box<dyn Method>,
    pub(crate) schedule: Box<dyn Schedule>,
    pub(crate) state: StatePolicy,
    pub(crate) accumulate: u64,
    pub(crate) max_rows: Option<usize>,
    pub(crate) scratch_bytes: usize,
    pub(crate) activity: Option<ActivityConfig>,
    pub(crate) graph: Option<LayerGraph>,
}

/// Layers and their rule; `None` leaves them as they are.
struct Group {
    /// `None` matches all.
    group: Option<ParamGroup>,
    rule: Option<Rule>,
}

impl Group {
    fn matches(&self, layer: &FoundLayer) -> bool {
        let Some(group) = &self.group else {
            return true;
        };
        let values = match layer.name.as_str() {
            "" => "values".to_string(),
            name => format!("{name}.values"),
        };
        [&values, &layer.name]
            .iter()
            .any(|path| group.matches(&layer.values_id, Some(path)))
    }
}

/// Updates the topology of the [`SparseLinear`](crate::nn::SparseLinear) layers of a model while it
/// trains.
///
/// Call [`step`](Dst::step) once after every optimizer step:
///
/// ```
/// use burn::optim::{GradientsParams, SgdConfig};
/// use burn::tensor::{Device, Distribution, Tensor};
/// use snack_burn::prelude::*;
///
/// let device = Device::default().autodiff();
/// let mut model = SparseLinearConfig::new(20, 10).with_sparsity(0.8).init(&device);
/// let mut optim = SgdConfig::new().init();
/// let mut dst = DstConfig::rigl(4).with_every(2).init(&model)?;
/// for _ in 0..4 {
///     let x = Tensor::<2>::random([8, 20], Distribution::Default, &device);
///     let loss = model.forward(x).powi_scalar(2).mean();
///     let grads = GradientsParams::from_grads(loss.backward(), &model);
///     model = optim.step(0.1, model, grads);
///     (model, optim) = dst.step(model, optim);
/// }
/// assert_eq!(model.nnz(), 40);
/// # Ok::<(), DstError>(())
/// ```
///
/// An update sees the weights after the optimizer step and the gradients of the backward passes
/// before it. Where several backward passes are accumulated for one optimizer step, the factors of
/// all of them make up the gradient, as they do for the optimizer.
///
/// The gradients are those of the very model that [`init`](super::DstConfig::init) saw or the last
/// call of [`step`](Dst::step) returned. Backward passes through forks of it, as several devices
/// need them, count if [`listen_to`](Dst::listen_to) is told of the forks first; passes through
/// clones that trained on do not.
pub struct Dst {
    groups: Vec<Group>,
    seed: u64,
    step: u64,
    skipped: u64,
    layers: Vec<LayerEntry>,
    slots: SlotStates,
    collected: Collected,
    listener: Listener,
    followers: Vec<Box<dyn PerSlot>>,
    last: Option<TopologyUpdate>,
    changes: Option<Changes>,
}

/// A layer as the updater knows it.
struct LayerEntry {
    name: String,
    /// The group whose rule it follows.
    group: usize,
}

/// An update that is decided but not applied.
struct Decision {
    update: TopologyUpdate,
    plans: Vec<(FoundLayer, Plan, StatePolicy)>,
}

impl Dst {
    /// An updater of all sparse layers by one rule.
    ///
    /// # Errors
    ///
    /// The model has no sparse layers, the state belongs to another model, or reachability guides
    /// the rule and the layers do not form a chain.
    pub fn new<M: Module>(
        model: &M,
        rule: Rule,
        seed: u64,
        state: DstState,
    ) -> Result<Self, DstError> {
        Self::with_groups(model, Some(rule), Vec::new(), seed, state)
    }

    /// An updater whose layers follow the rule of the last group that matches, or else `rule`;
    /// `None` leaves a layer as it is.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and if no layer is left to rewire.
    pub fn with_groups<M: Module>(
        model: &M,
        rule: Option<Rule>,
        groups: Vec<(ParamGroup, Option<Rule>)>,
        seed: u64,
        state: DstState,
    ) -> Result<Self, DstError> {
        let found = find_layers(model);
        let Some(first) = found.first() else {
            return Err(DstError::NoSparseLayers);
        };
        let mut all = vec![Group { group: None, rule }];
        all.extend(groups.into_iter().map(|(group, rule)| Group {
            group: Some(group),
            rule,
        }));
        let group_of = |layer: &FoundLayer| {
            let last = all.iter().rposition(|group| group.matches(layer));
            last.expect("the first group matches all")
        };
        let layers: Vec<LayerEntry> = found
            .iter()
            .map(|layer| LayerEntry {
                name: layer.name.clone(),
                group: group_of(layer),
            })
            .collect();
        if layers.iter().all(|layer| all[layer.group].rule.is_none()) {
            return Err(DstError::NothingMatches {
                layers: layers.len(),
                first: first.name.clone(),
            });
        }
        let mut dst = Self {
            groups: all,
            seed,
            step: state.step,
            skipped: state.skipped,
            layers,
            slots: SlotStates::default(),
            collected: Collected::default(),
            listener: Listener::new(),
            followers: Vec::new(),
            last: None,
            changes: None,
        };
        dst.slots = SlotStates::new(&found, state.slots, |index| dst.needs(index))?;
        dst.collected = Collected::from_state(state.factors, &found)?;
        if dst.needs_of_all().functional {
            dst.functional(&found)?;
        }
        dst.listen(&found);
        Ok(dst)
    }

    /// Lets other data with one element per connection follow the updates.
    pub fn register(&mut self, follower: impl PerSlot + 'static) {
        self.followers.push(Box::new(follower));
    }

    /// Lets the backward passes of a replica count for the next step, where gradients are wanted for
    /// it: call it for every [`fork`](Module::fork) of the model whose gradients the optimizer
    /// adds up, and after moving the model to another device. Cheap when nothing is wanted.
    pub fn listen_to<M: Module>(&self, replica: &M) {
        if !self.listener.is_armed() {
            return;
        }
        let found = find_layers(replica).into_iter();
        let nodes = found.filter_map(|layer| Some((layer.node?, layer.values_id)));
        self.listener.listen_also(nodes);
    }

    /// Where the updater stands, for checkpoints: with the same rule and the model of the same
    /// step, [`DstConfig::init_from`](super::DstConfig::init_from) continues from it. What is
    /// [registered](Self::register) is not part of it.
    pub fn state(&self) -> DstState {
        DstState {
            step: self.step,
            skipped: self.skipped,
            slots: self.slots.to_state(),
            factors: self.collected.to_state(),
        }
    }

    /// Optimizer steps seen.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Updates that were due and did not happen, because no gradient was there or it was not
    /// finite.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// What the last call of [`step`](Dst::step) did; `None` if the schedule had no update then.
    pub fn last_update(&self) -> Option<&TopologyUpdate> {
        self.last.as_ref()
    }

    /// What the last call of [`step`](Dst::step) changed, connection by connection; `None` if
    /// nothing.
    pub fn last_changes(&self) -> Option<&Changes> {
        self.changes.as_ref()
    }

    /// The coordinates of a layer that have ever been active, if a rule or
    /// [`track_history`](Self::track_history) asks for them.
    pub fn history(&self, layer: &str) -> Option<&History> {
        self.slots.history(layer)
    }

    /// Records from now on which coordinates have ever been active, one bit per coordinate of every
    /// sparse layer on the host.
    pub fn track_history<M: Module>(&mut self, model: &M) {
        self.slots.track_history(&find_layers(model));
    }

    /// Counts an optimizer step and, where the schedule says so, replaces connections. Values and
    /// optimizer states of survivors move with their coordinates, parameter ids stay.
    ///
    /// Nothing changes where the turnover rounds to nothing, and where a gradient is missing or not
    /// finite: [`last_update`](Self::last_update) then says so and [`skipped`](Self::skipped)
    /// counts it.
    ///
    /// # Panics
    ///
    /// Panics with the error of [`try_step`](Self::try_step).
    pub fn step<M: Module>(
        &mut self,
        model: M,
        mut optimizer: ModuleOptimizer,
    ) -> (M, ModuleOptimizer) {
        let model = self.step_mut(model, &mut optimizer);
        (model, optimizer)
    }

    /// As [`step`](Self::step) on an optimizer that is held elsewhere.
    ///
    /// # Panics
    ///
    /// As [`step`](Self::step).
    pub fn step_mut<M: Module>(&mut self, model: M, optimizer: &mut ModuleOptimizer) -> M {
        let (model, result) = self.try_step(model, optimizer);
        match result {
            Ok(()) => model,
            Err(error) => panic!("topology update at step {}: {error}", self.step),
        }
    }

    /// As [`step`](Self::step). The whole update is planned before anything changes: with an error
    /// the model and the optimizer are returned as they were.
    ///
    /// # Errors
    ///
    /// A criterion lacks data, proposes what it may not, or gives lists of the wrong length; the
    /// model's layers are not those that the updater was made for; or the optimizer cannot be
    /// recorded.
    pub fn try_step<M: Module>(
        &mut self,
        model: M,
        optimizer: &mut ModuleOptimizer,
    ) -> (M, Result<(), DstError>) {
        self.step += 1;
        self.last = None;
        self.changes = None;
        let Some(found) = self.layers_to_look_at(&model) else {
            return (model, Ok(()));
        };
        let (model, result) = match self.decide(&found) {
            Ok(decision) => self.apply(model, optimizer, decision),
            Err(error) => (model, Err(error)),
        };
        self.listen(&find_layers(&model));
        (model, result)
    }

    /// The layers, unless this step neither updates nor captures nor comes before one that does.
    fn layers_to_look_at<M: Module>(&self, model: &M) -> Option<Vec<FoundLayer>> {
        let busy = self.groups.iter().filter_map(|group| group.rule.as_ref());
        busy.into_iter()
            .any(|rule| {
                rule.schedule.turnover(self.step).is_some()
                    || rule.captures(self.step)
                    || rule.captures(self.step + 1)
            })
            .then(|| find_layers(model))
    }

    fn decide(&mut self, found: &[FoundLayer]) -> Result<Decision, DstError> {
        self.check(found)?;
        self.collect(found);
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
                .filter(|&layer| self.layers[layer].group == index)
                .collect();
            if members.is_empty() {
                continue;
            }
            let needs = rule.method.needs();
            let wanted = members.iter().filter(|_| needs.needs_factors());
            let factors: BTreeMap<usize, FoundFactors> = wanted
                .map(|&layer| {
                    let factors = self.collected.factors(&found[layer], rule.scratch_bytes);
                    (layer, factors)
                })
                .collect();
            let usable: Vec<usize> = match needs.needs_factors() {
                false => members.clone(),
                true => members
                    .iter()
                    .copied()
                    .filter(|layer| matches!(factors[layer], FoundFactors::Finite(_)))
                    .collect(),
            };
            if needs.needs_factors() {
                let bad = |layer: &&usize| matches!(factors[layer], FoundFactors::NotFinite);
                let reason = match members.iter().find(bad) {
                    Some(&layer) => Some(SkipReason::NonFiniteGradient {
                        layer: found[layer].name.clone(),
                    }),
                    None if usable.is_empty() => Some(SkipReason::NoGradient),
                    None => None,
                };
                if reason.is_some() {
                    decision.update.skipped = decision.update.skipped.or(reason);
                    continue;
                }
            }
            let functional = match needs.functional {
                true => self.functional_of(found, rule)?,
                false => BTreeMap::new(),
            };
            let views = self.slots.views(found, &usable, needs, &factors, self.step);
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
            for (layer, plan) in usable.into_iter().zip(plans) {
                outcomes.insert(layer, (plan, rule.state));
            }
        }
        for (index, layer) in found.iter().enumerate() {
            let is_due = |rule: &Rule| rule.schedule.turnover(self.step).is_some();
            if !self.rule_of(index).is_some_and(is_due) {
                continue;
            }
            self.collected.clear(&layer.name);
            let outcome = outcomes.remove(&index);
            let plan = outcome.as_ref().map(|(plan, _)| plan);
            decision.update.layers.push(LayerUpdate::of(layer, plan));
            if let Some((plan, state)) = outcome
                && !plan.is_noop()
            {
                decision.plans.push((layer.clone(), plan, state));
            }
        }
        if due {
            self.skipped += u64::from(decision.update.skipped.is_some());
            self.last = Some(decision.update.clone());
        }
        Ok(decision)
    }

    fn apply<M: Module>(
        &mut self,
        model: M,
        optimizer: &mut ModuleOptimizer,
        decision: Decision,
    ) -> (M, Result<(), DstError>) {
        if decision.plans.is_empty() {
            return (model, Ok(()));
        }
        let (mut weights, mut moved) = (BTreeMap::new(), Vec::new());
        let mut changes = Changes::default();
        for (layer, plan, policy) in decision.plans {
            let data = layer.values.clone().detach().into_data();
            let new = NewWeights {
                values: plan.remap.apply_with(data, Some(&plan.values)),
                pattern: plan.pattern.clone(),
            };
            weights.insert(layer.name.clone(), new);
            changes.layers.push(LayerChange {
                name: layer.name,
                values_id: layer.values_id,
                before: layer.pattern.pattern().clone(),
                after: plan.pattern,
                remap: plan.remap,
            });
            moved.push((policy, plan.gradients, plan.values));
        }
        let slots = changes.layers.iter().zip(&moved);
        let slots = slots.map(|(change, (policy, gradients, _))| {
            let slot = SlotChange {
                change,
                policy: *policy,
                gradients: gradients.as_deref(),
            };
            (change.values_id, slot)
        });
        let slots: BTreeMap<_, _> = slots.collect();
        match remapped_record(optimizer, &slots) {
            Ok(Some(record)) => *optimizer = optimizer.clone().load_record(record),
            Ok(None) => {}
            Err(error) => {
                self.last = None;
                return (model, Err(error));
            }
        }
        let model = replace_weights(model, weights);
        for (change, (_, _, values)) in changes.layers.iter().zip(&moved) {
            self.slots.apply(change, values, self.step, self.seed);
            for follower in &mut self.followers {
                follower.remap(change);
            }
        }
        self.changes = Some(changes);
        (model, Ok(()))
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
            false => Err(DstError::PlanCount {
                expected: self.layers.len(),
                found: found.len(),
            }),
        }
    }

    fn needs(&self, layer: usize) -> Signals {
        match &self.groups[self.layers[layer].group].rule {
            Some(rule) => rule.method.needs(),
            None => Signals::NONE,
        }
    }

    fn needs_of_all(&self) -> Signals {
        (0..self.layers.len()).fold(Signals::NONE, |needs, layer| needs | self.needs(layer))
    }

    fn rule_of(&self, layer: usize) -> Option<&Rule> {
        self.groups[self.layers[layer].group].rule.as_ref()
    }

    /// Takes what the backward passes of this step offered.
    fn collect(&mut self, found: &[FoundLayer]) {
        let mut parts = self.listener.take();
        for (index, layer) in found.iter().enumerate() {
            let Some(parts) = parts.remove(&layer.values_id.val()) else {
                continue;
            };
            let Some(rule) = self.rule_of(index) else {
                continue;
            };
            let grows = rule.method.needs().needs_factors()
                && rule.schedule.captures(self.step, rule.accumulate);
            if let Some(activity) = rule.activity {
                self.slots.add_activity(layer, &parts, activity);
            }
            if grows {
                self.collected.add(&layer.name, parts);
            }
        }
    }

    /// Listens for the factors of the next step, of the layers whose rules want them.
    fn listen(&self, found: &[FoundLayer]) {
        let wanting = (0..found.len().min(self.layers.len())).filter(|&layer| {
            self.rule_of(layer)
                .is_some_and(|rule| rule.captures(self.step + 1))
        });
        let rows = self.groups.iter().filter_map(|group| group.rule.as_ref());
        let rows = rows.filter_map(|rule| rule.max_rows).min();
        let rows = rows.map(|most| RowSample {
            most,
            seed: self.seed ^ (self.step + 1).rotate_left(40),
        });
        let nodes = wanting.filter_map(|layer| Some((found[layer].node?, found[layer].values_id)));
        self.listener.listen(nodes, rows);
    }

    fn functional(&self, found: &[FoundLayer]) -> Result<(), DstError> {
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
    ) -> Result<BTreeMap<String, super::Functional>, DstError> {
        let layers: Vec<_> = found
            .iter()
            .map(|layer| (layer.name.as_str(), &**layer.pattern.pattern()))
            .collect();
        let chain;
        let graph = match &rule.graph {
            Some(graph) => graph,
            None => {
                chain = LayerGraph::chain(&layers)?;
                &chain
            }
        };
        let functional = graph.functional(&layers)?;
        let names = layers.iter().map(|(name, _)| name.to_string());
        Ok(names
            .zip(functional)
            .zip(found)
            .map(|((name, functional), layer)| {
                let everywhere = || super::Functional::everywhere(layer.pattern.pattern().shape());
                (name, functional.unwrap_or_else(everywhere))
            })
            .collect())
    }
}

impl Rule {
    /// Whether the factors of a step are wanted.
    fn captures(&self, step: u64) -> bool {
        self.activity.is_some()
            || self.method.needs().needs_factors() && self.schedule.captures(step, self.accumulate)
    }
}

impl fmt::Debug for Dst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dst")
            .field("seed", &self.seed)
            .field("step", &self.step)
            .field("layers", &self.layers.len())
            .finish_non_exhaustive()
    }
}

/// Parameter ids that a test or a report may want.
impl Dst {
    /// Paths of the layers that some rule rewires, in the order of the model.
    pub fn rewired(&self) -> Vec<&str> {
        let rewired = |entry: &&LayerEntry| self.groups[entry.group].rule.is_some();
        let entries = self.layers.iter().filter(rewired);
        entries.map(|entry| entry.name.as_str()).collect()
    }
}
