//! An updater that a model carries along.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::Module;
use burn::optim::ModuleOptimizer;

use super::{Dst, DstState, TopologyUpdate};

/// A [`Dst`] behind a handle, for training loops that own the optimizer, such as Burn's `Learner`.
/// Clones are the same updater.
///
/// A model that implements Burn's `TrainStep` holds one in a field marked `#[module(skip)]`,
/// overrides `optimize`
///
/// ```text
/// fn optimize(self, optim: &mut ModuleOptimizer, lr: ModuleLearningRate, grads: GradientsParams) -> Self {
///     let dst = self.dst.clone();
///     let model = optim.step(lr, self, grads);
///     dst.step(model, optim)
/// }
/// ```
///
/// and calls [`listen_to`](Self::listen_to) with itself before its forward pass, since the `Learner`
/// forks the model onto the training device.
///
/// With the feature `train`, `Rewiring` does both for any model. The `Learner` calls `optimize` once
/// for every optimizer step, also when it accumulates gradients or spreads a batch over several
/// devices. Its strategy for distributed data parallelism runs a learner for each device, which is
/// not supported: they would all count steps of the one updater.
#[derive(Debug, Clone)]
pub struct SharedDst(Arc<Mutex<Dst>>);

impl SharedDst {
    /// A handle of the updater.
    pub fn new(dst: Dst) -> Self {
        Self(Arc::new(Mutex::new(dst)))
    }

    /// As [`Dst::step_mut`].
    ///
    /// # Panics
    ///
    /// As [`Dst::step_mut`].
    pub fn step<M: Module>(&self, model: M, optimizer: &mut ModuleOptimizer) -> M {
        self.lock().step_mut(model, optimizer)
    }

    /// As [`Dst::listen_to`].
    pub fn listen_to<M: Module>(&self, replica: &M) {
        self.lock().listen_to(replica);
    }

    /// As [`Dst::state`].
    pub fn state(&self) -> DstState {
        self.lock().state()
    }

    /// As [`Dst::last_update`].
    pub fn last_update(&self) -> Option<TopologyUpdate> {
        self.lock().last_update().cloned()
    }

    /// The updater, for whatever else; nobody else can use it until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, Dst> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Dst> for SharedDst {
    fn from(dst: Dst) -> Self {
        Self::new(dst)
    }
}
