//! Topology updates inside Burn's `Learner`.

use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer, MultiGradientsParams};
use burn::train::{InferenceStep, TrainOutput, TrainStep};

use super::{RankedDst, SharedDst};

/// A model whose topology is updated after every optimizer step of a
/// [`Learner`](burn::train::Learner).
///
/// ```text
/// let dst = DstConfig::set().init(&model)?;
/// let learner = Learner::new(Rewiring::new(model, dst), optimizer, learning_rate);
/// let result = training.launch(learner);
/// let model = result.model.model;
/// ```
///
/// Optimizer groups and updater see the paths of the model itself; in records of the wrapper all
/// paths begin with `model.`. The learner's checkpoints do not hold the updater's
/// [`state`](SharedDst::state): save it beside them.
#[derive(Module, Debug)]
pub struct Rewiring<M: Module> {
    /// The model.
    pub model: M,
    /// Its updater.
    #[module(skip)]
    pub dst: SharedDst,
}

impl<M: Module> Rewiring<M> {
    /// A model and the updater that was made for it.
    pub fn new(model: M, dst: impl Into<SharedDst>) -> Self {
        Self {
            model,
            dst: dst.into(),
        }
    }
}

impl<M: Module + TrainStep> TrainStep for Rewiring<M> {
    type Input = M::Input;
    type Output = M::Output;

    fn step(&self, item: Self::Input) -> TrainOutput<Self::Output> {
        // Workers of several devices train forks.
        self.dst.listen_to(&self.model);
        TrainStep::step(&self.model, item)
    }

    fn optimize(
        self,
        optim: &mut ModuleOptimizer,
        lr_module: ModuleLearningRate,
        grads: GradientsParams,
    ) -> Self {
        let Self { model, dst } = self;
        let model = model.optimize(optim, lr_module, grads);
        let model = dst.step(model, optim);
        Self { model, dst }
    }

    fn optimize_multi(
        self,
        optim: &mut ModuleOptimizer,
        lr_module: ModuleLearningRate,
        grads: MultiGradientsParams,
    ) -> Self {
        let Self { model, dst } = self;
        let model = model.optimize_multi(optim, lr_module, grads);
        let model = dst.step(model, optim);
        Self { model, dst }
    }
}

impl<M: Module + InferenceStep> InferenceStep for Rewiring<M> {
    type Input = M::Input;
    type Output = M::Output;

    fn step(&self, item: Self::Input) -> Self::Output {
        InferenceStep::step(&self.model, item)
    }
}

/// As [`Rewiring`] for Burn's `ExecutionStrategy::ddp`, which trains a replica on each device: every
/// replica has an updater of its own, and all apply the same plans.
///
/// ```text
/// let dst = RankedDst::new(&model, &DstConfig::rigl(steps), &devices)?;
/// let learner = Learner::new(RankedRewiring::new(model, dst), optimizer, learning_rate);
/// let mean = DistributedConfig { all_reduce_op: ReduceOperation::Mean };
/// let training = training.with_training_strategy(ExecutionStrategy::ddp(devices, mean).into());
/// ```
///
/// The strategy reduces gradients itself, so [`reduce_gradients`](crate::dist::reduce_gradients) has no
/// place here. Of the back ends of Burn 0.22 only CUDA knows it.
#[derive(Module, Debug)]
pub struct RankedRewiring<M: Module> {
    /// The model.
    pub model: M,
    /// Its updaters.
    #[module(skip)]
    pub dst: RankedDst,
}

impl<M: Module> RankedRewiring<M> {
    /// A model and the updaters that were made for it.
    pub fn new(model: M, dst: RankedDst) -> Self {
        Self { model, dst }
    }
}

impl<M: Module + TrainStep> TrainStep for RankedRewiring<M> {
    type Input = M::Input;
    type Output = M::Output;

    fn step(&self, item: Self::Input) -> TrainOutput<Self::Output> {
        self.dst.of(&self.model).listen_to(&self.model);
        TrainStep::step(&self.model, item)
    }

    fn optimize(
        self,
        optim: &mut ModuleOptimizer,
        lr_module: ModuleLearningRate,
        grads: GradientsParams,
    ) -> Self {
        let Self { model, dst } = self;
        let model = model.optimize(optim, lr_module, grads);
        let model = dst.of(&model).step(model, optim);
        Self { model, dst }
    }
}

impl<M: Module + InferenceStep> InferenceStep for RankedRewiring<M> {
    type Input = M::Input;
    type Output = M::Output;

    fn step(&self, item: Self::Input) -> Self::Output {
        InferenceStep::step(&self.model, item)
    }
}
