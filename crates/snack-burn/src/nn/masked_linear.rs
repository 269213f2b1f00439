//! The dense layer with a binary mask: the oracle of the sparse layer, and its baseline.

use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param, ParamId};
use burn::tensor::{Bool, Device, Tensor, TensorData, assert_shape};

use super::sparse_linear::mixed_precision;
use crate::pattern::Pattern;
use crate::tensor::linear;

/// Applies a linear transformation with a dense weight of which a fixed mask keeps only some
/// elements.
///
/// It computes what a [`SparseLinear`](crate::nn::SparseLinear) of the same configuration and seed
/// computes, through Burn operations alone and at the cost of a dense layer and more: this is
/// how sparse training is usually simulated. Should be created with
/// [`SparseLinearConfig::init_masked`](crate::nn::SparseLinearConfig::init_masked).
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct MaskedLinear {
    /// Dense matrix of shape `[d_input, d_output]`, as in [`Linear`](burn::nn::Linear).
    pub weight: Param<Tensor<2>>,
    /// `[d_input, d_output]`, true where the weight does not exist.
    pub pruned: Param<Tensor<2, Bool>>,
    /// Vector of size `d_output`.
    pub bias: Option<Param<Tensor<1>>>,
}

impl MaskedLinear {
    pub(crate) fn from_parts(
        pattern: &Pattern,
        values: &[f32],
        bias: Option<Param<Tensor<1>>>,
        device: &Device,
    ) -> Self {
        let [d_output, d_input] = pattern.shape();
        let mut weight = vec![0.0f32; d_input * d_output];
        let mut pruned = vec![true; d_input * d_output];
        for ((output, input), &value) in pattern.iter().zip(values) {
            weight[input * d_output + output] = value;
            pruned[input * d_output + output] = false;
        }
        let pruned = TensorData::new(pruned, [d_input, d_output]);
        let plain = device.clone().without_autodiff();
        Self {
            weight: Param::from_data(TensorData::new(weight, [d_input, d_output]), device),
            pruned: Param::initialized(ParamId::new(), Tensor::from_data(pruned, &plain)),
            bias,
        }
    }

    /// Applies the forward pass on the input tensor, in mixed precision for an
    /// input in half precision, as [`SparseLinear::forward`](crate::nn::SparseLinear::forward).
    ///
    /// # Shapes
    ///
    /// - input: `[..., d_input]`
    /// - output: `[..., d_output]`
    ///
    /// # Panics
    ///
    /// Panics if the last axis of `input` is not `d_input`.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let mut weight = self.masked_weight();
        let [d_input, _] = weight.dims();
        assert_shape!(input, [.., d_input]);
        let mut bias = self.bias.as_ref().map(Param::val);
        if let Some(dtype) = mixed_precision(weight.dtype(), input.dtype()) {
            weight = weight.cast(dtype);
            bias = bias.map(|bias| bias.cast(dtype));
        }
        linear(input, weight, bias)
    }

    /// The weight `[d_input, d_output]` with zeros where it does not exist.
    pub fn masked_weight(&self) -> Tensor<2> {
        self.weight.val().mask_fill(self.pruned.val(), 0.0)
    }
}

impl ModuleDisplay for MaskedLinear {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new()
            .with_new_line_after_attribute(false)
            .optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let [d_input, d_output] = self.weight.shape().dims();
        content
            .add("d_input", &d_input)
            .add("d_output", &d_output)
            .add("bias", &self.bias.is_some())
            .optional()
    }
}
