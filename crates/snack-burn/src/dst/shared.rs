//! An updater that a model carries along.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use burn::module::Module;
use burn::optim::ModuleOptimizer;

use super::{Dst, DstError, DstState, History, TopologyUpdate};

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
/// devices. Its strategy for distributed data parallelism runs a learner for each device, which one
/// updater does not support: they would all count its steps. [`RankedDst`](crate::dst::RankedDst) has
/// an updater for each.
#[derive(Clone)]
pub struct SharedDst(Arc<Shared>);

struct Shared {
    dst: Mutex<Dst>,
    /// The thread that holds the updater.
    owner: Mutex<Option<ThreadId>>,
}

impl Shared {
    fn owner(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The updater of a [`SharedDst`], for as long as this lives.
pub struct SharedDstGuard<'a> {
    shared: &'a Shared,
    dst: MutexGuard<'a, Dst>,
}

impl SharedDst {
    /// A handle of the updater.
    pub fn new(dst: Dst) -> Self {
        Self(Arc::new(Shared {
            dst: Mutex::new(dst),
            owner: Mutex::new(None),
        }))
    }

    /// As [`Dst::step_mut`].
    ///
    /// # Panics
    ///
    /// As [`Dst::step_mut`] and [`lock`](Self::lock).
    pub fn step<M: Module>(&self, model: M, optimizer: &mut ModuleOptimizer) -> M {
        self.lock().step_mut(model, optimizer)
    }

    /// As [`Dst::try_step`].
    ///
    /// # Errors
    ///
    /// As [`Dst::try_step`].
    ///
    /// # Panics
    ///
    /// As [`lock`](Self::lock).
    pub fn try_step<M: Module>(
        &self,
        model: M,
        optimizer: &mut ModuleOptimizer,
    ) -> (M, Result<(), DstError>) {
        self.lock().try_step(model, optimizer)
    }

    /// As [`Dst::listen_to`].
    ///
    /// # Panics
    ///
    /// As [`lock`](Self::lock), as all that follow.
    pub fn listen_to<M: Module>(&self, replica: &M) {
        self.lock().listen_to(replica);
    }

    /// As [`Dst::state`].
    pub fn state(&self) -> DstState {
        self.lock().state()
    }

    /// As [`Dst::steps`].
    pub fn steps(&self) -> u64 {
        self.lock().steps()
    }

    /// As [`Dst::skipped`].
    pub fn skipped(&self) -> u64 {
        self.lock().skipped()
    }

    /// As [`Dst::last_update`].
    pub fn last_update(&self) -> Option<TopologyUpdate> {
        self.lock().last_update().cloned()
    }

    /// As [`Dst::history`].
    pub fn history(&self, layer: &str) -> Option<History> {
        self.lock().history(layer).cloned()
    }

    /// As [`Dst::rewired`].
    pub fn rewired(&self) -> Vec<String> {
        let dst = self.lock();
        dst.rewired().into_iter().map(str::to_string).collect()
    }

    /// The updater, for whatever else; nobody else can use it until the guard is dropped, which a
    /// guard in the middle of a statement is only at its end.
    ///
    /// # Panics
    ///
    /// Panics if this thread holds a guard already: it would wait for itself.
    pub fn lock(&self) -> SharedDstGuard<'_> {
        let this = thread::current().id();
        assert!(
            *self.0.owner() != Some(this),
            "SharedDst::lock: this thread already holds the updater; drop the guard first (a guard \
             in the middle of a statement lives to its end)"
        );
        let dst = self.0.dst.lock().unwrap_or_else(PoisonError::into_inner);
        *self.0.owner() = Some(this);
        SharedDstGuard {
            shared: &self.0,
            dst,
        }
    }
}

impl fmt::Debug for SharedDst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever prints a model may hold its updater.
        match self.0.dst.try_lock() {
            Ok(dst) => f.debug_tuple("SharedDst").field(&*dst).finish(),
            Err(_) => f.debug_tuple("SharedDst").finish_non_exhaustive(),
        }
    }
}

impl Deref for SharedDstGuard<'_> {
    type Target = Dst;

    fn deref(&self) -> &Dst {
        &self.dst
    }
}

impl DerefMut for SharedDstGuard<'_> {
    fn deref_mut(&mut self) -> &mut Dst {
        &mut self.dst
    }
}

impl Drop for SharedDstGuard<'_> {
    /// Runs before the updater itself is let go.
    fn drop(&mut self) {
        *self.shared.owner() = None;
    }
}

impl From<Dst> for SharedDst {
    fn from(dst: Dst) -> Self {
        Self::new(dst)
    }
}
