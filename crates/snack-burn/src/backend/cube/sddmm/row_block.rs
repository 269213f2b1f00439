//! A cube owns a range of rows, stages `X` in shared memory and reads each non-zero once.
//!
//! The twin of the product's routine of that name: the same ranges and parts, but every non-zero
//! is an output of its own, so nothing has to be added across lanes.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SddmmProblem;
use crate::backend::cube::coordinates::{coordinate, row_of};
use crate::backend::cube::launch::{address_type, dtypes, plane_reduction, strided_grid};
use crate::backend::cube::packs::{
    PACK, pack_coordinate, pack_coordinates, padded_slots, words_of_pack,
};
use crate::backend::cube::staging::{
    ROWS, Staging, load_features, part_of_group, stage_offsets, store_all_features,
};
use crate::ops::{RoutineError, SddmmRoutine};

/// What a variant of the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowBlock {
    /// Length of the staged operand, at least the number of features.
    pub features: usize,
    /// Units that share a part of the non-zeros.
    pub lanes: u32,
    /// Units per cube.
    pub units: usize,
    /// Parts that the non-zeros of a cube are cut into.
    pub groups: usize,
    /// Packs of entries that a unit has in flight.
    pub unroll: usize,
    /// Features that a unit has in flight when it stages them.
    pub ahead: usize,
    /// Whether coordinates are stored two to a word.
    pub packed: bool,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn row_block_kernel<F: Float, A: Float, B: Size, V: Size, C: Size>(
    y: &Tensor<F>,
    x: &Tensor<F>,
    offsets: &Tensor<u32>,
    cols: &Tensor<Vector<u32, C>>,
    slot_rows: &Tensor<u32>,
    out: &mut Tensor<Vector<F, V>>,
    batch: usize,
    features: usize,
    nnz: usize,
    #[comptime] config: RowBlock,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let lanes = comptime!(config.lanes as usize);
    let groups = comptime!(config.groups);
    let unroll = comptime!(config.unroll);
    let ahead = comptime!(config.ahead);
    let tile = B::value();

    let mut staged = Shared::<[Vector<F, B>]>::new_slice(comptime!(config.features));
    let mut starts = Shared::<[u32]>::new_slice(comptime!(ROWS + 1));
    let mut grads = Shared::<[Vector<F, B>]>::new_slice(ROWS);

    let unit = UNIT_POS as usize;
    let units = CUBE_DIM as usize;
    let (group, lane) = (unit / lanes, unit % lanes);
    let rows_total = offsets.len() - 1;
    let share = rows_total.div_ceil(CUBE_COUNT_X as usize);
    let first_of_cube = CUBE_POS_X as usize * share;
    let last_of_cube = min(first_of_cube + share, rows_total);

    let mut first_sample = 0usize;
    while first_sample < batch {
        let valid = batch - first_sample;
        let again = first_sample > 0;
        let mut first_row = first_of_cube;
        stage_offsets(offsets, &mut starts, first_row, last_of_cube);
        let mut columns = Array::<Vector<F, B>>::new(ahead);
        load_features::<F, B>(
            x,
            &mut columns,
            0usize,
            batch,
            features,
            first_sample,
            config.units,
            ahead,
        );
        while first_row < last_of_cube {
            let rows = min(ROWS, last_of_cube - first_row);
            // A pack belongs to the block in which it begins.
            let first_pack = (offsets[first_row] as usize).div_ceil(V::value());
            let packs = (offsets[first_row + rows] as usize).div_ceil(V::value()) - first_pack;
            let (part_begin, part_end) = part_of_group(packs, group, groups);
            let mut pack = first_pack + part_begin;
            let part_end = first_pack + part_end;
            // The first coordinates are on their way while the operand is staged.
            let mut words = Array::<Vector<u32, C>>::new(unroll);
            let mut next_words = Array::<Vector<u32, C>>::new(unroll);
            #[unroll]
            for u in 0..unroll {
                let ahead = pack + lane + comptime!(u * lanes);
                next_words[u] = pack_coordinates::<V, C>(cols, ahead, config.packed);
            }
            if first_row == first_of_cube {
                store_all_features::<F, B>(
                    x,
                    &mut columns,
                    &mut staged,
                    batch,
                    features,
                    first_sample,
                    config.units,
                    ahead,
                );
            }
            let mut row = unit;
            while row < rows {
                grads[row] = column_of::<F, B>(y, batch, rows_total, first_sample, first_row + row);
                row += units;
            }
            sync_cube();

            let mut row = row_of(&starts, rows, (pack * V::value()) as u32);
            while pack < part_end {
                #[unroll]
                for u in 0..unroll {
                    words[u] = next_words[u];
                }
                // The next entries are on their way while these are multiplied.
                #[unroll]
                for u in 0..unroll {
                    let ahead = pack + lane + comptime!((unroll + u) * lanes);
                    next_words[u] = pack_coordinates::<V, C>(cols, ahead, config.packed);
                }
                while starts[row + 1] as usize <= pack * V::value() {
                    row += 1;
                }
                let turn_end = min(pack + comptime!(unroll * lanes), part_end);
                let in_row = turn_end * V::value() <= starts[row + 1] as usize;
                let grad = Vector::<A, B>::cast_from(grads[row]);
                #[unroll]
                for u in 0..unroll {
                    let own = pack + lane + comptime!(u * lanes);
                    if own < turn_end {
                        let mut sums = Vector::<A, V>::empty();
                        if in_row {
                            #[unroll]
                            for i in 0..V::value() {
                                let col = pack_coordinate::<V, C>(words[u], own, i, config.packed);
                                sums.insert(i, dot::<F, A, B>(grad, staged[col], valid));
                            }
                        } else {
                            let mut own_row = row;
                            #[unroll]
                            for i in 0..V::value() {
                                let entry = own * V::value() + i;
                                while own_row < rows && starts[own_row + 1] as usize <= entry {
                                    own_row += 1;
                                }
                                let mut grad = Vector::<F, B>::new(F::new(0.0_f32));
                                if own_row < rows {
                                    grad = grads[own_row];
                                } else if entry < nnz {
                                    let row = coordinate(slot_rows, entry, config.packed);
                                    grad =
                                        column_of::<F, B>(y, batch, rows_total, first_sample, row);
                                }
                                let col = pack_coordinate::<V, C>(words[u], own, i, config.packed);
                                let grad = Vector::<A, B>::cast_from(grad);
                                sums.insert(i, dot::<F, A, B>(grad, staged[col], valid));
                            }
                        }
                        if again {
                            sums += Vector::cast_from(out[own]);
                        }
                        out[own] = Vector::cast_from(sums);
                    }
                }
                pack += comptime!(unroll * lanes);
            }
            sync_cube();
            first_row += ROWS;
            stage_offsets(offsets, &mut starts, first_row, last_of_cube);
        }
        first_sample += tile;
    }
}

