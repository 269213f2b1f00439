use super::names;
use crate::{Gpt2, MlpLinear, MlpMode, routines};
use burn::{
    module::{Param, ParamId},
    nn::Linear,
    tensor::{Device, Tensor, TensorData},
};
use snack_burn::prelude::{DevicePattern, MaskedLinear, Pattern, SparseLinear};
use std::borrow::Cow;

/// One MLP matrix of a model on the host, in either storage.
#[derive(Debug, Clone)]
pub struct MlpMatrix {
    name: String,
    /// `[d_output, d_input]`.
    shape: [usize; 2],
    weights: Weights,
}

#[derive(Debug, Clone)]
enum Weights {
    /// `[d_input, d_output]`, row-major: as Hugging Face and Burn's `Linear` have it.
    Dense(Vec<f32>),
    /// Coordinates of `[d_output, d_input]`, and one value for each.
    Sparse { pattern: Pattern, values: Vec<f32> },
}

impl MlpMatrix {
    /// A dense matrix with the row-major `weights` of shape `[d_input, d_output]`.
    ///
    /// # Panics
    ///
    /// Panics if there are more or fewer weights.
    pub fn dense(name: impl Into<String>, shape: [usize; 2], weights: Vec<f32>) -> Self {
        let [d_input, d_output] = shape;
        assert_eq!(weights.len(), d_input * d_output, "weights of a matrix");
        Self {
            name: name.into(),
            shape: [d_output, d_input],
            weights: Weights::Dense(weights),
        }
    }

    /// A sparse matrix with `values` at the coordinates of a pattern `[d_output, d_input]`.
    ///
    /// # Panics
    ///
    /// Panics if there is not one value for every coordinate.
    pub fn sparse(name: impl Into<String>, pattern: Pattern, values: Vec<f32>) -> Self {
        assert_eq!(values.len(), pattern.nnz(), "values of a sparse matrix");
        Self {
            name: name.into(),
            shape: pattern.shape(),
            weights: Weights::Sparse { pattern, values },
        }
    }

    /// The MLP matrices of a model, first to last.
    pub fn of_model(model: &Gpt2) -> Vec<Self> {
        let layers = model.h.iter().enumerate().flat_map(|(block, layers)| {
            let [fc, proj] = names::mlp_names(block);
            [(fc, &layers.mlp.c_fc), (proj, &layers.mlp.c_proj)]
        });
        layers.map(|(name, layer)| Self::of(name, layer)).collect()
    }

    /// Reads the matrix of a layer; a masked layer gives a sparse matrix.
    pub fn of(name: impl Into<String>, layer: &MlpLinear) -> Self {
        match layer {
            MlpLinear::Dense(layer) => {
                let weight = layer.weight.val();
                Self::dense(name, weight.dims(), read(weight))
            }
            MlpLinear::Masked(layer) => {
                let [d_input, d_output] = layer.weight.dims();
                let exists: Vec<bool> = layer
                    .pruned
                    .val()
                    .into_data()
                    .iter::<bool>()
                    .map(|pruned| !pruned)
                    .collect();
                let mask = transposed(&exists, [d_input, d_output]);
                let pattern = Pattern::from_mask([d_output, d_input], &mask)
                    .expect("a layer that exists is small enough for a pattern");
                let weights = read(layer.weight.val());
                let values = pattern
                    .iter()
                    .map(|(output, input)| weights[input * d_output + output])
                    .collect();
                Self::sparse(name, pattern, values)
            }
            MlpLinear::Sparse(layer) => {
                Self::sparse(name, layer.pattern().clone(), read(layer.values.val()))
            }
        }
    }

    /// Name of the weight in a file, as in `h.0.mlp.c_fc.weight`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `[d_output, d_input]`.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Number of weights of the dense matrix.
    pub fn size(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    /// Number of weights that exist; all of a dense matrix, zeros included.
    pub fn stored(&self) -> usize {
        match &self.weights {
            Weights::Dense(weights) => weights.len(),
            Weights::Sparse { values, .. } => values.len(),
        }
    }

    /// Coordinates and values, if the matrix is sparse.
    pub fn as_sparse(&self) -> Option<(&Pattern, &[f32])> {
        match &self.weights {
            Weights::Dense(_) => None,
            Weights::Sparse { pattern, values } => Some((pattern, values)),
        }
    }

    /// The row-major weights of shape `[d_input, d_output]`, zero where none exists.
    pub fn to_dense(&self) -> Cow<'_, [f32]> {
        match &self.weights {
            Weights::Dense(weights) => weights.into(),
            Weights::Sparse { pattern, values } => {
                let [d_output, _] = self.shape;
                let mut weights = vec![0.0; self.size()];
                for ((output, input), &value) in pattern.iter().zip(values) {
                    weights[input * d_output + output] = value;
                }
                weights.into()
            }
        }
    }

