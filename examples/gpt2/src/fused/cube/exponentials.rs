use cubecl::prelude::*;
use example_support::kernels::{team_max, team_sum};

/// Elements of a row that a unit has in flight.
pub(super) const UNROLL: usize = 4;

/// The highest of `scale` times the first `visible` elements of a row that begins at `first`, and the sum
/// of exponentials of what all lack to it.
#[cube]
pub(super) fn exponentials<F: Float>(
    scores: &Tensor<F>,
    first: usize,
    visible: usize,
    lane: usize,
    scale: f32,
    #[comptime] lanes: usize,
) -> (f32, f32) {
    let mut highest = f32::new(comptime!(f32::MIN));
    let mut total = 0.0_f32;
    let mut block = Array::<f32>::new(UNROLL);
    let mut at = lane;
    while at < visible {
        let mut top = highest;
        #[unroll]
        for u in 0..UNROLL {
            let mut score = f32::new(comptime!(f32::MIN));
            if at + comptime!(u * lanes) < visible {
                score = scale * f32::cast_from(scores[first + at + comptime!(u * lanes)]);
            }
            block[u] = score;
            top = max(top, score);
        }
        total *= (highest - top).exp();
        #[unroll]
        for u in 0..UNROLL {
            if at + comptime!(u * lanes) < visible {
                total += (block[u] - top).exp();
            }
        }
        highest = top;
        at += comptime!(UNROLL * lanes);
    }
    let top = team_max(highest, lanes);
    (top, team_sum(total * (highest - top).exp(), lanes))
}
