//! `X = Y W` on the host in row order: each non-zero is added to its column's sums.
//!
//! Values and columns are read as they lie, where the column order looks every value up elsewhere;
//! in exchange, sums are loaded and stored once per non-zero.

use core::ops::Range;

use pulp::Simd;

use super::lanes::{BLOCK, Kernel, TILE, feature_major, launch, tiles, write_block};
use super::real::Real;
use super::scratch::Scratch;
use super::split;
use super::spmm::{Rows, add_product};

/// Non-zeros for each sum of a part: what adding up the parts may cost.
const ENTRIES_PER_SUM: usize = 8;

/// The most parts of a tile: more of them leave the cache.
const PARTS: usize = 8;

/// The largest batch that goes by rows: beyond it, the column order copies its values first.
const BATCH: usize = 64;

/// Whether a product with a batch goes by rows although the column order is there.
///
/// Looking values up is cheap while they fit into the caches, and the wider the tile, the more
/// there is to store. Measured on two cores with 1 MiB of second-level cache each: lookups win
/// below 0.2 million non-zeros at batches up to 4 and below one million from batch 16 on.
pub(super) fn is_faster(nnz: usize, batch: usize) -> bool {
    batch <= BATCH && nnz >> 16 >= batch.clamp(4, 16)
}

/// `x[b, j] = sum_s values[s] y[b, row(s)]` over the slots of column `j`.
///
/// `y` is `[batch, rows]`, the result `[batch, features]`, both batch-major.
pub(super) fn spmm_transposed<T: Real>(
    matrix: Rows<'_>,
    values: &[T],
    y: &[T],
    batch: usize,
    features: usize,
) -> Vec<T> {
    let rows = matrix.count();
    if batch == 0 || features == 0 || values.is_empty() {
        return vec![T::ZERO; batch * features];
    }
    let threads = split::threads(values.len(), batch);
    let y = feature_major(y, rows, threads);
    let ranges = split::rows(matrix.offsets, parts(values.len(), features));
    let columns = split::evenly(features, split::parts(threads, 1));
    // Scratch comes before the result, which outlives it: the allocator then has no reason to
    // return memory to the system that the next call faults in again.
    let widest = y.len().min(TILE * rows) / rows;
    let mut scratch = Scratch::zeros(ranges.len() * features * widest);
    let mut x = vec![T::ZERO; batch * features];
    // Tiles in turn, so that the sums of one are all that is held.
    for (y, x) in tiles(&y, rows).zip(x.chunks_mut(TILE * features)) {
        let width = y.len() / rows;
        let sums = &mut scratch[..ranges.len() * features * width];
        let jobs = sums
            .chunks_mut(features * width)
            .zip(ranges.clone())
            .map(|(sums, rows)| Scatter {
                matrix,
                values,
                y,
                rows,
                sums,
            })
            .collect();
        split::for_each(jobs, threads, |job| launch(job, width));

        let jobs = split::columns(x, features, &columns)
            .into_iter()
            .zip(&columns)
            .map(|(x, columns)| AddUp {
                sums: &*sums,
                features,
                columns: columns.clone(),
                x,
            })
            .collect();
        split::for_each(jobs, threads, |job| launch(job, width));
    }
    x
}

/// The parts of a tile, each with sums of its own. How many there are decides the order of the
/// additions, so it must not depend on the number of threads.
fn parts(nnz: usize, features: usize) -> usize {
    (nnz / ENTRIES_PER_SUM / features).clamp(1, PARTS)
}

/// Some rows of one tile.
struct Scatter<'a, T> {
    matrix: Rows<'a>,
    values: &'a [T],
    y: &'a [T],
    rows: Range<usize>,
    sums: &'a mut [T],
}

impl<T: Real> Kernel for Scatter<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const W: usize>(self) {
        let (y, _) = self.y.as_chunks::<W>();
        self.sums.fill(T::ZERO);
        let (sums, _) = self.sums.as_chunks_mut::<W>();
        for row in self.rows {
            let y = y[row];
            let entries = self.matrix.entries(row);
            let cols = &self.matrix.cols[entries.clone()];
            for (&value, &col) in self.values[entries].iter().zip(cols) {
                add_product::<T, S, W>(value, &y, &mut sums[col as usize]);
            }
        }
    }
}

/// The sums of all parts for some columns of one tile.
struct AddUp<'a, T> {
    sums: &'a [T],
    features: usize,
    columns: Range<usize>,
    x: Vec<&'a mut [T]>,
}

impl<T: Real> Kernel for AddUp<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const W: usize>(mut self) {
        for start in self.columns.clone().step_by(BLOCK) {
            let end = (start + BLOCK).min(self.columns.end);
            let mut block = [[T::ZERO; W]; BLOCK];
            for part in self.sums.chunks_exact(self.features * W) {
                let part = &part[start * W..end * W];
                for (sum, &part) in block.as_flattened_mut().iter_mut().zip(part) {
                    *sum = *sum + part;
                }
            }
            write_block(
                &block[..end - start],
                &mut self.x,
                start - self.columns.start,
            );
        }
    }
}
