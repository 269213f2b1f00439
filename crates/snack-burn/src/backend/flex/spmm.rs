//! `Y = X W^T` on the host: rows of `W` against vectors of batch lanes.
//!
//! A tile of the batch is laid out feature-major, so that each non-zero multiplies one vector of
//! lanes, and a row's sums stay in registers until the row ends. Sums run in slot order for any
//! number of threads, so results do not depend on it.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::transpose::{to_batch_major, to_feature_major};

/// Below this many multiplications a product runs on the calling thread.
pub(super) const SERIAL_BELOW: usize = 1 << 16;

/// Rows whose outputs are collected before they are written batch-major.
const ROW_BLOCK: usize = 16;

/// Element types that the host kernels compute in.
pub(super) trait Real: num_traits::Float + Default + Send + Sync + 'static {
    const ZERO: Self;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
}

impl Real for f64 {
    const ZERO: Self = 0.0;
}

/// A compressed matrix: the non-zeros of row `i` are entries `offsets[i] .. offsets[i + 1]`, entry
/// `e` lies in column `cols[e]` and has value `values[slots[e]]`, or `values[e]` without slots.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, T> {
    pub values: &'a [T],
    pub offsets: &'a [i32],
    pub cols: &'a [i32],
    pub slots: Option<&'a [i32]>,
}

impl<T: Real> Rows<'_, T> {
    fn entries(&self, row: usize) -> core::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    fn value(&self, entry: usize) -> T {
        match self.slots {
            Some(slots) => self.values[slots[entry] as usize],
            None => self.values[entry],
        }
    }

    fn count(&self) -> usize {
        self.offsets.len() - 1
    }
}

/// `y[b, i] = sum_e value(e) x[b, col(e)]` over the entries of row `i`.
///
/// `x` is `[batch, features]`, the result `[batch, rows]`, both batch-major.
pub(super) fn spmm<T: Real>(matrix: Rows<'_, T>, x: &[T], batch: usize, features: usize) -> Vec<T> {
    let mut y = vec![T::ZERO; batch * matrix.count()];
    if y.is_empty() || features == 0 || matrix.cols.is_empty() {
        return y;
    }
    let threads = match matrix.cols.len() * batch < SERIAL_BELOW {
        true => 1,
        false => rayon::current_num_threads(),
    };
    match Tile::of(batch, threads) {
        Tile::Lanes4 => tiles::<T, 4>(matrix, x, features, &mut y, threads),
        Tile::Lanes8 => tiles::<T, 8>(matrix, x, features, &mut y, threads),
        Tile::Lanes16 => tiles::<T, 16>(matrix, x, features, &mut y, threads),
        Tile::Lanes32 => tiles::<T, 32>(matrix, x, features, &mut y, threads),
        Tile::Single => single(matrix, x, &mut y, threads),
    }
    y
}

/// How many batch rows one pass over the matrix serves.
enum Tile {
    Single,
    Lanes4,
    Lanes8,
    Lanes16,
    Lanes32,
}

impl Tile {
    /// The widest tile that leaves no thread without work: a wide tile reads the matrix less
    /// often, several tiles run in parallel.
    fn of(batch: usize, threads: usize) -> Self {
        match batch.div_ceil(if batch >= 32 { threads } else { 1 }) {
            _ if batch == 1 => Self::Single,
            0..=4 => Self::Lanes4,
            5..=8 => Self::Lanes8,
            9..=16 => Self::Lanes16,
            _ => Self::Lanes32,
        }
    }
}

