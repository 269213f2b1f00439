//! Tiles of `X` in shared memory, one row at a time per plane.
//!
//! A cube owns a range of rows, a range of features and a part of the batch. It stages the tiles of
//! that part one after the other, turning them, and adds to its sums, which no other cube writes. The
//! few units of a group share the samples of an entry and, when they have added their shares, each
//! writes other entries.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SddmmProblem;
use super::parts::{add_parts, dtypes_with_sums, parts_allowed, sums_of_parts};
use crate::backend::cube::coordinates::{coordinate_word, decode_coordinate};
use crate::backend::cube::launch::{address_type, grid};
use crate::backend::cube::tiles::{
    LANES, SAMPLES, TileShape, Tiling, stage_features, stage_samples, tile_ends, vector_of_unit,
};
use crate::backend::cube::transpose::{is_feature_major, to_feature_major};
use crate::ops::{RoutineError, SddmmRoutine};

/// Vectors of samples that a unit multiplies at most, where another can take the others.
const VECTORS_OF_UNIT: usize = 4;
/// Entries that a group has in flight at least. It has one for each of its units to write.
const UNROLL: usize = 2;
/// Samples of a tile at most where all features fit one tile.
const MOST_SAMPLES: usize = 64;

/// What it costs to stage an element, in multiplications: shared memory serves six times as many
/// elements as a multiprocessor's share of the second-level cache.
const STAGING: f64 = 6.0;
/// What it costs to write a sum and to add it later.
const PART_SUM: f64 = 14.0;

/// Entries of a row in a tile from which tiles pay: fewer do not make up for staging them.
const ENTRIES: usize = 64;

/// What a variant of the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RowTile {
    tile: TileShape,
    /// Entries that a group has in flight, a power of two.
    unroll: usize,
    /// Whether coordinates are stored two to a word.
    packed: bool,
    /// Whether `X` is feature-major.
    turned: bool,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn row_tile_kernel<F: Float, A: Float, O: Float, S: Size, Q: Size>(
    y: &Tensor<Vector<F, S>>,
    x: &Tensor<Vector<F, Q>>,
    turned_x: &Tensor<Vector<F, S>>,
    cols: &Tensor<u32>,
    ends: &Tensor<u32>,
    sums: &mut Tensor<O>,
    nnz: usize,
    batch: usize,
    rows: usize,
    features: usize,
    width: usize,
    tiles: usize,
    operand_vectors: usize,
    part_vectors: usize,
    #[comptime] config: RowTile,
    #[define(F, A, O)] _dtypes: [ElemType; 3],
) {
    let shape = comptime!(config.tile);
    let vectors = comptime!(shape.vectors);
    let lanes = comptime!(shape.lanes);
    let groups = comptime!(shape.groups);
    let team = comptime!(shape.team());
    let own = comptime!(shape.vectors_of_unit());
    let unroll = comptime!(config.unroll);
    let kept = comptime!(config.unroll / shape.lanes);
    let halvings = comptime!(shape.lanes.ilog2() as usize);

    let mut staged = Shared::<[Vector<F, S>]>::new_slice(comptime!(shape.memory));
    let unit = UNIT_POS as usize;
    let teams = CUBE_DIM as usize / team;
    let (group, lane) = (unit % team / lanes, unit % lanes);
    let mut shifts = Array::<usize>::new(own);
    #[unroll]
    for v in 0..own {
        shifts[v] = vector_of_unit(v, group, lane, shape);
    }
    // The first of the group's entries that the unit is left with when it has halved them.
    let mut written = 0usize;
    #[unroll]
    for half in 0..halvings {
        written += ((lane >> half) & 1) * comptime!((unroll >> (half + 1)) * groups);
    }
    let share = rows.div_ceil(CUBE_COUNT_X as usize);
    let first_row = CUBE_POS_X as usize * share;
    let last_row = min(first_row + share, rows);
    let tile = CUBE_POS_Y as usize % tiles;
    let part = CUBE_POS_Y as usize / tiles;
    let first_sum = part * nnz;
    let part_vector = part * part_vectors;
    let last_vector = min(part_vector + part_vectors, operand_vectors);
    let first_feature = tile * width;
    let offset = 0usize - first_feature * vectors;
    let nowhere = comptime!(shape.memory - shape.vectors);

    let mut first_vector = part_vector;
    while first_vector < last_vector {
        sync_cube();
        let count = min(width, features - first_feature);
        if config.turned {
            stage_features::<F, S>(
                turned_x,
                &mut staged,
                first_feature,
                count,
                first_vector,
                operand_vectors,
                shape,
            );
        } else {
            stage_samples::<F, S, Q>(
                x,
                &mut staged,
                first_feature,
                count,
                features,
                first_vector * LANES,
                batch,
                shape,
            );
        }
        sync_cube();
        let again = first_vector > part_vector;
        let mut row = first_row + unit / team;
        let mut next = min(row, rows - 1) * (tiles + 1) + tile;
        let mut next_begin = ends[next] as usize;
        let mut next_end = ends[next + 1] as usize;
        while row < last_row {
            let begin = next_begin;
            let end = next_end;
            next = min(row + teams, rows - 1) * (tiles + 1) + tile;
            next_begin = ends[next] as usize;
            next_end = ends[next + 1] as usize;
            let mut words = Array::<u32>::new(unroll);
            let mut next_words = Array::<u32>::new(unroll);
            #[unroll]
            for u in 0..unroll {
                let ahead = comptime!(u * groups);
                next_words[u] = coordinate_word(cols, begin + group, ahead, config.packed);
            }
            let mut grads = Array::<Vector<A, S>>::new(own);
            #[unroll]
            for v in 0..own {
                let place = row * operand_vectors + first_vector + shifts[v];
                grads[v] = Vector::cast_from(y[place]);
            }
            // All groups of a team take the same turns, so that their units meet where they add.
            let mut turn = begin;
            while turn < end {
                let entry = turn + group;
                // The next coordinates are on their way while these entries are multiplied.
                #[unroll]
                for u in 0..unroll {
                    let ahead = comptime!((unroll + u) * groups);
                    words[u] = next_words[u];
                    next_words[u] = coordinate_word(cols, entry, ahead, config.packed);
                }
                let target = entry + written;
                let mut totals = Array::<A>::new(kept);
                #[unroll]
                for i in 0..kept {
                    let place = target + comptime!(i * groups);
                    totals[i] = A::new(0.0_f32);
                    if again && place < end {
                        totals[i] = A::cast_from(sums[first_sum + place]);
                    }
                }
                let mut dots = Array::<A>::new(unroll);
                #[unroll]
                for u in 0..unroll {
                    let ahead = comptime!(u * groups);
                    dots[u] = A::new(0.0_f32);
                    if turn + ahead < end {
                        let column = decode_coordinate(words[u], entry, ahead, config.packed);
                        // What is no entry of the tile reads its last feature for nothing.
                        let place = min(column * vectors + offset, nowhere);
                        dots[u] = dot::<F, A, S>(&staged, &grads, &shifts, place, own);
                    }
                }
                // Each time a unit gives away its shares of half of its entries and completes those of
                // the other half.
                #[unroll]
                for half in 0..halvings {
                    let left = comptime!(unroll >> (half + 1));
                    let upper = (lane >> half) & 1 == 1;
                    #[unroll]
                    for i in 0..left {
                        let mine = select(upper, dots[i + left], dots[i]);
                        let given = select(upper, dots[i], dots[i + left]);
                        dots[i] = mine + plane_shuffle_xor(given, comptime!(1u32 << half));
                    }
                }
                #[unroll]
                for i in 0..kept {
                    let place = target + comptime!(i * groups);
                    if place < end {
                        sums[first_sum + place] = O::cast_from(totals[i] + dots[i]);
                    }
                }
                turn += comptime!(unroll * groups);
            }
            row += teams;
        }
        first_vector += vectors;
    }
}

