use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, FloatDType, Shape, Slice};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;
use example_support::kernels::{Teams, addresses, grid, output, single_units, team_sum};

use super::score::{Kind, factor, products, score, softmax};
use crate::ScoreActivation;
use crate::hop_attention::HopAttentionSettings;

/// Nodes whose gradients of the weight one unit adds up.
const ROWS: usize = 64;

/// The derivative of the activation, where its result is `y`.
#[cube]
fn slope(y: f32, #[comptime] activation: ScoreActivation) -> f32 {
    match comptime!(activation) {
        ScoreActivation::Relu => select(y > 0.0_f32, 1.0_f32, 0.0_f32),
        ScoreActivation::LeakyRelu => select(
            y > 0.0_f32,
            1.0_f32,
            comptime!(ScoreActivation::LEAK as f32),
        ),
        ScoreActivation::Sigmoid => y * (1.0_f32 - y),
    }
}

/// Adds what the gradients of shares of the first `seen` hops are for their scores.
#[cube]
fn through_softmax(
    shares: &Array<f32>,
    of_shares: &Array<f32>,
    of_scores: &mut Array<f32>,
    seen: usize,
) {
    let mut mean = 0.0_f32;
    for hop in 0..seen {
        mean += shares[hop] * of_shares[hop];
    }
    for hop in 0..seen {
        of_scores[hop] += shares[hop] * (of_shares[hop] - mean);
    }
}

/// The gradient of the hops, and those of the numbers `w1 . z` and `w2 . z` of every row, `[rows, 2, hops]`.
#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn hops_kernel(
    hops: &Tensor<f32>,
    weight: &Tensor<f32>,
    bias: &Tensor<f32>,
    factors: &Tensor<f32>,
    grad: &Tensor<f32>,
    output: &mut Tensor<f32>,
    saved: &mut Tensor<f32>,
    rows: usize,
    width: usize,
    #[comptime] kind: Kind,
) {
    let (count, lanes, unroll) = comptime!((kind.hops, kind.lanes, kind.unroll()));
    let teams = CUBE_DIM as usize / lanes;
    let lane = UNIT_POS as usize % lanes;
    let mut before = Array::<f32>::new(count);
    let mut own = Array::<f32>::new(count);
    let mut scores = Array::<f32>::new(count);
    let mut shares = Array::<f32>::new(count);
    let mut weights = Array::<f32>::new(count);
    let mut of_shares = Array::<f32>::new(count);
    let mut of_scores = Array::<f32>::new(count);
    let mut of_before = Array::<f32>::new(count);
    let mut row = CUBE_POS_X as usize * teams + UNIT_POS as usize / lanes;
    while row < rows {
        products(
            hops,
            weight,
            &mut before,
            &mut own,
            row,
            rows,
            width,
            lane,
            kind,
        );
        score(
            &before,
            &own,
            bias[0],
            factors,
            &mut scores,
            &mut shares,
            row,
            kind,
        );

        // What the output says of the weights.
        for hop in 0..count {
            of_shares[hop] = 0.0_f32;
            of_scores[hop] = 0.0_f32;
            of_before[hop] = 0.0_f32;
        }
        let mut at = lane;
        while at < width {
            let slope = grad[row * width + at];
            #[unroll(unroll)]
            for hop in 0..count {
                of_shares[hop] += slope * hops[(hop * rows + row) * width + at];
            }
            at += lanes;
        }
        softmax(&mut scores, &mut shares, count);
        #[unroll(unroll)]
        for hop in 0..count {
            let factor = factor(factors, row, count, hop, kind);
            of_shares[hop] = team_sum(of_shares[hop], lanes) * factor;
            weights[hop] = shares[hop] * factor;
        }
        through_softmax(&shares, &of_shares, &mut of_scores, count);

        // What every score says of those before it, last to first; `own` becomes its gradient.
        for step in 1..count {
            let hop = count - step;
            let slope = of_scores[hop] * slope(scores[hop], comptime!(kind.activation));
            own[hop] = slope;
            softmax(&mut scores, &mut shares, hop);
            for other in 0..hop {
                let factor = slope * factor(factors, row, hop, other, kind);
                of_before[other] += factor * shares[other];
                of_shares[other] = factor * before[other];
            }
            through_softmax(&shares, &of_shares, &mut of_scores, hop);
        }
        own[0] = of_scores[0] * slope(scores[0], comptime!(kind.activation));
        of_before[0] += own[0];

        let mut at = lane;
        while at < width {
            let slope = grad[row * width + at];
            let (first, second) = (weight[at], weight[width + at]);
            #[unroll(unroll)]
            for hop in 0..count {
                output[(hop * rows + row) * width + at] =
                    weights[hop] * slope + of_before[hop] * first + own[hop] * second;
            }
            at += lanes;
        }
        if lane == 0 {
            for hop in 0..count {
                saved[row * comptime!(2 * count) + hop] = of_before[hop];
                saved[row * comptime!(2 * count) + count + hop] = own[hop];
            }
        }
        row += CUBE_COUNT_X as usize * teams;
    }
}