fn tiles<T: Real, const W: usize>(
    matrix: Rows<'_, T>,
    x: &[T],
    features: usize,
    y: &mut [T],
    threads: usize,
) {
    let rows = matrix.count();
    let tile_count = x.len().div_ceil(W * features);
    if tile_count >= threads {
        let run = |(x, y): (&[T], &mut [T])| {
            let mut lanes = vec![T::ZERO; features * W];
            to_feature_major(x, features, W, &mut lanes);
            Arch::new().dispatch(TileJob::<T, W> {
                matrix,
                lanes: &lanes,
                first: 0,
                y,
                rows,
            });
        };
        match threads {
            1 => x
                .chunks(W * features)
                .zip(y.chunks_mut(W * rows))
                .for_each(run),
            _ => x
                .par_chunks(W * features)
                .zip(y.par_chunks_mut(W * rows))
                .for_each(run),
        }
        return;
    }
    // Few tiles: the rows of each are shared among the threads, feature-major first.
    let share = rows.div_ceil(threads * 4).max(1);
    for (x, y) in x.chunks(W * features).zip(y.chunks_mut(W * rows)) {
        let mut lanes = vec![T::ZERO; features * W];
        to_feature_major(x, features, W, &mut lanes);
        let mut out = vec![T::ZERO; rows * W];
        out.par_chunks_mut(share * W)
            .enumerate()
            .for_each(|(part, out)| {
                let first = part * share;
                Arch::new().dispatch(RowsJob::<T, W> {
                    matrix,
                    lanes: &lanes,
                    first,
                    out,
                });
            });
        to_batch_major(&out, W, y, rows, 0);
    }
}

/// Rows `first ..` of one batch tile, feature-major in and out.
struct RowsJob<'a, T, const W: usize> {
    matrix: Rows<'a, T>,
    lanes: &'a [T],
    first: usize,
    out: &'a mut [T],
}

impl<T: Real, const W: usize> WithSimd for RowsJob<'_, T, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        for (index, out) in self.out.chunks_exact_mut(W).enumerate() {
            out.copy_from_slice(&row_sums::<T, S, W>(
                &self.matrix,
                self.lanes,
                self.first + index,
            ));
        }
    }
}

/// All rows of one batch tile, written batch-major in blocks.
struct TileJob<'a, T, const W: usize> {
    matrix: Rows<'a, T>,
    lanes: &'a [T],
    first: usize,
    y: &'a mut [T],
    rows: usize,
}

impl<T: Real, const W: usize> WithSimd for TileJob<'_, T, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let mut block = [[T::ZERO; W]; ROW_BLOCK];
        for start in (self.first..self.rows).step_by(ROW_BLOCK) {
            let count = ROW_BLOCK.min(self.rows - start);
            for (index, out) in block[..count].iter_mut().enumerate() {
                *out = row_sums::<T, S, W>(&self.matrix, self.lanes, start + index);
            }
            to_batch_major(block[..count].as_flattened(), W, self.y, self.rows, start);
        }
    }
}

#[inline(always)]
fn row_sums<T: Real, S: Simd, const W: usize>(
    matrix: &Rows<'_, T>,
    lanes: &[T],
    row: usize,
) -> [T; W] {
    let mut sums = [T::ZERO; W];
    for entry in matrix.entries(row) {
        let start = matrix.cols[entry] as usize * W;
        let x: &[T; W] = lanes[start..start + W]
            .try_into()
            .expect("a slice of W lanes");
        let value = matrix.value(entry);
        for (sum, &x) in sums.iter_mut().zip(x) {
            *sum = multiply_add::<T, S>(value, x, *sum);
        }
    }
    sums
}

/// `a b + c`, fused where the instruction set has it: without it, `mul_add` is a library call.
#[inline(always)]
pub(super) fn multiply_add<T: Real, S: Simd>(a: T, b: T, c: T) -> T {
    match S::IS_SCALAR {
        true => a * b + c,
        false => a.mul_add(b, c),
    }
}

/// One sample: a dot product per row, in four interleaved sums.
fn single<T: Real>(matrix: Rows<'_, T>, x: &[T], y: &mut [T], threads: usize) {
    let dot = |row: usize| {
        let mut sums = [T::ZERO; 4];
        for entry in matrix.entries(row) {
            let sum = &mut sums[entry % 4];
            *sum = *sum + matrix.value(entry) * x[matrix.cols[entry] as usize];
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    };
    match threads {
        1 => y.iter_mut().enumerate().for_each(|(row, y)| *y = dot(row)),
        _ => y
            .par_iter_mut()
            .with_min_len(64)
            .enumerate()
            .for_each(|(row, y)| *y = dot(row)),
    }
}
