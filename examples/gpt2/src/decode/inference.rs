use crate::{Gpt2, MlpLinear};
use burn::{
    module::{Module, Param},
    nn::Linear,
    tensor::Tensor,
};

/// The model as it only computes forward: without autodiff, and with the masks of masked layers applied
/// once instead of at every token.
pub(crate) fn for_inference(model: &Gpt2) -> Gpt2 {
    let mut model = model.valid();
    for block in &mut model.h {
        for layer in [&mut block.mlp.c_fc, &mut block.mlp.c_proj] {
            if let MlpLinear::Masked(masked) = layer {
                *layer = MlpLinear::Dense(Linear {
                    weight: Param::from_tensor(masked.masked_weight()),
                    bias: masked.bias.clone(),
                });
            }
        }
    }
    model
}

/// GELU in its tanh form, written as `x / (1 + exp(-2 u))`: `gelu_tanh` leaves the sigmoid to
/// the back end, which takes six operations for it where it has no kernel of its own. Far to the
/// left `exp` is infinite and the quotient zero, as it should be.
pub(super) fn gelu(x: Tensor<3>) -> Tensor<3> {
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
    const LINEAR: f64 = -2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    const CUBIC: f64 = LINEAR * 0.044715;

    let slope = (x.clone() * x.clone()).mul_scalar(CUBIC).add_scalar(LINEAR);
    let scale = (x.clone() * slope).exp().add_scalar(1.0);
    x / scale
}
