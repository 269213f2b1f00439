//! A panel of the dense gradient on the host: tiles of it in registers, summed sample by sample.
//!
//! The batch is cut in chunks of a fixed size. Every entry adds the samples of a chunk in order and
//! then the chunks in order, whatever the panel, its place and the number of threads.

use core::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::split;
use crate::ops::GradientPanel;

/// Samples that are summed in registers.
const CHUNK: usize = 256;
/// Rows of a tile.
const ROWS: usize = 6;
/// Columns of the widest tile: two vectors.
const LANES: usize = 32;
/// Rows of a block: as many tiles as share the columns that are laid out for them.
const BLOCK_ROWS: usize = 8 * ROWS;
/// Columns of a block, which take 128 KiB a chunk.
const BLOCK_COLS: usize = 4 * LANES;

/// Batch-major factors: `g` is `[batch, m]`, `x` `[batch, k]`.
#[derive(Clone, Copy)]
pub(super) struct Factors<'a> {
    pub g: &'a [f32],
    pub x: &'a [f32],
    pub m: usize,
    pub k: usize,
}

impl Factors<'_> {
    /// The entries of a panel, row-major.
    pub fn gradients(&self, panel: &GradientPanel) -> Vec<f32> {
        let [rows, cols] = panel.dims();
        let batch = self.g.len().checked_div(self.m).unwrap_or(0);
        let mut out = vec![0.0; rows * cols];
        let threads = split::threads(rows * cols, batch);
        let (height, width) = shares(rows, cols, threads);
        let ranges: Vec<_> = (0..cols)
            .step_by(width)
            .map(|first| first..(first + width).min(cols))
            .collect();
        let mut jobs = Vec::new();
        for (block, out) in out.chunks_mut(height * cols).enumerate() {
            let first_row = panel.rows.start + block * height;
            for (range, out) in ranges.iter().zip(split::columns(out, cols, &ranges)) {
                let first = panel.cols.start + range.start;
                jobs.push(Block {
                    factors: *self,
                    rows: first_row..first_row + out.len(),
                    cols: first..first + range.len(),
                    out,
                });
            }
        }
        split::for_each(jobs, threads, |job| Arch::new().dispatch(job));
        out
    }
}

/// Rows and columns that a job computes: blocks, or smaller ones where threads would be idle.
fn shares(rows: usize, cols: usize, threads: usize) -> (usize, usize) {
    let parts = split::parts(threads, 1);
    let width = cols.div_ceil(parts).next_multiple_of(LANES).min(BLOCK_COLS);
    let parts = parts.div_ceil(cols.div_ceil(width));
    let height = rows.div_ceil(parts).next_multiple_of(ROWS).min(BLOCK_ROWS);
    (height, width)
}

/// A part of a panel that one thread computes.
struct Block<'a> {
    factors: Factors<'a>,
    rows: Range<usize>,
    cols: Range<usize>,
    /// One slice per row.
    out: Vec<&'a mut [f32]>,
}

impl WithSimd for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Factors { g, x, m, k } = self.factors;
        let lanes = 2 * S::F32_LANES;
        let zero = simd.splat_f32s(0.0);
        let mut packed_g = vec![0.0; self.rows.len().next_multiple_of(ROWS) * CHUNK];
        let mut packed_x = vec![[zero; 2]; self.cols.len().div_ceil(lanes) * CHUNK];
        for (g, x) in g.chunks(CHUNK * m).zip(x.chunks(CHUNK * k)) {
            let samples = g.len() / m;
            pack(g, m, self.rows.clone(), samples, ROWS, &mut packed_g);
            let lists = bytemuck::cast_slice_mut(&mut packed_x);
            pack(x, k, self.cols.clone(), samples, lanes, lists);
            let g = packed_g.chunks(samples * ROWS);
            for (g, out) in g.zip(self.out.chunks_mut(ROWS)) {
                let (g, _) = g.as_chunks::<ROWS>();
                let tiles = (0..self.cols.len()).step_by(lanes);
                for (first, x) in tiles.zip(packed_x.chunks(samples)) {
                    let sums = tile_sums(simd, g, x);
                    for (out, sums) in out.iter_mut().zip(&sums) {
                        let sums: &[f32] = bytemuck::cast_slice(sums);
                        for (out, sum) in out[first..].iter_mut().zip(sums) {
                            *out += sum;
                        }
                    }
                }
            }
        }
    }
}

