use crate::{Gpt2, MlpLinear};
use burn::{
    module::{Module, Param},
    nn::Linear,
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
