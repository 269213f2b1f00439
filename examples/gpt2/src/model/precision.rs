use burn::{
    nn::Linear,
    tensor::{DType, FloatDType, Tensor},
};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use snack_burn::tensor::linear;

/// In which precision the matrices of the model are multiplied.
///
/// Weights, gradients, optimizer states, the residual stream, layer norms, softmax and loss are `f32`
/// in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Everything in single precision.
    #[default]
    F32,
    /// Matrix products and what lies between them in bfloat16.
    Bf16,
}

impl core::fmt::Display for Precision {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}

impl Precision {
    /// The type of the operands of matrix products.
    pub fn dtype(self) -> FloatDType {
        match self {
            Self::F32 => FloatDType::F32,
            Self::Bf16 => FloatDType::BF16,
        }
    }

    /// An operand of a matrix product.
    pub(crate) fn lower<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        convert(x, self.dtype())
    }
}

/// A tensor in `dtype`; itself if it has that.
pub(crate) fn convert<const D: usize>(x: Tensor<D>, dtype: FloatDType) -> Tensor<D> {
    match x.dtype() == DType::from(dtype) {
        true => x,
        false => x.cast(dtype),
    }
}

/// Applies a dense layer in the precision of its input; the layer stays as it is.
pub(crate) fn project<const D: usize>(layer: &Linear, x: Tensor<D>) -> Tensor<D> {
    let dtype = FloatDType::from(x.dtype());
    let weight = convert(layer.weight.val(), dtype);
    let bias = layer.bias.as_ref().map(|bias| convert(bias.val(), dtype));
    linear(x, weight, bias)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::{nn::LinearConfig, tensor::Device};

    #[test]
    fn layers_follow_their_input_and_gradients_their_layer() {
        let device = Device::default().autodiff();
        let layer = LinearConfig::new(3, 2).init(&device);
        let x = Tensor::<2>::from_floats([[1.0, -2.0, 0.5]], &device);

        let exact = layer.forward(x.clone());
        assert_eq!(project(&layer, x.clone()).into_data(), exact.into_data());
        let y = project(&layer, Precision::Bf16.lower(x));
        assert_eq!(y.dtype(), DType::BF16);
        let grads = y.sum().backward();
        assert_eq!(layer.weight.grad(&grads).unwrap().dtype(), DType::F32);
    }
}