/// The gradients of weight and bias, `[blocks, 2 width + 1]`, each block of [`ROWS`] rows in a row of its own.
#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn weight_kernel(
    hops: &Tensor<f32>,
    saved: &Tensor<f32>,
    output: &mut Tensor<f32>,
    rows: usize,
    width: usize,
    blocks: usize,
    #[comptime] count: usize,
) {
    let mut block = CUBE_POS_Y as usize;
    while block < blocks {
        let last = min(rows, (block + 1) * ROWS);
        let place = block * (2 * width + 1);
        let mut at = CUBE_POS_X as usize * CUBE_DIM as usize + UNIT_POS as usize;
        while at <= width {
            let mut first = 0.0_f32;
            let mut second = 0.0_f32;
            let mut row = block * ROWS;
            while row < last {
                let start = row * comptime!(2 * count);
                for hop in 0..count {
                    // Behind the last column stands the bias, which is 1 in every score.
                    let mut x = 1.0_f32;
                    if at < width {
                        x = hops[(hop * rows + row) * width + at];
                    }
                    first += saved[start + hop] * x;
                    second += saved[start + count + hop] * x;
                }
                row += 1;
            }
            if at < width {
                output[place + at] = first;
            }
            output[place + width + at] = second;
            at += CUBE_COUNT_X as usize * CUBE_DIM as usize;
        }
        block += CUBE_COUNT_Y as usize;
    }
}

/// The gradients of hops, weight and bias; the inputs are contiguous, as in [`forward`](super::score::forward).
pub(super) fn backward(
    inputs: [CubeTensor; 4],
    grad: CubeTensor,
    settings: HopAttentionSettings,
) -> (CubeTensor, CubeTensor, CubeTensor) {
    let [hops, weight, bias, factors] = inputs;
    let [count, rows, width] = hops.meta.shape().dims();
    let found = output(&hops, Shape::new([count, rows, width]), DType::F32);
    if rows * width == 0 {
        let zeros = |like: CubeTensor| {
            let shape = like.meta.shape().clone();
            CubeBackend::float_zeros(shape, &like.device, FloatDType::F32)
        };
        return (found, zeros(weight), zeros(bias));
    }
    let saved = output(&hops, Shape::new([rows, 2 * count]), DType::F32);
    let blocks = rows.div_ceil(ROWS);
    let parts = output(&hops, Shape::new([blocks, 2 * width + 1]), DType::F32);
    let teams = Teams::for_rows(&hops.client, rows);
    let dim = single_units(&hops.client);
    let columns = (width + 1).div_ceil(dim.num_elems() as usize);
    // SAFETY: rows and places are bounded in both kernels.
    unsafe {
        hops_kernel::launch_unchecked(
            &hops.client,
            teams.count,
            teams.dim,
            addresses([&hops, &factors, &saved]),
            hops.clone().into_tensor_arg(),
            weight.into_tensor_arg(),
            bias.into_tensor_arg(),
            factors.into_tensor_arg(),
            grad.into_tensor_arg(),
            found.clone().into_tensor_arg(),
            saved.clone().into_tensor_arg(),
            rows,
            width,
            Kind::new(count, settings, teams.lanes),
        );
        weight_kernel::launch_unchecked(
            &hops.client,
            grid(&hops.client, [columns, blocks]),
            dim,
            addresses([&hops, &saved, &parts]),
            hops.clone().into_tensor_arg(),
            saved.into_tensor_arg(),
            parts.clone().into_tensor_arg(),
            rows,
            width,
            blocks,
            count,
        );
    }
    let sums = CubeBackend::float_sum_dim(parts, 0);
    let part = |start: usize, end: usize| {
        CubeBackend::float_slice(sums.clone(), &[Slice::from(0..1), Slice::from(start..end)])
    };
    let of_weight = CubeBackend::float_reshape(part(0, 2 * width), Shape::new([2 * width, 1]));
    let of_bias = CubeBackend::float_reshape(part(2 * width, 2 * width + 1), Shape::new([1]));
    (found, of_weight, of_bias)
}
