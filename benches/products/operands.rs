//! Random matrices and operands: normal values at uniformly random places.

use burn::tensor::{Bool, Device, Distribution, Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use super::problems::Problem;

/// The weights that the problems of one shape and sparsity share, in f32.
pub struct Weights {
    key: [usize; 3],
    /// The sparse weight `[m, k]`.
    pub sparse: SparseTensor,
    /// The weight of the baselines.
    pub dense: Option<DenseWeight>,
}

/// A dense weight without zeros, and the mask of the same pattern.
pub struct DenseWeight {
    /// `[k, m]`, as in Burn's `Linear`.
    pub weight: Tensor<2>,
    /// `[k, m]`, true where the weight does not exist.
    pub pruned: Tensor<2, Bool>,
}

impl Weights {
    /// Draws the weights of a problem; the dense ones, of `m k` elements, only if asked.
    pub fn draw(problem: &Problem, dense: bool, seed: u64, device: &Device) -> Self {
        let Problem { m, k, nnz, .. } = *problem;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let pattern = Pattern::random([m, k], nnz, &mut rng).expect("the list checked the shape");
        device.seed(seed);
        let dense = dense.then(|| {
            let mut pruned = vec![true; m * k];
            for (row, col) in pattern.iter() {
                pruned[col * m + row] = false;
            }
            DenseWeight {
                weight: normal([k, m], 1.0 / (k as f64).sqrt(), device),
                pruned: Tensor::from_data(TensorData::new(pruned, [k, m]), device),
            }
        });
        let fan_in = (nnz as f64 / m as f64).max(1.0);
        let values = normal([nnz], 1.0 / fan_in.sqrt(), device);
        Self {
            key: [m, k, nnz],
            sparse: SparseTensor::new(values, DevicePattern::new(pattern, device)),
            dense,
        }
    }

    /// Whether these are the weights of a problem.
    pub fn fit(&self, problem: &Problem) -> bool {
        self.key == [problem.m, problem.k, problem.nnz]
    }
}

/// The dense operands of a problem, in its data type.
#[derive(Clone)]
pub struct Operands {
    /// `[batch, k]`.
    pub x: Tensor<2>,
    /// `[batch, m]`: the operand of the transposed and the sampled product, the target of a step.
    pub y: Tensor<2>,
    /// `[m]`.
    pub bias: Tensor<1>,
}

impl Operands {
    pub fn draw(problem: &Problem, seed: u64, device: &Device) -> Self {
        let Problem { m, k, batch, .. } = *problem;
        let dtype = problem.dtype.dtype();
        device.seed(seed.wrapping_add(batch as u64));
        Self {
            x: normal([batch, k], 1.0, device).cast(dtype),
            y: normal([batch, m], 1.0, device).cast(dtype),
            bias: normal([m], 1.0, device).cast(dtype),
        }
    }
}

fn normal<const D: usize>(dims: [usize; D], std: f64, device: &Device) -> Tensor<D> {
    Tensor::random(dims, Distribution::Normal(0.0, std), device)
}
