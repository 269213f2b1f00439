//! The scores of a panel: a dense product in tiles, whose sums have one order for every entry.
//!
//! A cube computes a tile of 64 x 64 entries. Its units are groups of 64; of every 32 samples each
//! group takes 8, in order, and each of its units sums 8 x 8 entries in registers. In the end the
//! groups are added in order. So the order depends on the batch alone, not on the panel.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::GrowthProblem;
use super::word::encode;
use crate::backend::cube::launch::{address_type, dtypes, strided_grid};

/// Side of a tile.
const SIDE: usize = 64;
/// Entries of a vector in shared memory.
const LANES: usize = 4;
/// Vectors of a row of the tile.
const QUADS: usize = SIDE / LANES;
/// Units that share a part of the samples, 8 by 8.
const TEAM: usize = 64;
const TEAM_SIDE: usize = 8;
/// Parts that the samples are cut into.
const GROUPS: usize = 4;
/// Samples that a group stages at a time.
const SAMPLES: usize = 8;
/// Vectors of one operand that a unit stages at a time.
const LOADS: usize = SAMPLES * QUADS / TEAM;
/// Vectors in shared memory: both operands of all groups, or all sums of a tile.
const STAGED: usize = SIDE * QUADS;

const _: () = assert!(STAGED == GROUPS * SAMPLES * 2 * QUADS);
const _: () = assert!(GROUPS * TEAM == super::UNITS as usize);

/// Shared memory of a cube.
pub(super) const SHARED_BYTES: usize = STAGED * LANES * size_of::<f32>();

/// Four columns of a sample from `col` on; zeros past the end of the batch or of the panel.
#[cube]
fn load_quad<F: Float, L: Size, V: Size>(
    factor: &Tensor<Vector<F, L>>,
    sample: usize,
    col: usize,
    batch: usize,
    width: usize,
    end: usize,
    #[comptime] line: usize,
) -> Vector<f32, V> {
    let mut quad = Vector::<f32, V>::new(0.0_f32);
    if sample < batch {
        #[unroll]
        for part in 0..comptime!(LANES / line) {
            let at = col + part * line;
            if at < end {
                let values = factor[(sample * width + at) / line];
                #[unroll]
                for i in 0..line {
                    quad.insert(
                        comptime!(part * line + i),
                        f32::cast_from(values.extract(i)),
                    );
                }
            }
        }
    }
    quad
}

