//! Tiles of the feature-major `X` in shared memory, one row at a time per plane.
//!
//! A cube owns a range of rows and one range of features, stages the tiles of the batch one after
//! the other and adds to its non-zeros, which no other cube writes. The lanes of a group share the
//! samples of an entry and, when they have added their shares, each writes other entries.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SddmmProblem;
use crate::backend::cube::launch::{address_type, dtypes, grid, uninitialized};
use crate::backend::cube::packs::{PACK, pack_coordinates, pack_places, words_of_pack};
use crate::backend::cube::tiles::{
    LANES, TileShape, Tiling, stage_features, tile_ends, vector_of_unit,
};
use crate::backend::cube::transpose::to_feature_major;
use crate::ops::{RoutineError, SddmmRoutine};

/// Packs of entries that a group has in flight.
const UNROLL: usize = 2;

/// What a variant of the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RowTile {
    tile: TileShape,
    /// Whether coordinates are stored two to a word.
    packed: bool,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn row_tile_kernel<F: Float, A: Float, S: Size, P: Size, C: Size>(
    y: &Tensor<Vector<F, S>>,
    x: &Tensor<Vector<F, S>>,
    cols: &Tensor<Vector<u32, C>>,
    ends: &Tensor<u32>,
    out: &mut Tensor<F>,
    rows: usize,
    features: usize,
    width: usize,
    tiles: usize,
    operand_vectors: usize,
    #[comptime] config: RowTile,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let shape = comptime!(config.tile);
    let vectors = comptime!(shape.vectors);
    let lanes = comptime!(shape.lanes);
    let groups = comptime!(shape.groups);
    let team = comptime!(shape.team());
    let own = comptime!(shape.vectors_of_unit());
    let halvings = comptime!(lanes.ilog2() as usize);

    let mut staged = Shared::<[Vector<F, S>]>::new_slice(comptime!(shape.memory));
    let unit = UNIT_POS as usize;
    let teams = CUBE_DIM as usize / team;
    let (group, lane) = (unit % team / lanes, unit % lanes);
    let mut shifts = Array::<usize>::new(own);
    #[unroll]
    for v in 0..own {
        shifts[v] = vector_of_unit(v, group, lane, shape);
    }
    let share = rows.div_ceil(CUBE_COUNT_X as usize);
    let first_row = CUBE_POS_X as usize * share;
    let last_row = min(first_row + share, rows);
    let tile = CUBE_POS_Y as usize;
    let first_feature = tile * width;
    let offset = 0usize - first_feature * vectors;
    let nowhere = comptime!(shape.memory - shape.vectors);

    let mut first_vector = 0usize;
    while first_vector < operand_vectors {
        sync_cube();
        stage_features::<F, S>(
            x,
            &mut staged,
            first_feature,
            min(width, features - first_feature),
            first_vector,
            operand_vectors,
            shape,
        );
        sync_cube();
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
            let mut grads = Array::<Vector<A, S>>::new(own);
            #[unroll]
            for v in 0..own {
                let place = row * operand_vectors + first_vector + shifts[v];
                grads[v] = Vector::cast_from(y[place]);
            }
            let mut first = begin / PACK;
            while first * PACK < end {
                let mut words = Array::<Vector<u32, C>>::new(UNROLL);
                #[unroll]
                for u in 0..UNROLL {
                    let pack = first + group + comptime!(u * groups);
                    words[u] = pack_coordinates::<P, C>(cols, pack, config.packed);
                }
                #[unroll]
                for u in 0..UNROLL {
                    let pack = first + group + comptime!(u * groups);
                    let mut places = Array::<usize>::new(PACK);
                    let (stride, packed) = comptime!((shape.vectors, config.packed));
                    pack_places::<P, C>(words[u], &mut places, pack, offset, stride, packed);
                    let mut sums = Array::<A>::new(PACK);
                    #[unroll]
                    for i in 0..PACK {
                        let mut terms = Vector::<A, S>::new(A::new(0.0_f32));
                        #[unroll]
                        for v in 0..own {
                            // Entries of other tiles read the last feature for nothing.
                            let place = min(places[i], nowhere) + shifts[v];
                            let samples = staged[place];
                            let samples = Vector::<A, S>::cast_from(samples);
                            terms = fma(grads[v], samples, terms);
                        }
                        let mut sum = terms.extract(0usize);
                        #[unroll]
                        for t in 1..LANES {
                            sum += terms.extract(t);
                        }
                        sums[i] = sum;
                    }
                    // Each turn halves what a lane is left with: it gives away the sums of half of
                    // its entries and completes those of the other half.
                    let mut entry = pack * PACK;
                    #[unroll]
                    for turn in 0..halvings {
                        let kept = comptime!(PACK >> (turn + 1));
                        let distance = comptime!(1u32 << turn);
                        if comptime!(kept > 0) {
                            let upper = (lane >> turn) & 1 == 1;
                            #[unroll]
                            for i in 0..kept {
                                let mine = select(upper, sums[i + kept], sums[i]);
                                let given = select(upper, sums[i], sums[i + kept]);
                                sums[i] = mine + plane_shuffle_xor(given, distance);
                            }
                            if upper {
                                entry += kept;
                            }
                        } else {
                            let sum = sums[0];
                            sums[0] = sum + plane_shuffle_xor(sum, distance);
                        }
                    }
                    #[unroll]
                    for i in 0..comptime!((PACK >> halvings).max(1)) {
                        let place = entry + i;
                        if place >= begin && place < end && lane < PACK {
                            let mut sum = sums[i];
                            if first_vector > 0 {
                                sum += A::cast_from(out[place]);
                            }
                            out[place] = F::cast_from(sum);
                        }
                    }
                }
                first += comptime!(groups * UNROLL);
            }
            row += teams;
        }
        first_vector += vectors;
    }
}