    /// The sparse form: the non-zeros of a dense matrix, and a sparse one as it is.
    pub fn into_sparse(self) -> Self {
        match self.weights {
            Weights::Sparse { .. } => self,
            Weights::Dense(_) => {
                let (pattern, values) = Pattern::from_dense(self.shape, &self.slot_values())
                    .expect("a matrix that exists is small enough for a pattern");
                Self::sparse(self.name, pattern, values)
            }
        }
    }

    /// The weights that exist, by row-major index of `[d_output, d_input]`.
    pub(crate) fn slot_values(&self) -> Vec<f32> {
        let [d_output, d_input] = self.shape;
        match &self.weights {
            Weights::Dense(weights) => transposed(weights, [d_input, d_output]),
            Weights::Sparse { values, .. } => values.clone(),
        }
    }

    /// The sparse matrix of the given slots only; `values` are all [`slot_values`](Self::slot_values).
    pub(crate) fn keep(self, values: Vec<f32>, slots: &[usize]) -> Self {
        let kept = slots.iter().map(|&slot| values[slot]).collect();
        let pattern = match &self.weights {
            Weights::Dense(_) => {
                Pattern::from_sorted_flats(self.shape, slots.iter().map(|&slot| slot as u64))
            }
            Weights::Sparse { pattern, .. } => {
                let flats: Vec<u64> = pattern.flats().collect();
                Pattern::from_sorted_flats(self.shape, slots.iter().map(|&slot| flats[slot]))
            }
        };
        let pattern = pattern.expect("slots are ascending and inside the matrix");
        Self::sparse(self.name, pattern, kept)
    }

    /// A layer with this matrix in the storage of `mode`.
    ///
    /// Dense matrices become sparse or masked by their [non-zeros](Self::into_sparse).
    pub fn into_layer(self, mode: MlpMode, bias: Param<Tensor<1>>, device: &Device) -> MlpLinear {
        let bias = Some(bias);
        let [d_output, d_input] = self.shape;
        let dims = [d_input, d_output];
        if mode == MlpMode::Dense {
            let weights = TensorData::new(self.to_dense().into_owned(), dims);
            let weight = Param::from_data(weights, device);
            return MlpLinear::Dense(Linear { weight, bias });
        }
        let matrix = self.into_sparse();
        let weights = match mode {
            MlpMode::Masked => matrix.to_dense().into_owned(),
            _ => Vec::new(),
        };
        let Weights::Sparse { pattern, values } = matrix.weights else {
            unreachable!("into_sparse returns a sparse matrix")
        };
        if mode == MlpMode::Sparse {
            let values = TensorData::new(values, [pattern.nnz()]);
            return MlpLinear::Sparse(SparseLinear {
                values: Param::from_data(values, device),
                pattern: DevicePattern::new(pattern, device),
                bias,
                routines: routines(),
            });
        }
        let mut pruned = vec![true; d_input * d_output];
        for (output, input) in pattern.iter() {
            pruned[input * d_output + output] = false;
        }
        let plain = device.clone().without_autodiff();
        let pruned = Tensor::from_data(TensorData::new(pruned, dims), &plain);
        MlpLinear::Masked(MaskedLinear {
            weight: Param::from_data(TensorData::new(weights, dims), device),
            pruned: Param::initialized(ParamId::new(), pruned),
            bias,
        })
    }
}

/// The elements of a tensor on the host, row-major.
pub(crate) fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.detach().into_data().iter::<f32>().collect()
}

/// The row-major transpose of a row-major matrix.
fn transposed<T: Copy>(matrix: &[T], [rows, columns]: [usize; 2]) -> Vec<T> {
    (0..columns)
        .flat_map(|column| (0..rows).map(move |row| matrix[row * columns + column]))
        .collect()
}