/// The part of a factor that a tile needs.
#[derive(CubeType, CubeLaunch)]
struct Side {
    /// Columns of the factor.
    width: usize,
    /// The panel's first column and the one after its last.
    first: usize,
    end: usize,
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn scores_kernel<F: Float, L: Size, V: Size>(
    g: &Tensor<Vector<F, L>>,
    x: &Tensor<Vector<F, L>>,
    mask: &Tensor<u32>,
    words: &mut Tensor<u32>,
    batch: usize,
    rows: Side,
    cols: Side,
    #[comptime] line: usize,
    #[define(F)] _dtype: ElemType,
) {
    let mut staged = Shared::<[Vector<f32, V>]>::new_slice(STAGED);
    let mut next_g = Array::<Vector<f32, V>>::new(LOADS);
    let mut next_x = Array::<Vector<f32, V>>::new(LOADS);
    let mut sums = Array::<Vector<f32, V>>::new(comptime!(4 * LANES));

    let unit = UNIT_POS as usize;
    let (group, lane) = (unit / TEAM, unit % TEAM);
    let (down, across) = (lane / TEAM_SIDE, lane % TEAM_SIDE);
    let (g_base, x_base) = (
        group * comptime!(SAMPLES * QUADS),
        (group + GROUPS) * comptime!(SAMPLES * QUADS),
    );
    let (height, width) = (rows.end - rows.first, cols.end - cols.first);

    let mut tile_row = CUBE_POS_Y as usize * SIDE;
    while tile_row < height {
        let mut tile_col = CUBE_POS_X as usize * SIDE;
        while tile_col < width {
            #[unroll]
            for i in 0..comptime!(4 * LANES) {
                sums[i] = Vector::new(0.0_f32);
            }
            let mut base = group * SAMPLES;
            #[unroll]
            for i in 0..LOADS {
                let (sample, quad) = staged_at(lane, i);
                next_g[i] = load_quad::<F, L, V>(
                    g,
                    base + sample,
                    rows.first + tile_row + quad * LANES,
                    batch,
                    rows.width,
                    rows.end,
                    line,
                );
                next_x[i] = load_quad::<F, L, V>(
                    x,
                    base + sample,
                    cols.first + tile_col + quad * LANES,
                    batch,
                    cols.width,
                    cols.end,
                    line,
                );
            }
            let mut begin = 0usize;
            while begin < batch {
                #[unroll]
                for i in 0..LOADS {
                    let place = lane + comptime!(i * TEAM);
                    staged[g_base + place] = next_g[i];
                    staged[x_base + place] = next_x[i];
                }
                sync_cube();
                base += comptime!(GROUPS * SAMPLES);
                // The next samples are on their way while these are multiplied.
                #[unroll]
                for i in 0..LOADS {
                    let (sample, quad) = staged_at(lane, i);
                    next_g[i] = load_quad::<F, L, V>(
                        g,
                        base + sample,
                        rows.first + tile_row + quad * LANES,
                        batch,
                        rows.width,
                        rows.end,
                        line,
                    );
                    next_x[i] = load_quad::<F, L, V>(
                        x,
                        base + sample,
                        cols.first + tile_col + quad * LANES,
                        batch,
                        cols.width,
                        cols.end,
                        line,
                    );
                }
                #[unroll]
                for sample in 0..SAMPLES {
                    let g_place = g_base + comptime!(sample * QUADS) + down;
                    let x_place = x_base + comptime!(sample * QUADS) + across;
                    let left = staged[x_place];
                    let right = staged[x_place + TEAM_SIDE];
                    #[unroll]
                    for half in 0..2 {
                        let grads = staged[g_place + comptime!(half * TEAM_SIDE)];
                        #[unroll]
                        for i in 0..LANES {
                            let at = comptime!(2 * (half * LANES + i));
                            let grad = Vector::<f32, V>::new(grads.extract(i));
                            sums[at] = fma(grad, left, sums[at]);
                            sums[at + 1] = fma(grad, right, sums[at + 1]);
                        }
                    }
                }
                sync_cube();
                begin += comptime!(GROUPS * SAMPLES);
            }

            // The sums of the tile pass through shared memory, `[SIDE, QUADS]`.
            #[unroll]
            for other in 1..GROUPS {
                if group == other {
                    put_sums(&mut staged, &sums, down, across);
                }
                sync_cube();
                if group == 0 {
                    add_sums(&staged, &mut sums, down, across);
                }
                sync_cube();
            }
            if group == 0 {
                put_sums(&mut staged, &sums, down, across);
            }
            sync_cube();
            let mut place = unit;
            while place < STAGED {
                let quad = staged[place];
                let row = tile_row + place / QUADS;
                let first = tile_col + (place % QUADS) * LANES;
                if row < height {
                    #[unroll]
                    for i in 0..LANES {
                        let col = first + i;
                        if col < width {
                            let excluded = mask[row * width.div_ceil(32usize) + col / 32];
                            let mut word = 0u32;
                            if (excluded >> (col as u32 % 32)) & 1 == 0 {
                                word = encode(quad.extract(i));
                            }
                            words[row * width + col] = word;
                        }
                    }
                }
                place += CUBE_DIM as usize;
            }
            sync_cube();
            tile_col += CUBE_COUNT_X as usize * SIDE;
        }
        tile_row += CUBE_COUNT_Y as usize * SIDE;
    }
}

/// Sample and vector of a row that the load `i` of a unit brings.
#[cube]
fn staged_at(lane: usize, #[comptime] i: usize) -> (usize, usize) {
    let place = lane + comptime!(i * TEAM);
    (place / QUADS, place % QUADS)
}

/// Place of the first of two vectors of sums in the tile; the second is half a row further.
#[cube]
fn sums_at(#[comptime] i: usize, down: usize, across: usize) -> usize {
    let row = comptime!((i / LANES) * (SIDE / 2) + i % LANES);
    (row + down * LANES) * QUADS + across
}

#[cube]
fn put_sums<V: Size>(
    tile: &mut Shared<[Vector<f32, V>]>,
    sums: &Array<Vector<f32, V>>,
    down: usize,
    across: usize,
) {
    #[unroll]
    for i in 0..comptime!(2 * LANES) {
        let place = sums_at(i, down, across);
        tile[place] = sums[comptime!(2 * i)];
        tile[place + TEAM_SIDE] = sums[comptime!(2 * i + 1)];
    }
}

#[cube]
fn add_sums<V: Size>(
    tile: &Shared<[Vector<f32, V>]>,
    sums: &mut Array<Vector<f32, V>>,
    down: usize,
    across: usize,
) {
    #[unroll]
    for i in 0..comptime!(2 * LANES) {
        let place = sums_at(i, down, across);
        sums[comptime!(2 * i)] += tile[place];
        sums[comptime!(2 * i + 1)] += tile[place + TEAM_SIDE];
    }
}

/// The words of a panel, row-major.
pub(super) fn launch(problem: &GrowthProblem) -> CubeTensor {
    let GrowthProblem { g, x, mask, panel } = problem;
    let (m, k) = (g.meta.shape()[1], x.meta.shape()[1]);
    let (rows, cols) = (&panel.rows, &panel.cols);
    let words = problem.empty([panel.len()], DType::U32);
    let aligned = [m, k, rows.start, cols.start]
        .iter()
        .all(|size| size.is_multiple_of(LANES));
    let line = if aligned { LANES } else { 1 };
    let tiles = [cols.len().div_ceil(SIDE), rows.len().div_ceil(SIDE)];
    // SAFETY: samples, rows and columns are bounded in the kernel; where vectors are loaded whole,
    // the widths of the factors are multiples of their length.
    unsafe {
        scores_kernel::launch_unchecked(
            &g.client,
            strided_grid(&g.client, tiles),
            CubeDim::new_1d(super::UNITS),
            address_type([g, x, &words]),
            line,
            LANES,
            g.clone().into_tensor_arg(),
            x.clone().into_tensor_arg(),
            mask.clone().into_tensor_arg(),
            words.clone().into_tensor_arg(),
            problem.batch(),
            SideLaunch::new(m, rows.start, rows.end),
            SideLaunch::new(k, cols.start, cols.end),
            line,
            dtypes(g.dtype)[0],
        );
    }
    words
}
