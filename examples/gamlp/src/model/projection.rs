use crate::{GamlpConfig, InitStream, SparseScope, WeightMode};
use burn::{
    module::{Module, Param},
    nn::{Initializer, Linear},
    tensor::{Device, Tensor},
};
use snack_burn::prelude::*;

/// A square linear layer in the storage that [`WeightMode`] selects.
#[derive(Module, Debug)]
pub enum Projection {
    /// All weights.
    Dense(Linear),
    /// All weights, most of them held at zero by a mask.
    Masked(MaskedLinear),
    /// Only the non-zero weights.
    Sparse(SparseLinear),
}

/// The kinds of matrices that [`SparseScope`] tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Head,
    Hidden,
}

impl Place {
    /// The storage of a matrix in this place.
    pub(crate) fn mode(self, config: &GamlpConfig) -> WeightMode {
        match (self, config.scope) {
            (Self::Head, SparseScope::Head | SparseScope::All)
            | (Self::Hidden, SparseScope::Hidden | SparseScope::All) => config.mode,
            _ => WeightMode::Dense,
        }
    }
}

/// Sparse layers may round as Burn's dense layers do.
pub(crate) fn routines() -> Routines {
    Routines {
        reduced_precision: true,
        ..Default::default()
    }
}

impl Projection {
    /// Draws the weights from `U(-bound, bound)` in the dense case; a bias starts at zero.
    ///
    /// In the sparse cases a row with `F` of `width` weights draws them with `width / F` times the
    /// variance, so that outputs start as large as those of the dense layer. Masked and sparse
    /// layers of the same stream have the same pattern and the same values.
    pub(crate) fn new(
        width: usize,
        bound: f64,
        bias: bool,
        place: Place,
        config: &GamlpConfig,
        stream: &mut InitStream,
        device: &Device,
    ) -> Self {
        let sparse = |seed| {
            SparseLinearConfig::new(width, width)
                .with_sparsity(config.sparsity)
                .with_profile(config.profile)
                .with_bias(bias)
                .with_initializer(SparseInitializer::FanInUniform {
                    gain: bound * (width as f64).sqrt(),
                })
                .with_bias_initializer(Some(Initializer::Zeros))
                .with_seed(Some(seed))
        };
        match place.mode(config) {
            WeightMode::Dense => Self::Dense(Linear {
                weight: stream.uniform([width, width], bound, device),
                bias: bias.then(|| Param::from_tensor(Tensor::zeros([width], device))),
            }),
            WeightMode::Masked => Self::Masked(sparse(stream.next_seed()).init_masked(device)),
            WeightMode::Sparse => {
                let layer = sparse(stream.next_seed()).init(device);
                Self::Sparse(layer.with_routines(routines()))
            }
        }
    }

    /// Applies the layer.
    ///
    /// # Shapes
    ///
    /// - input: `[batch, width]`
    /// - output: `[batch, width]`
    ///
    /// # Panics
    ///
    /// Panics if `input` has another width.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Dense(layer) => layer.forward(input),
            Self::Masked(layer) => layer.forward(input),
            Self::Sparse(layer) => layer.forward(input),
        }
    }

    /// Number of rows, and of columns.
    pub fn width(&self) -> usize {
        match self {
            Self::Dense(layer) => layer.weight.dims()[0],
            Self::Masked(layer) => layer.weight.dims()[0],
            Self::Sparse(layer) => layer.weight_shape()[0],
        }
    }

    /// Number of weights that exist, where the layer knows it without asking the device.
    pub fn nnz(&self) -> Option<usize> {
        match self {
            Self::Dense(layer) => Some(layer.weight.shape().num_elements()),
            Self::Masked(_) => None,
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

    /// Bytes on the device that say which weights exist, as it is now.
    pub fn index_bytes_now(&self) -> usize {
        match self {
            Self::Dense(_) | Self::Masked(_) => self.index_bytes(),
            Self::Sparse(layer) => layer.pattern.index_bytes(),
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
