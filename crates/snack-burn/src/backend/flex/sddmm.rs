//! `d[s] = sum_b Y[b, row(s)] X[b, col(s)]` on the host: one dot product of two vectors of batch
//! lanes per non-zero and tile.

use core::ops::Range;

use pulp::Simd;

use super::lanes::{Kernel, feature_major, launch, tiles};
use super::real::{Real, multiply_add};
use super::split;
use super::spmm::Rows;

/// `y` is `[batch, rows]`, `x` is `[batch, features]`, both batch-major.
pub(super) fn sddmm<T: Real>(
    matrix: Rows<'_>,
    y: &[T],
    x: &[T],
    batch: usize,
    features: usize,
) -> Vec<T> {
    let rows = matrix.count();
    let nnz = matrix.cols.len();
    if batch == 0 || nnz == 0 {
        return vec![T::ZERO; nnz];
    }
    let threads = split::threads(nnz, batch);
    let x = feature_major(x, features, threads);
    let y = feature_major(y, rows, threads);

    let mut out = vec![T::ZERO; nnz];
    let mut rest = out.as_mut_slice();
    let jobs = split::rows(matrix.offsets, split::parts(threads, 1))
        .into_iter()
        .map(|rows| {
            let count = matrix.offsets[rows.end] - matrix.offsets[rows.start];
            let part = rest.split_off_mut(..count as usize);
            (rows, part.expect("the non-zeros of the rows that are left"))
        })
        .collect();
    split::for_each(jobs, threads, |(range, out)| {
        for (tile, (x, y)) in tiles(&x, features).zip(tiles(&y, rows)).enumerate() {
            let dots = Dots {
                matrix,
                y,
                x,
                rows: range.clone(),
                out: &mut *out,
                add: tile > 0,
            };
            launch(dots, x.len() / features);
        }
    });
    out
}

/// Some rows, one tile: the first writes its sums, the others add theirs.
struct Dots<'a, T> {
    matrix: Rows<'a>,
    y: &'a [T],
    x: &'a [T],
    rows: Range<usize>,
    out: &'a mut [T],
    add: bool,
}

impl<T: Real> Kernel for Dots<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const W: usize>(self) {
        let (y, _) = self.y.as_chunks::<W>();
        let (x, _) = self.x.as_chunks::<W>();
        let first = self.matrix.offsets[self.rows.start] as usize;
        for row in self.rows {
            let y = y[row];
            let entries = self.matrix.entries(row);
            let out = &mut self.out[entries.start - first..entries.end - first];
            let cols = &self.matrix.cols[entries];
            if W == 1 {
                for (out, &col) in out.iter_mut().zip(cols) {
                    let product = y[0] * x[col as usize][0];
                    *out = if self.add { *out + product } else { product };
                }
                continue;
            }
            let (out, last_out) = out.as_chunks_mut::<4>();
            let (cols, last_cols) = cols.as_chunks::<4>();
            for (out, cols) in out.iter_mut().zip(cols) {
                let sums = four_dots::<T, S, W>(&y, cols.map(|col| &x[col as usize]));
                match self.add {
                    true => {
                        for i in 0..4 {
                            out[i] = out[i] + sums[i];
                        }
                    }
                    false => *out = sums,
                }
            }
            for (out, &col) in last_out.iter_mut().zip(last_cols) {
                let [sum, ..] = four_dots::<T, S, W>(&y, [&x[col as usize]; 4]);
                *out = if self.add { *out + sum } else { sum };
            }
        }
    }
}

/// Four dot products at a time, whose last additions share their instructions: the compiler makes
/// horizontal additions of neighbours out of them.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // becomes vector instructions for every width only like this
fn four_dots<T: Real, S: Simd, const W: usize>(y: &[T; W], x: [&[T; W]; 4]) -> [T; 4] {
    let mut dots = [T::ZERO; 4];
    if W < 4 {
        for i in 0..4 {
            dots[i] = y[0] * x[i][0];
            for lane in 1..W {
                dots[i] = multiply_add::<T, S>(y[lane], x[i][lane], dots[i]);
            }
        }
        return dots;
    }
    let mut quarters = [[T::ZERO; 4]; 4];
    for i in 0..4 {
        if W == 4 {
            for lane in 0..4 {
                quarters[i][lane] = y[lane] * x[i][lane];
            }
            continue;
        }
        let mut sums = [T::ZERO; 8];
        for lane in 0..8 {
            sums[lane] = y[lane] * x[i][lane];
        }
        for chunk in 1..W / 8 {
            for lane in 0..8 {
                let at = chunk * 8 + lane;
                sums[lane] = multiply_add::<T, S>(y[at], x[i][at], sums[lane]);
            }
        }
        for lane in 0..4 {
            quarters[i][lane] = sums[lane] + sums[lane + 4];
        }
    }
    for i in 0..4 {
        let [a, b, c, d] = quarters[i];
        dots[i] = (a + b) + (c + d);
    }
    dots
}
