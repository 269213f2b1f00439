//! The updater and what users call.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use burn::module::{Module, ParamGroup};
use burn::optim::ModuleOptimizer;

use super::rule::{Group, Rule, values_path};
use crate::dist::{Alone, Communicator, check_same};
use crate::dst::collect::Collected;
use crate::dst::slots::SlotStates;
use crate::dst::{Changes, DstError, DstState, History, PerSlot, TopologyUpdate};
use crate::nn::{FoundLayer, find_layers, layer_label};
use crate::tap::Listener;

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
/// One updater owns a model: it must be the only thing that changes connections. After restoring a
/// model, make another updater with [`init_from`](crate::dst::DstConfig::init_from). Layers that
/// share one parameter (tied layers, or clones of a layer in one model) are refused.
///
/// [Words](crate::dst#words) explains what is called a slot, a turnover and so on.
///
/// The gradients are those of the very model that [`init`](crate::dst::DstConfig::init) saw or the last
/// call of [`step`](Dst::step) returned. Backward passes through forks of it, as several devices
/// need them, count if [`listen_to`](Dst::listen_to) is told of the forks first; passes through
/// clones that trained on do not.
pub struct Dst {
    pub(super) groups: Vec<Group>,
    pub(super) seed: u64,
    pub(super) step: u64,
    pub(super) skipped: u64,
    pub(super) layers: Vec<LayerEntry>,
    pub(super) slots: SlotStates,
    pub(super) collected: Collected,
    pub(super) listener: Listener,
    pub(super) followers: Vec<Box<dyn PerSlot>>,
    pub(super) last: Option<TopologyUpdate>,
    pub(super) changes: Option<Changes>,
    /// Whether the optimizer was seen to keep the step counters that a rule needs.
    pub(super) clocks_checked: bool,
    /// The ranks that train replicas of the model, of which this updater has one.
    pub(super) ranks: Arc<dyn Communicator>,
}

/// A layer as the updater knows it.
pub(super) struct LayerEntry {
    pub name: String,
    /// The group whose rule it follows.
    pub group: usize,
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
        check_ties(&found)?;
        let mut all = vec![Group { group: None, rule }];
        all.extend(groups.into_iter().map(|(group, rule)| Group {
            group: Some(group),
            rule,
        }));
        let unmatched = |group: &&Group| !found.iter().any(|layer| group.matches(layer));
        if let Some(group) = all.iter().find(unmatched) {
            return Err(DstError::GroupMatchesNothing {
                group: group
                    .group
                    .as_ref()
                    .map_or(String::new(), |g| format!("{g:?}")),
                first: values_path(first),
            });
        }
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
            clocks_checked: false,
            ranks: Arc::new(Alone),
        };
        dst.slots = SlotStates::new(&found, &state.layers, state.slots, |index| dst.needs(index))?;
        dst.collected = Collected::from_state(state.factors, &found)?;
        if dst.needs_of_all().functional {
            dst.check_reachability(&found)?;
        }
        dst.listen(&found);
        Ok(dst)
    }

    /// Lets other data with one element per connection follow the updates.
    pub fn register(&mut self, follower: impl PerSlot + 'static) {
        self.followers.push(Box::new(follower));
    }

    /// Makes this updater that of one rank of a group: every rank has a replica of the model and an
    /// updater of the same rule, seed and state, and calls [`try_step`](Self::try_step) after every
    /// optimizer step, whose gradients are means over ranks ([`dist`](crate::dist)).
    ///
    /// What rules look at then comes from the backward passes of all ranks, as if one rank had seen
    /// the batches of all. Before and after every update the patterns of all ranks are compared; the
    /// plan of rank 0 is everybody's, because devices may round scores differently.
    ///
    /// Replicas are [forks](Module::fork), not clones: a clone is the same parameter in the graph of
    /// derivatives, so that its backward passes would count for both.
    pub fn set_ranks(&mut self, ranks: Arc<dyn Communicator>) {
        self.ranks = ranks;
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
    /// step, [`DstConfig::init_from`](crate::dst::DstConfig::init_from) continues from it. What is
    /// [registered](Self::register) is not part of it.
    pub fn state(&self) -> DstState {
        DstState {
            step: self.step,
            skipped: self.skipped,
            layers: self.slots.identities(),
            slots: self.slots.to_state(),
            factors: self.collected.to_state(),
        }
    }

    /// Optimizer steps seen.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Updates that were due and did not happen, because no gradient was there, or because it or a
    /// value was not finite.
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
    /// Nothing changes where the turnover rounds to nothing, and where a gradient that the rule looks
    /// at is missing or not finite, or a value is not finite: [`last_update`](Self::last_update) then
    /// says so and [`skipped`](Self::skipped) counts it. Layers whose values want no gradient, as
    /// after `no_grad`, stay as they are and are not listed.
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
    /// model's layers are not those that the updater was made for, or something else has changed
    /// their connections; or the optimizer cannot be recorded, or lacks the step counters that
    /// [`StatePolicy::LocalClock`](crate::dst::StatePolicy::LocalClock) needs, which is found on the
    /// first call after it has states. With [several ranks](Self::set_ranks), an error of one is an
    /// error of all, and if the patterns differ only after the update, it has been made.
    pub fn try_step<M: Module>(
        &mut self,
        model: M,
        optimizer: &mut ModuleOptimizer,
    ) -> (M, Result<(), DstError>) {
        self.step = self.step.saturating_add(1);
        self.last = None;
        self.changes = None;
        if let Err(error) = self.check_clocks(&model, optimizer) {
            self.ranks.leave(&error.to_string());
            return (model, Err(error));
        }
        let Some(found) = self.layers_to_look_at(&model) else {
            return (model, Ok(()));
        };
        let (model, result) = match self.decide(&found) {
            Ok(decision) => self.apply(model, optimizer, decision),
            Err(error) => (model, Err(error)),
        };
        let found = find_layers(&model);
        let result = result.and_then(|()| match self.last {
            Some(_) => Ok(check_same(&*self.ranks, &found)?),
            None => Ok(()),
        });
        if let Err(error) = &result {
            // The others must not wait for an update that does not come.
            self.ranks.leave(&error.to_string());
        }
        if result.is_ok() {
            self.slots.share(&found);
        }
        self.listen(&found);
        (model, result)
    }

    /// Paths of the layers that some rule rewires, in the order of the model.
    pub fn rewired(&self) -> Vec<&str> {
        let rewired = |entry: &&LayerEntry| self.groups[entry.group].rule.is_some();
        let entries = self.layers.iter().filter(rewired);
        entries.map(|entry| entry.name.as_str()).collect()
    }
}

/// Layers that share one parameter would move its optimizer state twice.
fn check_ties(found: &[FoundLayer]) -> Result<(), DstError> {
    let mut seen: BTreeMap<u64, &str> = BTreeMap::new();
    for layer in found {
        if let Some(first) = seen.insert(layer.values_id.val(), &layer.name) {
            return Err(DstError::TiedLayers {
                first: layer_label(first).to_string(),
                second: layer_label(&layer.name).to_string(),
            });
        }
    }
    Ok(())
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
