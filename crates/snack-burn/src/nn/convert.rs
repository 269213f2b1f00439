//! Sparse layers from and to dense ones.

use burn::module::{Param, ParamId};
use burn::nn::Linear;
use burn::tensor::{Tensor, TensorData};

use super::SparseLinear;
use crate::ops::Routines;
use crate::pattern::{Pattern, nnz_for_sparsity};
use crate::tensor::DevicePattern;

/// Which weights of a dense layer a sparse one keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Prune {
    /// The largest absolute values; equal ones by lower row-major index of `[d_output, d_input]`.
    Magnitude {
        /// The share of weights to drop, in `[0, 1)`.
        sparsity: f64,
    },
}

impl Prune {
    /// Keeps the `1 - sparsity` share of weights with the largest absolute values.
    pub fn magnitude(sparsity: f64) -> Self {
        Self::Magnitude { sparsity }
    }
}

impl SparseLinear {
    /// The sparse layer that keeps the chosen weights of a trained dense one. The bias is taken
    /// over with its parameter id; the values are a new parameter on the same device.
    ///
    /// # Panics
    ///
    /// Panics if the sparsity is not in `[0, 1)`.
    pub fn from_linear(linear: Linear, prune: Prune) -> Self {
        let Prune::Magnitude { sparsity } = prune;
        let weight = linear.weight.val();
        let device = weight.device();
        let dtype = weight.dtype();
        let [d_input, d_output] = weight.dims();
        let shape = [d_output, d_input];
        let nnz = nnz_for_sparsity(shape, sparsity)
            .unwrap_or_else(|error| panic!("SparseLinear::from_linear: {error}"));
        let dense: Vec<f64> = weight
            .detach()
            .transpose()
            .into_data()
            .iter::<f64>()
            .collect();

        let flats = largest(&dense, nnz);
        let kept: Vec<f64> = flats.iter().map(|&flat| dense[flat as usize]).collect();
        let pattern = Pattern::from_sorted_flats(shape, flats)
            .unwrap_or_else(|error| panic!("SparseLinear::from_linear: {error}"));
        let values = TensorData::new(kept, [nnz]).convert_dtype(dtype);
        Self {
            values: Param::initialized(ParamId::new(), Tensor::from_data(values, (&device, dtype)))
                .set_require_grad(true),
            pattern: DevicePattern::new(pattern, &device),
            bias: linear.bias,
            routines: Routines::default(),
        }
    }

    /// The dense layer with zeros where this one has no weight. The bias keeps its parameter id.
    ///
    /// # Panics
    ///
    /// Panics if the dense weight would exceed `i32::MAX` elements.
    pub fn to_linear(&self) -> Linear {
        let require_grad = self.values.is_require_grad();
        let weight = self.weight().to_dense().transpose().detach();
        Linear {
            weight: Param::from_tensor(weight).set_require_grad(require_grad),
            bias: self.bias.clone(),
        }
    }
}

/// Flat indices of the `count` largest magnitudes, ascending; ties go to the lower index.
fn largest(values: &[f64], count: usize) -> Vec<u64> {
    let mut order: Vec<u64> = (0..values.len() as u64).collect();
    if count < order.len() {
        order.select_nth_unstable_by(count, |&a, &b| {
            let magnitude = |flat: u64| values[flat as usize].abs();
            magnitude(b).total_cmp(&magnitude(a)).then(a.cmp(&b))
        });
        order.truncate(count);
    }
    order.sort_unstable();
    order
}