/// Lays some columns of a batch-major chunk out in tiles, each `[samples, lanes]`; what a tile has
/// too many is zero.
fn pack(
    values: &[f32],
    width: usize,
    cols: Range<usize>,
    samples: usize,
    lanes: usize,
    packed: &mut [f32],
) {
    let tiles = cols.clone().step_by(lanes);
    for (first, packed) in tiles.zip(packed.chunks_mut(samples * lanes)) {
        let last = cols.end.min(first + lanes);
        let samples = values.chunks_exact(width);
        for (values, packed) in samples.zip(packed.chunks_exact_mut(lanes)) {
            let (packed, rest) = packed.split_at_mut(last - first);
            packed.copy_from_slice(&values[first..last]);
            rest.fill(0.0);
        }
    }
}

#[inline(always)]
fn tile_sums<S: Simd>(simd: S, g: &[[f32; ROWS]], x: &[[S::f32s; 2]]) -> [[S::f32s; 2]; ROWS] {
    let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
    for (g, &[x0, x1]) in g.iter().zip(x) {
        for row in 0..ROWS {
            let g = simd.splat_f32s(g[row]);
            let [sum0, sum1] = sums[row];
            sums[row] = [
                simd.mul_add_e_f32s(g, x0, sum0),
                simd.mul_add_e_f32s(g, x1, sum1),
            ];
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn panels_are_parts_of_the_whole() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for (batch, m, k) in [(1, 1, 1), (5, 13, 40), (300, 55, 150), (1000, 7, 33)] {
            let mut draw =
                |count| -> Vec<f32> { (0..count).map(|_| rng.random_range(-1.0..1.0)).collect() };
            let (g, x) = (draw(batch * m), draw(batch * k));
            let factors = Factors { g: &g, x: &x, m, k };
            let whole = GradientPanel {
                rows: 0..m,
                cols: 0..k,
            };
            let whole = factors.gradients(&whole);
            for (i, j) in [(0, 0), (m - 1, k - 1), (m / 2, k / 2)] {
                let expected: f64 = (0..batch)
                    .map(|b| f64::from(g[b * m + i]) * f64::from(x[b * k + j]))
                    .sum();
                assert!((f64::from(whole[i * k + j]) - expected).abs() < 1e-5 * batch as f64);
            }
            for height in 1..8 {
                for width in [1, k / 2 + 1, k] {
                    for row in (0..m).step_by(height) {
                        for col in (0..k).step_by(width) {
                            let panel = GradientPanel {
                                rows: row..(row + height).min(m),
                                cols: col..(col + width).min(k),
                            };
                            let expected = panel.rows.clone().flat_map(|row| {
                                let cols = panel.cols.clone();
                                cols.map(move |col| row * k + col)
                            });
                            let found = factors.gradients(&panel);
                            assert!(
                                found
                                    .into_iter()
                                    .map(f32::to_bits)
                                    .eq(expected.map(|at| whole[at].to_bits())),
                                "{panel:?} of {m}x{k}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let (batch, m, k) = (300, 100, 170);
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut draw =
            |count| -> Vec<f32> { (0..count).map(|_| rng.random_range(-1.0..1.0)).collect() };
        let (g, x) = (draw(batch * m), draw(batch * k));
        let factors = Factors { g: &g, x: &x, m, k };
        let panel = GradientPanel {
            rows: 0..m,
            cols: 0..k,
        };
        assert!(split::is_shared(m * k, batch));
        let on_threads = |count| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build();
            pool.unwrap().install(|| factors.gradients(&panel))
        };
        let found = on_threads(1);
        for threads in [2, 5, 64] {
            assert!(found == on_threads(threads), "other bits on {threads}");
        }
    }

    #[test]
    fn all_threads_get_a_share() {
        assert_eq!(shares(768, 3072, 1), (48, 128));
        assert_eq!(shares(1, 3072, 16), (6, 64));
        assert_eq!(shares(768, 16, 16), (12, 32));
        assert_eq!(shares(1, 1, 2), (6, 32));
    }
}