/// A unit's share of an entry.
#[cube]
fn dot<F: Float, A: Float, S: Size>(
    staged: &Shared<[Vector<F, S>]>,
    grads: &Array<Vector<A, S>>,
    shifts: &Array<usize>,
    place: usize,
    #[comptime] own: usize,
) -> A {
    let mut terms = Vector::<A, S>::new(A::new(0.0_f32));
    #[unroll]
    for v in 0..own {
        let samples = Vector::<A, S>::cast_from(staged[place + shifts[v]]);
        terms = fma(grads[v], samples, terms);
    }
    let mut sum = terms.extract(0usize);
    #[unroll]
    for t in 1..LANES {
        sum += terms.extract(t);
    }
    sum
}

/// How `X` is cut and shared among cubes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    tiling: Tiling,
    /// Ranges of rows.
    ranges: usize,
    /// Parts of the batch.
    parts: usize,
    /// Tiles along the batch that a part has.
    part_tiles: usize,
}

impl Plan {
    /// The split with the least work for a cube, of those that run at once.
    fn new(problem: &SddmmProblem, tiling: Tiling) -> Self {
        let rows = problem.y.meta.shape()[1];
        let teams = tiling.shape.units / tiling.shape.team();
        let at_once = (tiling.multiprocessors / tiling.tiles).max(1);
        let row_entries = problem.nnz as f64 / (rows * tiling.tiles) as f64;
        let split = |parts: usize| {
            let part_tiles = tiling.batch_tiles.div_ceil(parts);
            let parts = tiling.batch_tiles.div_ceil(part_tiles);
            let ranges = (at_once / parts).clamp(1, rows);
            let plan = Self {
                tiling,
                ranges,
                parts,
                part_tiles,
            };
            // Teams wait for the slowest of them.
            let turns = rows.div_ceil(ranges).div_ceil(teams);
            let entries = (turns * teams) as f64 * row_entries;
            let samples = (part_tiles * tiling.samples) as f64;
            let mut work = samples * (STAGING * tiling.width as f64 + entries);
            if parts > 1 {
                work += PART_SUM * (parts * problem.nnz) as f64 / tiling.multiprocessors as f64;
            }
            (work, plan)
        };
        let most = at_once
            .min(tiling.batch_tiles)
            .min(parts_allowed(problem))
            .max(1);
        let best = (1..=most)
            .map(split)
            .min_by(|(a, _), (b, _)| a.total_cmp(b));
        best.expect("a batch has at least one part").1
    }

