use super::precision::project;
use crate::{Gpt2Config, InitStream, MlpMode};
use burn::{
    module::{Module, Param},
    nn::{Initializer, Linear},
    tensor::{Device, Tensor},
};
use snack_burn::prelude::*;

/// A linear layer in the storage that [`MlpMode`] selects.
#[derive(Module, Debug)]
pub enum MlpLinear {
    /// All weights.
    Dense(Linear),
    /// All weights, most of them held at zero by a mask.
    Masked(MaskedLinear),
    /// Only the non-zero weights.
    Sparse(SparseLinear),
}

/// Sparse layers may round as Burn's dense layers do.
pub(crate) fn routines() -> Routines {
    Routines {
        reduced_precision: true,
        ..Default::default()
    }
}

impl MlpLinear {
    /// Initializes the layer with zero bias and weights of deviation `std` in the dense case.
    ///
    /// In the sparse cases a row with `F` of `d_input` weights draws from
    /// `N(0, std^2 d_input / F)`, so that outputs start as large as those of the dense layer.
    /// Masked and sparse layers of the same stream have the same pattern and the same values.
    pub fn new(
        [d_input, d_output]: [usize; 2],
        std: f64,
        config: &Gpt2Config,
        stream: &mut InitStream,
        device: &Device,
    ) -> Self {
        let sparse = |seed| {
            SparseLinearConfig::new(d_input, d_output)
                .with_sparsity(config.sparsity)
                .with_profile(config.profile)
                .with_bias(true)
                .with_initializer(SparseInitializer::FanInNormal {
                    gain: std * (d_input as f64).sqrt(),
                })
                .with_bias_initializer(Some(Initializer::Zeros))
                .with_seed(Some(seed))
        };
        match config.mode {
            MlpMode::Dense => Self::Dense(Linear {
                weight: stream.normal([d_input, d_output], std, device),
                bias: Some(stream.zeros([d_output], device)),
            }),
            MlpMode::Masked => Self::Masked(sparse(stream.next_seed()).init_masked(device)),
            MlpMode::Sparse => {
                let layer = sparse(stream.next_seed()).init(device);
                Self::Sparse(layer.with_routines(routines()))
            }
        }
    }

    /// Applies the layer, in the precision of its input.
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
        match self {
            Self::Dense(layer) => project(layer, input),
            Self::Masked(layer) => layer.forward(input),
            Self::Sparse(layer) => layer.forward(input),
        }
    }

    /// `[d_input, d_output]`.
    pub fn dims(&self) -> [usize; 2] {
        match self {
            Self::Dense(layer) => layer.weight.dims(),
            Self::Masked(layer) => layer.weight.dims(),
            Self::Sparse(layer) => {
                let [d_output, d_input] = layer.weight_shape();
                [d_input, d_output]
            }
        }
    }

    /// The bias.
    pub fn bias(&self) -> Option<&Param<Tensor<1>>> {
        match self {
            Self::Dense(layer) => layer.bias.as_ref(),
            Self::Masked(layer) => layer.bias.as_ref(),
            Self::Sparse(layer) => layer.bias.as_ref(),
        }
    }

    /// Number of weights that exist, where the layer knows it.
    pub fn nnz(&self) -> Option<usize> {
        match self {
            Self::Dense(_) | Self::Masked(_) => None,
            Self::Sparse(layer) => Some(layer.nnz()),
        }
    }

    /// Number of weights in memory.
    pub fn stored(&self) -> usize {
        match self {
            Self::Dense(layer) => layer.weight.shape().num_elements(),
            Self::Masked(layer) => layer.weight.shape().num_elements(),
            Self::Sparse(layer) => layer.nnz(),
        }
    }

    /// Bytes on the device that say which weights exist, once the layer has trained.
    pub fn index_bytes(&self) -> usize {
        match self {
            Self::Dense(_) => 0,
            Self::Masked(layer) => layer.pruned.val().into_data().bytes().len(),
            Self::Sparse(layer) => {
                DevicePattern::bytes_in_training(layer.pattern(), &layer.values.device())
            }
        }
    }
}
