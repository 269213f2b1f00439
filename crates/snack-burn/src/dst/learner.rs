//! Topology updates inside Burn's `Learner`.

use burn::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer, MultiGradientsParams};
use burn::train::{InferenceStep, TrainOutput, TrainStep};

use super::SharedDst;

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
