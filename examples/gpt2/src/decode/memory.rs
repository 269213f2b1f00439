use super::DecodeState;
use crate::{Gpt2, GpuMeter, MlpLinear};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use serde::Serialize;

/// Memory of a model that writes text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DecodeMemory {
    /// Weights that exist.
    pub weights: usize,
    /// Coordinates of sparse weights that are on the device so far; they come with the first pass.
    pub indices: usize,
    /// Keys and values of all the tokens there is room for.
    pub kv_cache: usize,
    /// What the device has allocated in all, where it says so.
    pub device_in_use: Option<u64>,
    /// What the device holds ready in all, where it says so.
    pub device_reserved: Option<u64>,
    /// What all processes have on the GPU, where the decoder has a meter.
    pub nvml: Option<u64>,
}

impl DecodeMemory {
    pub(super) fn new(model: &Gpt2, state: &DecodeState, meter: Option<&GpuMeter>) -> Self {
        let mut weights = WeightBytes(0);
        model.visit(&mut weights);
        let usage = state.device().memory_pool_usage();
        Self {
            weights: weights.0,
            indices: model.mlp_layers().map(index_bytes).sum(),
            kv_cache: state.bytes(),
            device_in_use: usage.as_ref().map(|usage| usage.bytes_in_use),
            device_reserved: usage.as_ref().map(|usage| usage.bytes_reserved),
            nvml: meter
                .and_then(GpuMeter::read)
                .map(|reading| reading.used_bytes),
        }
    }
}

/// Masks are gone from a model that only computes forward.
fn index_bytes(layer: &MlpLinear) -> usize {
    match layer {
        MlpLinear::Dense(_) | MlpLinear::Masked(_) => 0,
        MlpLinear::Sparse(layer) => layer.pattern.index_bytes(),
    }
}

struct WeightBytes(usize);

impl ModuleVisitor for WeightBytes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weight = param.val();
        self.0 += weight.shape().num_elements() * weight.dtype().size();
    }
}
