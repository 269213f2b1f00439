use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;
use example_support::kernels::{
    Teams, addresses, element, grid, output, rows, single_units, team_sum,
};

/// Elements of a row that a unit has in flight.
const AHEAD: usize = 8;
/// Rows whose products with the gradient one unit adds up.
const ROWS: usize = 64;

/// Mean and inverse deviation of a row that begins at `first`.
#[cube]
fn moments(
    x: &Tensor<f32>,
    first: usize,
    width: usize,
    lane: usize,
    epsilon: f32,
    #[comptime] lanes: usize,
) -> (f32, f32) {
    let count = f32::cast_from(width);
    let mut sum = 0.0_f32;
    let mut at = lane;
    while at < width {
        #[unroll]
        for u in 0..AHEAD {
            if at + comptime!(u * lanes) < width {
                sum += x[first + at + comptime!(u * lanes)];
            }
        }
        at += comptime!(AHEAD * lanes);
    }
    let mean = team_sum(sum, lanes) / count;
    let mut squares = 0.0_f32;
    let mut at = lane;
    while at < width {
        #[unroll]
        for u in 0..AHEAD {
            if at + comptime!(u * lanes) < width {
                let difference = x[first + at + comptime!(u * lanes)] - mean;
                squares += difference * difference;
            }
        }
        at += comptime!(AHEAD * lanes);
    }
    let variance = team_sum(squares, lanes) / count;
    (mean, 1.0_f32 / (variance + epsilon).sqrt())
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn forward_kernel<F: Float>(
    x: &Tensor<f32>,
    gamma: &Tensor<f32>,
    beta: &Tensor<f32>,
    output: &mut Tensor<F>,
    rows: usize,
    width: usize,
    epsilon: f32,
    #[comptime] lanes: usize,
    #[define(F)] _dtype: ElemType,
) {
    let teams = CUBE_DIM as usize / lanes;
    let lane = UNIT_POS as usize % lanes;
    let mut row = CUBE_POS_X as usize * teams + UNIT_POS as usize / lanes;
    while row < rows {
        let first = row * width;
        let (mean, inverse) = moments(x, first, width, lane, epsilon, lanes);
        let mut at = lane;
        while at < width {
            #[unroll]
            for u in 0..AHEAD {
                let place = at + comptime!(u * lanes);
                if place < width {
                    let normal = (x[first + place] - mean) * inverse;
                    output[first + place] = F::cast_from(normal * gamma[place] + beta[place]);
                }
            }
            at += comptime!(AHEAD * lanes);
        }
        row += CUBE_COUNT_X as usize * teams;
    }
}

/// The gradient of `x`, and mean and inverse deviation of every row.
#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn backward_kernel<F: Float>(
    x: &Tensor<f32>,
    gamma: &Tensor<f32>,
    grad: &Tensor<F>,
    output: &mut Tensor<f32>,
    saved: &mut Tensor<f32>,
    rows: usize,
    width: usize,
    epsilon: f32,
    #[comptime] lanes: usize,
    #[define(F)] _dtype: ElemType,
) {
    let teams = CUBE_DIM as usize / lanes;
    let lane = UNIT_POS as usize % lanes;
    let mut row = CUBE_POS_X as usize * teams + UNIT_POS as usize / lanes;
    while row < rows {
        let first = row * width;
        let (mean, inverse) = moments(x, first, width, lane, epsilon, lanes);
        if lane == 0 {
            saved[2 * row] = mean;
            saved[2 * row + 1] = inverse;
        }
        let mut sum = 0.0_f32;
        let mut moment = 0.0_f32;
        let mut at = lane;
        while at < width {
            let scaled = f32::cast_from(grad[first + at]) * gamma[at];
            sum += scaled;
            moment += scaled * (x[first + at] - mean) * inverse;
            at += lanes;
        }
        let count = f32::cast_from(width);
        let sum = team_sum(sum, lanes) / count;
        let moment = team_sum(moment, lanes) / count;
        let mut at = lane;
        while at < width {
            let scaled = f32::cast_from(grad[first + at]) * gamma[at];
            let normal = (x[first + at] - mean) * inverse;
            output[first + at] = inverse * (scaled - sum - normal * moment);
            at += lanes;
        }
        row += CUBE_COUNT_X as usize * teams;
    }
}

