//! Optimizer states that stay where they belong.

use burn::grad_clipping::GradientClipping;
use burn::module::ParamGroup;
use burn::optim::{
    DynOptimizer, DynState, LearningRate, ModuleOptimizer, Optimizer, StateSink, StateSource,
};
use burn::tensor::Device;
use burn::tensor::kind::BridgeTensor;

/// An optimizer whose states are loaded onto a given device.
///
/// Burn loads the record of an optimizer onto its default device and moves every state at the next
/// step. A topology update goes through a record, so that all states would take that detour, and
/// fail where the default device does not exist.
#[derive(Debug, Clone)]
pub struct OnDevice<O> {
    inner: O,
    device: Device,
}

impl<O: Optimizer> OnDevice<O> {
    /// The optimizer with states on `device`.
    pub fn new(inner: O, device: &Device) -> Self {
        Self {
            inner,
            device: device.clone().without_autodiff(),
        }
    }

    /// The optimizer of a whole module, with the given gradient clipping.
    pub fn init(self, clipping: Option<GradientClipping>) -> ModuleOptimizer {
        let fallback = ModuleOptimizer::from(self.inner.clone());
        fallback.with_group(ParamGroup::all(), self, clipping)
    }
}

impl<O: Optimizer> DynOptimizer for OnDevice<O> {
    fn step_dyn(
        &self,
        rank: usize,
        lr: LearningRate,
        tensor: BridgeTensor,
        grad: BridgeTensor,
        state: Option<DynState>,
    ) -> (BridgeTensor, Option<DynState>) {
        self.inner.step_dyn(rank, lr, tensor, grad, state)
    }

    fn to_device_dyn(&self, state: DynState, device: &Device) -> DynState {
        self.inner.to_device_dyn(state, device)
    }

    fn state_flatten(&self, prefix: &str, state: &DynState, out: &mut StateSink) {
        self.inner.state_flatten(prefix, state, out);
    }

    fn state_unflatten(
        &self,
        rank: usize,
        prefix: &str,
        src: &mut StateSource,
        _default: &Device,
    ) -> Option<DynState> {
        self.inner.state_unflatten(rank, prefix, src, &self.device)
    }
}