    /// Whether the rows have enough entries in a tile, and the teams of a cube enough rows, to
    /// expect more of tiles than of the caches.
    pub fn pays(&self, problem: &SddmmProblem) -> bool {
        let Tiling { tiles, shape, .. } = self.tiling;
        let rows = problem.y.meta.shape()[1];
        let entries = ENTRIES.saturating_mul(rows).saturating_mul(tiles);
        problem.nnz >= entries && rows * shape.team() >= self.ranges * shape.units
    }
}

/// What the device runs for a problem.
///
/// # Errors
///
/// If no tile fits into shared memory.
pub(super) fn plan(problem: &SddmmProblem) -> Result<Plan, RoutineError> {
    let x = &problem.x;
    let routine = SddmmRoutine::RowTile.name();
    let share = |vectors| (vectors / VECTORS_OF_UNIT, true);
    let (batch, features, element) = (problem.batch(), x.meta.shape()[1], x.dtype.size());
    let tiling =
        |samples| Tiling::plan(&x.client, routine, batch, features, element, samples, share);
    let tiling = match tiling(MOST_SAMPLES) {
        Ok(tiling) if tiling.tiles == 1 => tiling,
        _ => tiling(SAMPLES)?,
    };
    Ok(Plan::new(problem, tiling))
}

pub(super) fn launch(problem: &SddmmProblem) -> Result<CubeTensor, RoutineError> {
    let routine = SddmmRoutine::RowTile.name();
    let Plan {
        tiling,
        ranges,
        parts,
        part_tiles,
    } = plan(problem)?;
    let SddmmProblem {
        y,
        x,
        offsets,
        cols,
        ..
    } = problem;
    let (rows, features) = (offsets.meta.num_elements() - 1, x.meta.shape()[1]);
    let padded = problem.batch().next_multiple_of(tiling.samples);
    let count = grid(&x.client, routine, [ranges, parts * tiling.tiles])?;
    let ends = tile_ends(offsets, cols, problem.packed, &tiling);
    let y = to_feature_major(y, padded);
    let turned = is_feature_major(x);
    let x = match turned {
        true => to_feature_major(x, padded),
        false => x.clone(),
    };
    // What is not read has to be as large as a vector all the same.
    let (vector, turned_x) = match turned {
        true => (LANES, x.clone()),
        false => (vector_of_rows(&x), y.clone()),
    };
    let sums = sums_of_parts(problem, parts, part_tiles == 1);
    let config = RowTile {
        tile: tiling.shape,
        unroll: tiling.shape.lanes.max(UNROLL),
        packed: problem.packed,
        turned,
    };
    // SAFETY: rows, features and vectors are bounded, sums by the entries of their rows, coordinates
    // by the padded list, samples by the padded operands; the index tensors come from a validated
    // pattern of the operands' shapes.
    unsafe {
        row_tile_kernel::launch_unchecked(
            &x.client,
            count,
            CubeDim::new_1d(tiling.shape.units as u32),
            address_type([&y, &x, &sums]),
            LANES,
            vector,
            y.into_tensor_arg(),
            x.clone().into_tensor_arg(),
            turned_x.into_tensor_arg(),
            cols.clone().into_tensor_arg(),
            ends.into_tensor_arg(),
            sums.clone().into_tensor_arg(),
            problem.nnz,
            problem.batch(),
            rows,
            features,
            tiling.width,
            tiling.tiles,
            padded / LANES,
            part_tiles * tiling.shape.vectors,
            config,
            dtypes_with_sums(problem, &sums),
        );
    }
    Ok(add_parts(problem, sums))
}

/// Elements of a batch-major operand that a kernel may load at once: one where rows begin within a
/// vector, or the operand does, as a view may.
fn vector_of_rows(x: &CubeTensor) -> usize {
    let start = x.handle.offset_start.unwrap_or(0);
    let bytes = (LANES * x.dtype.size()) as u64;
    match start.is_multiple_of(bytes) && x.meta.shape()[1].is_multiple_of(LANES) {
        true => LANES,
        false => 1,
    }
}