/// How `X` is cut.
///
/// # Errors
///
/// If no tile fits into shared memory, or if a batch of more than one tile has half precision,
/// which would round each time that sums are added to the output.
pub(super) fn plan(problem: &SddmmProblem) -> Result<Tiling, RoutineError> {
    let x = &problem.x;
    let routine = SddmmRoutine::RowTile.name();
    let (batch, element) = (problem.batch(), x.dtype.size());
    let features = x.meta.shape()[1];
    // What a unit decodes of an entry and adds across lanes serves two vectors of samples.
    let share = |vectors| (vectors / 2, true);
    let tiling = Tiling::plan(&x.client, routine, batch, features, element, share)?;
    if tiling.batch_tiles > 1 && element < size_of::<f32>() {
        return Err(RoutineError::ProblemTooLarge {
            routine,
            what: "batch in half precision",
            requested: batch,
            allowed: tiling.samples,
        });
    }
    Ok(tiling)
}

pub(super) fn launch(problem: &SddmmProblem) -> Result<CubeTensor, RoutineError> {
    let routine = SddmmRoutine::RowTile.name();
    let tiling = plan(problem)?;
    let SddmmProblem {
        y,
        x,
        offsets,
        cols,
        ..
    } = problem;
    let rows = offsets.meta.num_elements() - 1;
    let padded = problem.batch().next_multiple_of(tiling.samples);
    let ranges = (tiling.multiprocessors / tiling.tiles).clamp(1, rows);
    let count = grid(&x.client, routine, [ranges, tiling.tiles])?;
    let ends = tile_ends(offsets, cols, problem.packed, &tiling);
    let (y, x) = (to_feature_major(y, padded), to_feature_major(x, padded));
    let out = uninitialized(&x, problem.output_shape());
    let config = RowTile {
        tile: tiling.shape,
        packed: problem.packed,
    };
    // SAFETY: rows and features are bounded, packs by the padded lists, samples by the padded
    // operands; the index tensors come from a validated pattern of the operands' shapes.
    unsafe {
        row_tile_kernel::launch_unchecked(
            &x.client,
            count,
            CubeDim::new_1d(tiling.shape.units as u32),
            address_type([&y, &x, &out]),
            LANES,
            PACK,
            words_of_pack(PACK, problem.packed),
            y.into_tensor_arg(),
            x.clone().into_tensor_arg(),
            cols.clone().into_tensor_arg(),
            ends.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            rows,
            x.meta.shape()[0],
            tiling.width,
            tiling.tiles,
            padded / LANES,
            config,
            dtypes(x.dtype),
        );
    }
    Ok(out)
}