/// One sample's worth of a column of `y`, `[batch, width]`, for the samples `first ..`; zero beyond
/// the batch.
#[cube]
fn column_of<F: Float, B: Size>(
    y: &Tensor<F>,
    batch: usize,
    width: usize,
    first: usize,
    column: usize,
) -> Vector<F, B> {
    let mut samples = Vector::<F, B>::new(F::new(0.0_f32));
    #[unroll]
    for t in 0..B::value() {
        if first + t < batch {
            samples.insert(t, y[(first + t) * width + column]);
        }
    }
    samples
}

/// The sum over the first `valid` samples.
#[cube]
fn dot<F: Float, A: Float, B: Size>(grad: Vector<A, B>, x: Vector<F, B>, valid: usize) -> A {
    let terms = grad * Vector::<A, B>::cast_from(x);
    let mut sum = terms.extract(0usize);
    #[unroll]
    for t in 1..B::value() {
        if t < valid {
            sum += terms.extract(t);
        }
    }
    sum
}

/// What the device runs for a problem.
///
/// # Errors
///
/// If not even one sample of `X` fits into shared memory, or if a batch of more than one tile has
/// half precision.
pub(super) fn plan(problem: &SddmmProblem) -> Result<(Staging, RowBlock), RoutineError> {
    let x = &problem.x;
    let routine = SddmmRoutine::RowBlock.name();
    let (batch, element) = (problem.batch(), x.dtype.size());
    let staging = Staging::plan(
        &x.client,
        routine,
        batch,
        x.meta.shape()[1],
        element,
        |tile, _| ROWS * (tile * element + size_of::<u32>()) + size_of::<u32>(),
    )?;
    // Sums of further tiles are added to the output, which half precision would round each time.
    if staging.tile < batch && element < size_of::<f32>() {
        return Err(RoutineError::ProblemTooLarge {
            routine,
            what: "batch in half precision",
            requested: batch,
            allowed: staging.tile,
        });
    }
    let lanes = plane_reduction(&x.client);
    let config = RowBlock {
        features: staging.features,
        lanes,
        units: staging.units as usize,
        groups: staging.units as usize / lanes as usize,
        unroll: 2,
        ahead: staging.ahead(),
        packed: problem.packed,
    };
    Ok((staging, config))
}

pub(super) fn launch(problem: &SddmmProblem) -> Result<CubeTensor, RoutineError> {
    let (staging, config) = plan(problem)?;
    let SddmmProblem {
        y,
        x,
        offsets,
        cols,
        rows: slot_rows,
        ..
    } = problem;
    let (padded, out) = padded_slots(x, problem.nnz);
    let rows = offsets.meta.num_elements() - 1;
    // SAFETY: packs are bounded by the rows and end within the padded output, samples by the batch; the index tensors come from
    // a validated pattern of the operands' shapes.
    unsafe {
        row_block_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, [staging.cubes(rows), 1]),
            CubeDim::new_1d(staging.units),
            address_type([y, x, &out]),
            staging.tile,
            PACK,
            words_of_pack(PACK, problem.packed),
            y.clone().into_tensor_arg(),
            x.clone().into_tensor_arg(),
            offsets.clone().into_tensor_arg(),
            cols.clone().into_tensor_arg(),
            slot_rows.clone().into_tensor_arg(),
            padded.into_tensor_arg(),
            problem.batch(),
            x.meta.shape()[1],
            problem.nnz,
            config,
            dtypes(x.dtype),
        );
    }
    Ok(out)
}