/// The gradients of `gamma` and `beta`, each block of [`ROWS`] rows in a row of its own.
#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn parameters_kernel<F: Float>(
    x: &Tensor<f32>,
    grad: &Tensor<F>,
    saved: &Tensor<f32>,
    of_gamma: &mut Tensor<f32>,
    of_beta: &mut Tensor<f32>,
    rows: usize,
    width: usize,
    blocks: usize,
    #[define(F)] _dtype: ElemType,
) {
    let mut block = CUBE_POS_Y as usize;
    while block < blocks {
        let last = min(rows, (block + 1) * ROWS);
        let mut at = CUBE_POS_X as usize * CUBE_DIM as usize + UNIT_POS as usize;
        while at < width {
            let mut gamma = 0.0_f32;
            let mut beta = 0.0_f32;
            let mut row = block * ROWS;
            while row < last {
                let slope = f32::cast_from(grad[row * width + at]);
                gamma += slope * (x[row * width + at] - saved[2 * row]) * saved[2 * row + 1];
                beta += slope;
                row += 1;
            }
            of_gamma[block * width + at] = gamma;
            of_beta[block * width + at] = beta;
            at += CUBE_COUNT_X as usize * CUBE_DIM as usize;
        }
        block += CUBE_COUNT_Y as usize;
    }
}

/// The norm of contiguous tensors.
pub(super) fn forward(
    x: CubeTensor,
    gamma: CubeTensor,
    beta: CubeTensor,
    epsilon: f32,
    dtype: DType,
) -> CubeTensor {
    let found = output(&x, x.meta.shape().clone(), dtype);
    let count = rows(&x);
    if x.meta.num_elements() == 0 {
        return found;
    }
    let teams = Teams::for_rows(&x.client, count);
    // SAFETY: rows and places are bounded in the kernel.
    unsafe {
        forward_kernel::launch_unchecked(
            &x.client,
            teams.count,
            teams.dim,
            addresses([&x]),
            x.clone().into_tensor_arg(),
            gamma.clone().into_tensor_arg(),
            beta.into_tensor_arg(),
            found.clone().into_tensor_arg(),
            count,
            gamma.meta.num_elements(),
            epsilon,
            teams.lanes,
            element(dtype),
        );
    }
    found
}

/// The gradients of `x`, `gamma` and `beta`, all tensors contiguous.
pub(super) fn backward(
    x: CubeTensor,
    gamma: CubeTensor,
    grad: CubeTensor,
    epsilon: f32,
) -> (CubeTensor, CubeTensor, CubeTensor) {
    let (count, width) = (rows(&x), gamma.meta.num_elements());
    let found = output(&x, x.meta.shape().clone(), DType::F32);
    if x.meta.num_elements() == 0 {
        let zeros = |like: &CubeTensor| CubeBackend::float_mul_scalar(like.clone(), 0.0.into());
        return (found, zeros(&gamma), zeros(&gamma));
    }
    let saved = output(&x, Shape::new([count, 2]), DType::F32);
    let blocks = count.div_ceil(ROWS);
    let [of_gamma, of_beta] = [(); 2].map(|()| output(&x, Shape::new([blocks, width]), DType::F32));
    let teams = Teams::for_rows(&x.client, count);
    let dim = single_units(&x.client);
    let columns = width.div_ceil(dim.num_elems() as usize);
    // SAFETY: rows and places are bounded in both kernels; `x`, `grad` and the result have one shape.
    unsafe {
        backward_kernel::launch_unchecked(
            &x.client,
            teams.count,
            teams.dim,
            addresses([&x]),
            x.clone().into_tensor_arg(),
            gamma.clone().into_tensor_arg(),
            grad.clone().into_tensor_arg(),
            found.clone().into_tensor_arg(),
            saved.clone().into_tensor_arg(),
            count,
            width,
            epsilon,
            teams.lanes,
            element(grad.dtype),
        );
        parameters_kernel::launch_unchecked(
            &x.client,
            grid(&x.client, [columns, blocks]),
            dim,
            addresses([&x]),
            x.clone().into_tensor_arg(),
            grad.clone().into_tensor_arg(),
            saved.into_tensor_arg(),
            of_gamma.clone().into_tensor_arg(),
            of_beta.clone().into_tensor_arg(),
            count,
            width,
            blocks,
            element(grad.dtype),
        );
    }
    let total = |parts| {
        CubeBackend::float_reshape(CubeBackend::float_sum_dim(parts, 0), Shape::new([width]))
    };
    (found, total(of_gamma), total(of_beta))
}
