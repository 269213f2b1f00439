//! `Y = X W^T` on the host: rows of `W` against vectors of batch lanes.
//!
//! A row's sums stay in registers until the row ends. There are several for each lane, which take
//! turns, so that an addition need not wait for the one before it.

use core::ops::Range;

use pulp::Simd;

use super::lanes::{BLOCK, Kernel, TILE, feature_major, launch, tiles, write_block};
use super::real::{Real, multiply_add};
use super::split;

/// Batch tiles from which the values of the column order are copied once instead of being looked
/// up by every tile.
const COPIED_FROM: usize = 3;

/// A compressed matrix: the non-zeros of row `i` are entries `offsets[i] .. offsets[i + 1]`, entry
/// `e` lies in column `cols[e]`.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub offsets: &'a [i32],
    pub cols: &'a [i32],
}

impl Rows<'_> {
    pub(super) fn entries(&self, row: usize) -> Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    pub(super) fn count(&self) -> usize {
        self.offsets.len() - 1
    }
}

/// The value of each entry.
#[derive(Clone, Copy)]
pub(super) enum Values<'a, T> {
    InOrder(&'a [T]),
    /// Entry `e` has value `values[slots[e]]`.
    At(&'a [T], &'a [i32]),
}

/// `y[b, i] = sum_e value(e) x[b, col(e)]` over the entries of row `i`.
///
/// `x` is `[batch, features]`, the result `[batch, rows]`, both batch-major.
pub(super) fn spmm<T: Real>(
    matrix: Rows<'_>,
    values: Values<'_, T>,
    x: &[T],
    batch: usize,
    features: usize,
) -> Vec<T> {
    let rows = matrix.count();
    if batch == 0 || matrix.cols.is_empty() {
        return vec![T::ZERO; batch * rows];
    }
    let threads = split::threads(matrix.cols.len(), batch);
    let tile_count = batch.div_ceil(TILE);
    let copied;
    let values = match values {
        Values::At(values, slots) if tile_count >= COPIED_FROM => {
            copied = in_order(values, slots, threads);
            Values::InOrder(&copied)
        }
        values => values,
    };

    let x = feature_major(x, features, threads);
    let mut y = vec![T::ZERO; batch * rows];
    let ranges = split::rows(matrix.offsets, split::parts(threads, tile_count));
    let mut jobs = Vec::with_capacity(tile_count * ranges.len());
    for (x, y) in tiles(&x, features).zip(y.chunks_mut(TILE * rows)) {
        for (range, y) in ranges.iter().zip(split::columns(y, rows, &ranges)) {
            let rows = range.clone();
            jobs.push(RowSums {
                matrix,
                values,
                x,
                rows,
                y,
            });
        }
    }
    split::for_each(jobs, threads, |job| {
        let width = job.x.len() / features;
        launch(job, width);
    });
    y
}

fn in_order<T: Real>(values: &[T], slots: &[i32], threads: usize) -> Vec<T> {
    let mut out = vec![T::ZERO; slots.len()];
    let share = slots.len().div_ceil(split::parts(threads, 1));
    let jobs = out.chunks_mut(share).zip(slots.chunks(share)).collect();
    split::for_each(jobs, threads, |(out, slots): (&mut [T], &[i32])| {
        for (out, &slot) in out.iter_mut().zip(slots) {
            *out = values[slot as usize];
        }
    });
    out
}

/// Some rows against one batch tile.
struct RowSums<'a, T> {
    matrix: Rows<'a>,
    values: Values<'a, T>,
    x: &'a [T],
    rows: Range<usize>,
    y: Vec<&'a mut [T]>,
}

impl<T: Real> Kernel for RowSums<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const W: usize>(self) {
        // As many sums as a row needs to keep two units for additions busy, and no more: they are
        // added up at the end of each row.
        match W {
            1 | 2 => self.sums::<S, W, 8>(),
            4 | 8 => self.sums::<S, W, 4>(),
            _ => self.sums::<S, W, 2>(),
        }
    }
}

impl<T: Real> RowSums<'_, T> {
    #[inline(always)]
    fn sums<S: Simd, const W: usize, const N: usize>(mut self) {
        let (x, _) = self.x.as_chunks::<W>();
        let mut block = [[T::ZERO; W]; BLOCK];
        for start in self.rows.clone().step_by(BLOCK) {
            let end = (start + BLOCK).min(self.rows.end);
            for (row, sums) in (start..end).zip(&mut block) {
                let entries = self.matrix.entries(row);
                let cols = &self.matrix.cols[entries.clone()];
                *sums = match self.values {
                    Values::InOrder(values) => {
                        row_sums::<T, S, _, W, N>(&values[entries], cols, x, |value| value)
                    }
                    Values::At(values, slots) => {
                        let value = |slot: i32| values[slot as usize];
                        row_sums::<T, S, _, W, N>(&slots[entries], cols, x, value)
                    }
                };
            }
            write_block(&block[..end - start], &mut self.y, start - self.rows.start);
        }
    }
}

/// The sums of one row in `N` turns, added pairwise.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // as for `add_product`
fn row_sums<T: Real, S: Simd, V: Copy, const W: usize, const N: usize>(
    values: &[V],
    cols: &[i32],
    x: &[[T; W]],
    value: impl Fn(V) -> T,
) -> [T; W] {
    let mut sums = [[T::ZERO; W]; N];
    let (values, last_values) = values.as_chunks::<N>();
    let (cols, last_cols) = cols.as_chunks::<N>();
    for (values, cols) in values.iter().zip(cols) {
        for turn in 0..N {
            let x = &x[cols[turn] as usize];
            add_product::<T, S, W>(value(values[turn]), x, &mut sums[turn]);
        }
    }
    for ((&last, &col), sums) in last_values.iter().zip(last_cols).zip(&mut sums) {
        add_product::<T, S, W>(value(last), &x[col as usize], sums);
    }
    let mut count = N / 2;
    while count > 0 {
        for turn in 0..count {
            for lane in 0..W {
                sums[turn][lane] = sums[turn][lane] + sums[turn + count][lane];
            }
        }
        count /= 2;
    }
    sums[0]
}

/// Adds `value x` to `sums`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // becomes vector instructions for every width only like this
pub(super) fn add_product<T: Real, S: Simd, const W: usize>(
    value: T,
    x: &[T; W],
    sums: &mut [T; W],
) {
    for lane in 0..W {
        sums[lane] = multiply_add::<T, S>(value, x[lane], sums[lane]);
    }
}
