//! `d[s] = sum_b Y[b, row(s)] X[b, col(s)]` on the host: one dot product of two feature-major
//! vectors per non-zero.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::spmm::{Real, SERIAL_BELOW, multiply_add};
use super::transpose::to_feature_major;

/// Partial sums of a dot product, enough to hide the latency of the additions.
const LANES: usize = 32;

/// `y` is `[batch, rows]`, `x` is `[batch, features]`, both batch-major; row `i` holds slots
/// `offsets[i] .. offsets[i + 1]` with columns `cols`.
pub(super) fn sddmm<T: Real>(
    offsets: &[i32],
    cols: &[i32],
    y: &[T],
    x: &[T],
    batch: usize,
    features: usize,
) -> Vec<T> {
    let rows = offsets.len() - 1;
    let mut out = vec![T::ZERO; cols.len()];
    if out.is_empty() || batch == 0 {
        return out;
    }
    let width = match batch {
        1..LANES => batch,
        _ => batch.next_multiple_of(LANES),
    };
    let serial = cols.len() * batch < SERIAL_BELOW;
    let threads = if serial {
        1
    } else {
        rayon::current_num_threads()
    };
    let x = feature_major(x, features, width, threads);
    let y = feature_major(y, rows, width, threads);

    let share = rows.div_ceil(threads * 4).max(1);
    let mut parts = Vec::with_capacity(threads * 4);
    let mut rest = out.as_mut_slice();
    for first in (0..rows).step_by(share) {
        let last = (first + share).min(rows);
        let count = (offsets[last] - offsets[first]) as usize;
        let (part, tail) = rest.split_at_mut(count);
        rest = tail;
        parts.push((first..last, part));
    }
    let run = |(range, out)| {
        Arch::new().dispatch(Dots {
            offsets,
            cols,
            x: &x,
            y: &y,
            width,
            range,
            out,
        });
    };
    match threads {
        1 => parts.into_iter().for_each(run),
        _ => parts.into_par_iter().for_each(run),
    }
    out
}

/// The whole batch feature-major, features shared among the threads.
fn feature_major<T: Real>(x: &[T], features: usize, width: usize, threads: usize) -> Vec<T> {
    let mut out = vec![T::ZERO; features * width];
    if features == 0 {
        return out;
    }
    if threads == 1 {
        to_feature_major(x, features, width, &mut out);
        return out;
    }
    let share = features.div_ceil(threads);
    out.par_chunks_mut(share * width)
        .enumerate()
        .for_each(|(part, out)| {
            let first = part * share;
            let count = out.len() / width;
            for start in (0..count).step_by(16) {
                let end = (start + 16).min(count);
                for (lane, row) in x.chunks_exact(features).enumerate() {
                    let row = &row[first + start..first + end];
                    for (feature, &value) in (start..end).zip(row) {
                        out[feature * width + lane] = value;
                    }
                }
            }
        });
    out
}

struct Dots<'a, T> {
    offsets: &'a [i32],
    cols: &'a [i32],
    x: &'a [T],
    y: &'a [T],
    width: usize,
    range: core::ops::Range<usize>,
    out: &'a mut [T],
}

impl<T: Real> WithSimd for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let first = self.offsets[self.range.start] as usize;
        for row in self.range {
            let y = &self.y[row * self.width..(row + 1) * self.width];
            for slot in self.offsets[row] as usize..self.offsets[row + 1] as usize {
                let start = self.cols[slot] as usize * self.width;
                self.out[slot - first] = dot::<T, S>(y, &self.x[start..start + self.width]);
            }
        }
    }
}

#[inline(always)]
fn dot<T: Real, S: Simd>(a: &[T], b: &[T]) -> T {
    let mut sums = [T::ZERO; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
            *sum = multiply_add::<T, S>(a, b, *sum);
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] = sums[lane] + sums[lane + width];
        }
        width /= 2;
    }
    a_rest
        .iter()
        .zip(b_rest)
        .fold(sums[0], |sum, (&a, &b)| sum + a * b)
}
