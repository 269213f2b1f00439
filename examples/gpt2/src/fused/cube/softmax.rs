use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;
use example_support::kernels::{Teams, addresses, element, output, rows, team_sum};

use super::exponentials::{UNROLL, exponentials};

/// Keys that the query of a row may see.
#[cube]
fn visible(row: usize, queries: usize, keys: usize) -> usize {
    row % queries + 1 + keys - queries
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn forward_kernel<F: Float>(
    scores: &Tensor<F>,
    weights: &mut Tensor<F>,
    rows: usize,
    queries: usize,
    keys: usize,
    scale: f32,
    #[comptime] lanes: usize,
    #[define(F)] _dtype: ElemType,
) {
    let teams = CUBE_DIM as usize / lanes;
    let lane = UNIT_POS as usize % lanes;
    let mut row = CUBE_POS_X as usize * teams + UNIT_POS as usize / lanes;
    while row < rows {
        let first = row * keys;
        let seen = visible(row, queries, keys);
        let (highest, sum) = exponentials::<F>(scores, first, seen, lane, scale, lanes);
        let factor = 1.0_f32 / sum;
        let mut at = lane;
        while at < keys {
            #[unroll]
            for u in 0..UNROLL {
                let key = at + comptime!(u * lanes);
                if key < keys {
                    let mut weight = 0.0_f32;
                    if key < seen {
                        let score = scale * f32::cast_from(scores[first + key]);
                        weight = (score - highest).exp() * factor;
                    }
                    weights[first + key] = F::cast_from(weight);
                }
            }
            at += comptime!(UNROLL * lanes);
        }
        row += CUBE_COUNT_X as usize * teams;
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn backward_kernel<F: Float>(
    weights: &Tensor<F>,
    grad: &Tensor<F>,
    output: &mut Tensor<F>,
    rows: usize,
    queries: usize,
    keys: usize,
    scale: f32,
    #[comptime] lanes: usize,
    #[define(F)] _dtype: ElemType,
) {
    let teams = CUBE_DIM as usize / lanes;
    let lane = UNIT_POS as usize % lanes;
    let mut row = CUBE_POS_X as usize * teams + UNIT_POS as usize / lanes;
    while row < rows {
        let first = row * keys;
        let seen = visible(row, queries, keys);
        let mut sum = 0.0_f32;
        let mut at = lane;
        while at < seen {
            #[unroll]
            for u in 0..UNROLL {
                let key = at + comptime!(u * lanes);
                if key < seen {
                    sum += f32::cast_from(weights[first + key]) * f32::cast_from(grad[first + key]);
                }
            }
            at += comptime!(UNROLL * lanes);
        }
        let mean = team_sum(sum, lanes);
        let mut at = lane;
        while at < keys {
            #[unroll]
            for u in 0..UNROLL {
                let key = at + comptime!(u * lanes);
                if key < keys {
                    let mut found = 0.0_f32;
                    if key < seen {
                        let weight = f32::cast_from(weights[first + key]);
                        found = scale * weight * (f32::cast_from(grad[first + key]) - mean);
                    }
                    output[first + key] = F::cast_from(found);
                }
            }
            at += comptime!(UNROLL * lanes);
        }
        row += CUBE_COUNT_X as usize * teams;
    }
}

/// Weights of contiguous scores.
pub(super) fn forward(scores: CubeTensor, scale: f32) -> CubeTensor {
    let shape = scores.meta.shape().clone();
    let weights = output(&scores, shape.clone(), scores.dtype);
    let count = rows(&scores);
    if shape.num_elements() == 0 {
        return weights;
    }
    let teams = Teams::for_rows(&scores.client, count);
    let rank = shape.num_dims();
    // SAFETY: rows and keys are bounded in the kernel.
    unsafe {
        forward_kernel::launch_unchecked(
            &scores.client,
            teams.count,
            teams.dim,
            addresses([&scores]),
            scores.clone().into_tensor_arg(),
            weights.clone().into_tensor_arg(),
            count,
            shape[rank - 2],
            shape[rank - 1],
            scale,
            teams.lanes,
            element(scores.dtype),
        );
    }
    weights
}

/// The gradient of the scores, from contiguous weights and their gradient.
pub(super) fn backward(weights: CubeTensor, grad: CubeTensor, scale: f32) -> CubeTensor {
    let shape = weights.meta.shape().clone();
    let found = output(&weights, shape.clone(), weights.dtype);
    let count = rows(&weights);
    if shape.num_elements() == 0 {
        return found;
    }
    let teams = Teams::for_rows(&weights.client, count);
    let rank = shape.num_dims();
    // SAFETY: rows and keys are bounded in the kernel; all three tensors have one shape.
    unsafe {
        backward_kernel::launch_unchecked(
            &weights.client,
            teams.count,
            teams.dim,
            addresses([&weights]),
            weights.clone().into_tensor_arg(),
            grad.into_tensor_arg(),
            found.clone().into_tensor_arg(),
            count,
            shape[rank - 2],
            shape[rank - 1],
            scale,
            teams.lanes,
            element(weights.dtype),
        );
    }
    found
}
