use burn::tensor::{DType, Shape};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;
use example_support::kernels::{Teams, addresses, output, team_sum};

use crate::ScoreActivation;
use crate::hop_attention::HopAttentionSettings;

/// Most hops whose loops are written out.
pub(super) const WRITTEN_OUT: usize = 12;

/// Sizes and settings that a kernel is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    pub hops: usize,
    pub activation: ScoreActivation,
    pub has_factors: bool,
    /// Units of a team.
    pub lanes: usize,
}

impl Kind {
    pub fn new(hops: usize, settings: HopAttentionSettings, lanes: usize) -> Self {
        Self {
            hops,
            activation: settings.activation,
            has_factors: settings.has_factors,
            lanes,
        }
    }

    pub fn unroll(self) -> bool {
        self.hops <= WRITTEN_OUT
    }

    fn shares(self) -> usize {
        crate::hop_attention::share_count(self.hops)
    }
}

#[cube]
fn activate(x: f32, #[comptime] activation: ScoreActivation) -> f32 {
    match comptime!(activation) {
        // What is not a number stays so.
        ScoreActivation::Relu => select(x <= 0.0_f32, 0.0_f32, x),
        ScoreActivation::LeakyRelu => {
            let leak = comptime!(ScoreActivation::LEAK as f32);
            select(x <= 0.0_f32, leak * x, x)
        }
        ScoreActivation::Sigmoid => 1.0_f32 / (1.0_f32 + (-x).exp()),
    }
}

/// The factor of the share that a hop has among the first `seen`.
#[cube]
pub(super) fn factor(
    factors: &Tensor<f32>,
    row: usize,
    seen: usize,
    hop: usize,
    #[comptime] kind: Kind,
) -> f32 {
    let mut found = 1.0_f32;
    if comptime!(kind.has_factors) {
        found = factors[row * comptime!(kind.shares()) + seen * (seen - 1) / 2 + hop];
    }
    found
}

/// The shares of the first `seen` hops: the softmax of their scores.
#[cube]
pub(super) fn softmax(scores: &mut Array<f32>, shares: &mut Array<f32>, seen: usize) {
    let mut top = scores[0];
    for hop in 1..seen {
        top = max(top, scores[hop]);
    }
    let mut sum = 0.0_f32;
    for hop in 0..seen {
        shares[hop] = (scores[hop] - top).exp();
        sum += shares[hop];
    }
    for hop in 0..seen {
        shares[hop] /= sum;
    }
}

/// The products of the hops of a row with both halves of the weight.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn products(
    hops: &Tensor<f32>,
    weight: &Tensor<f32>,
    before: &mut Array<f32>,
    own: &mut Array<f32>,
    row: usize,
    rows: usize,
    width: usize,
    lane: usize,
    #[comptime] kind: Kind,
) {
    let (count, unroll) = comptime!((kind.hops, kind.unroll()));
    for hop in 0..count {
        before[hop] = 0.0_f32;
        own[hop] = 0.0_f32;
    }
    let mut at = lane;
    while at < width {
        let (first, second) = (weight[at], weight[width + at]);
        #[unroll(unroll)]
        for hop in 0..count {
            let x = hops[(hop * rows + row) * width + at];
            before[hop] += x * first;
            own[hop] += x * second;
        }
        at += comptime!(kind.lanes);
    }
    #[unroll(unroll)]
    for hop in 0..count {
        before[hop] = team_sum(before[hop], comptime!(kind.lanes));
        own[hop] = team_sum(own[hop], comptime!(kind.lanes));
    }
}

/// The scores of the hops of a row, one after another.
#[cube]
pub(super) fn score(
    before: &Array<f32>,
    own: &Array<f32>,
    bias: f32,
    factors: &Tensor<f32>,
    scores: &mut Array<f32>,
    shares: &mut Array<f32>,
    row: usize,
    #[comptime] kind: Kind,
) {
    scores[0] = activate(before[0] + own[0] + bias, comptime!(kind.activation));
    for hop in 1..comptime!(kind.hops) {
        softmax(scores, shares, hop);
        let mut sum = own[hop] + bias;
        for other in 0..hop {
            sum += shares[other] * factor(factors, row, hop, other, kind) * before[other];
        }
        scores[hop] = activate(sum, comptime!(kind.activation));
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn forward_kernel(
    hops: &Tensor<f32>,
    weight: &Tensor<f32>,
    bias: &Tensor<f32>,
    factors: &Tensor<f32>,
    output: &mut Tensor<f32>,
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
        softmax(&mut scores, &mut shares, count);
        for hop in 0..count {
            shares[hop] *= factor(factors, row, count, hop, kind);
        }
        let mut at = lane;
        while at < width {
            let mut sum = 0.0_f32;
            #[unroll(unroll)]
            for hop in 0..count {
                sum += shares[hop] * hops[(hop * rows + row) * width + at];
            }
            output[row * width + at] = sum;
            at += lanes;
        }
        row += CUBE_COUNT_X as usize * teams;
    }
}

/// Combines the hops of contiguous tensors: hops, weight, bias and factors.
pub(super) fn forward(inputs: [CubeTensor; 4], settings: HopAttentionSettings) -> CubeTensor {
    let [hops, weight, bias, factors] = inputs;
    let [count, rows, width] = hops.meta.shape().dims();
    let found = output(&hops, Shape::new([rows, width]), DType::F32);
    if rows * width == 0 {
        return found;
    }
    let teams = Teams::for_rows(&hops.client, rows);
    // SAFETY: rows and places are bounded in the kernel.
    unsafe {
        forward_kernel::launch_unchecked(
            &hops.client,
            teams.count,
            teams.dim,
            addresses([&hops, &factors, &found]),
            hops.clone().into_tensor_arg(),
            weight.into_tensor_arg(),
            bias.into_tensor_arg(),
            factors.into_tensor_arg(),
            found.clone().into_tensor_arg(),
            rows,
            width,
            Kind::new(count, settings, teams.lanes),
        );
    }
    found
}
