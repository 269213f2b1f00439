//! Topology updates of whole models.

use std::collections::BTreeMap;
use std::fmt;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Grow, Plan, Prune, Schedule, plan, remap_optimizer};
use crate::nn::{NewWeights, SparseLayer, replace_weights, sparse_layers};

/// Updates the topology of all [`SparseLinear`](crate::nn::SparseLinear) layers of a model while
/// it trains.
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
/// let mut dst = DstConfig::set().with_every(2).init();
/// for _ in 0..4 {
///     let x = Tensor::<2>::random([8, 20], Distribution::Default, &device);
///     let loss = model.forward(x).powi_scalar(2).mean();
///     let grads = GradientsParams::from_grads(loss.backward(), &model);
///     model = optim.step(0.1, model, grads);
///     (model, optim) = dst.step(model, optim);
/// }
/// assert_eq!(model.nnz(), 40);
/// ```
pub struct Dst {
    prune: Box<dyn Prune>,
    grow: Box<dyn Grow>,
    schedule: Box<dyn Schedule>,
    seed: u64,
    step: u64,
    last: Option<TopologyUpdate>,
}

/// Where an updater stands, for checkpoints.
///
/// Random growth depends on the seed, the step and the layer only, so the step is all the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DstState {
    /// Optimizer steps seen.
    pub step: u64,
}

/// What an update did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopologyUpdate {
    /// The optimizer step after which it happened, counted from 1.
    pub step: u64,
    /// The layers in the order of the model.
    pub layers: Vec<LayerUpdate>,
}

/// What an update did to one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerUpdate {
    /// Path of the layer in the model.
    pub name: String,
    /// Non-zeros, the same before and after.
    pub nnz: usize,
    /// `nnz / (m k)`.
    pub density: f64,
    /// Connections that left.
    pub dropped: usize,
    /// Connections that entered.
    pub grown: usize,
}

impl Dst {
    /// An updater with other criteria than [`DstConfig`](super::DstConfig) offers.
    pub fn new(
        prune: impl Prune + 'static,
        grow: impl Grow + 'static,
        schedule: impl Schedule + 'static,
        seed: u64,
    ) -> Self {
        Self {
            prune: Box::new(prune),
            grow: Box::new(grow),
            schedule: Box::new(schedule),
            seed,
            step: 0,
            last: None,
        }
    }

    /// The same updater where an interrupted run stood.
    pub fn at(mut self, state: DstState) -> Self {
        self.step = state.step;
        self
    }

    /// Where the updater stands.
    pub fn state(&self) -> DstState {
        DstState { step: self.step }
    }

    /// What the last call of [`step`](Dst::step) did; `None` if the schedule had no update then.
    pub fn last_update(&self) -> Option<&TopologyUpdate> {
        self.last.as_ref()
    }

    /// Counts an optimizer step and, where the schedule says so, replaces connections of every
    /// sparse layer. Values and optimizer states of survivors move with their coordinates,
    /// newcomers start at zero, parameter ids and numbers of non-zeros stay.
    ///
    /// # Panics
    ///
    /// Panics if a custom criterion proposes coordinates that are not inactive, or if the
    /// optimizer cannot be recorded.
    pub fn step<M: Module>(
        &mut self,
        model: M,
        optimizer: ModuleOptimizer,
    ) -> (M, ModuleOptimizer) {
        self.step += 1;
        self.last = None;
        let Some(turnover) = self.schedule.turnover(self.step) else {
            return (model, optimizer);
        };
        let mut update = TopologyUpdate {
            step: self.step,
            layers: Vec::new(),
        };
        let (mut weights, mut remaps) = (BTreeMap::new(), BTreeMap::new());
        for (index, layer) in sparse_layers(&model).into_iter().enumerate() {
            let data = layer.values.clone().detach().into_data();
            let values: Vec<f32> = data.iter::<f32>().collect();
            let plan = self.plan(&layer, index, &values, turnover.drop);
            update.layers.push(LayerUpdate {
                nnz: plan.pattern.nnz(),
                density: plan.pattern.density(),
                dropped: plan.replaced,
                grown: plan.replaced,
                name: layer.name.clone(),
            });
            if plan.replaced > 0 {
                let values = plan.remap.apply(data);
                let pattern = plan.pattern;
                weights.insert(layer.name, NewWeights { pattern, values });
                remaps.insert(layer.values_id, plan.remap);
            }
        }
        self.last = Some(update);
        if remaps.is_empty() {
            return (model, optimizer);
        }
        let optimizer = remap_optimizer(optimizer, &remaps)
            .unwrap_or_else(|error| panic!("the optimizer cannot be remapped: {error}"));
        (replace_weights(model, weights), optimizer)
    }

    fn plan(&self, layer: &SparseLayer, index: usize, values: &[f32], fraction: f64) -> Plan {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(self.step << 16 | index as u64);
        plan(
            &layer.pattern,
            values,
            fraction,
            &*self.prune,
            &*self.grow,
            &mut rng,
        )
        .unwrap_or_else(|error| panic!("topology update of `{}`: {error}", layer.name))
    }
}

impl fmt::Debug for Dst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dst")
            .field("seed", &self.seed)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for TopologyUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nnz: usize = self.layers.iter().map(|layer| layer.nnz).sum();
        let replaced: usize = self.layers.iter().map(|layer| layer.dropped).sum();
        write!(
            f,
            "step {}: replaced {replaced} of {nnz} connections in {} layers",
            self.step,
            self.layers.len()
        )
    }
}
