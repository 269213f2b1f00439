//! A cube owns a range of rows, stages `X` in shared memory and reads each non-zero once.
//!
//! The twin of the product's routine of that name: the same ranges and parts, but every non-zero
//! is an output of its own, so nothing has to be added across lanes.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SddmmProblem;
use crate::backend::cube::coordinates::{coordinate_word, decode_coordinate, row_of};
use crate::backend::cube::launch::{
    address_type, dtypes, plane_reduction, strided_grid, uninitialized,
};
use crate::backend::cube::staging::{ROWS, Staging, part_of_group, stage_offsets, stage_tile};
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
    /// Entries that a unit has in flight.
    pub unroll: usize,
    /// Features that a unit has in flight when it stages them.
    pub ahead: usize,
    /// Whether coordinates are stored two to a word.
    pub packed: bool,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn row_block_kernel<F: Float, A: Float, B: Size>(
    y: &Tensor<F>,
    x: &Tensor<F>,
    offsets: &Tensor<u32>,
    cols: &Tensor<u32>,
    out: &mut Tensor<F>,
    batch: usize,
    features: usize,
    #[comptime] config: RowBlock,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let lanes = comptime!(config.lanes as usize);
    let groups = comptime!(config.groups);
    let unroll = comptime!(config.unroll);
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
    let step = comptime!(lanes * unroll);

    let mut first_sample = 0usize;
    while first_sample < batch {
        let valid = batch - first_sample;
        let again = first_sample > 0;
        let mut first_row = first_of_cube;
        stage_offsets(offsets, &mut starts, first_row, last_of_cube);
        stage_tile::<F, B>(
            x,
            &mut staged,
            batch,
            features,
            first_sample,
            config.units,
            config.ahead,
        );
        while first_row < last_of_cube {
            let rows = min(ROWS, last_of_cube - first_row);
            let mut row = unit;
            while row < rows {
                let mut column = Vector::<F, B>::new(F::new(0.0_f32));
                #[unroll]
                for t in 0..tile {
                    if first_sample + t < batch {
                        column.insert(t, y[(first_sample + t) * rows_total + first_row + row]);
                    }
                }
                grads[row] = column;
                row += units;
            }
            sync_cube();

            let (part_begin, part_end) = part_of_group(&starts, rows, group, groups);

            let mut words = Array::<u32>::new(unroll);
            let mut next_words = Array::<u32>::new(unroll);
            let mut base = part_begin;
            #[unroll]
            for u in 0..unroll {
                let first = base as usize + lane;
                next_words[u] = coordinate_word(cols, first, comptime!(u * lanes), config.packed);
            }
            let mut row = row_of(&starts, rows, part_begin);
            while base < part_end {
                let first = base as usize + lane;
                #[unroll]
                for u in 0..unroll {
                    words[u] = next_words[u];
                }
                // The next entries are on their way while these are multiplied.
                #[unroll]
                for u in 0..unroll {
                    let ahead = comptime!(step + u * lanes);
                    next_words[u] = coordinate_word(cols, first, ahead, config.packed);
                }
                let turn_end = min(base + step as u32, part_end);
                let mut more = true;
                while more {
                    let row_begin = starts[row];
                    let row_end = starts[row + 1];
                    let grad = Vector::<A, B>::cast_from(grads[row]);
                    // A turn that lies in one row, as most do where rows are long, needs no masks.
                    if row_begin <= base
                        && row_end >= base + step as u32
                        && turn_end == base + step as u32
                    {
                        write_entries::<F, A, B>(
                            &words, &staged, grad, out, first, base, turn_end, valid, again, false,
                            config,
                        );
                    } else {
                        write_entries::<F, A, B>(
                            &words,
                            &staged,
                            grad,
                            out,
                            first,
                            max(row_begin, base),
                            min(row_end, turn_end),
                            valid,
                            again,
                            true,
                            config,
                        );
                    }
                    more = row_end < turn_end;
                    if row_end <= turn_end && row_end < part_end {
                        row += 1;
                        while starts[row + 1] == row_end {
                            row += 1;
                        }
                    }
                }
                base += step as u32;
            }
            sync_cube();
            first_row += ROWS;
            stage_offsets(offsets, &mut starts, first_row, last_of_cube);
        }
        first_sample += tile;
    }
}

/// Writes the entries `first`, `first + lanes`, ..., whose coordinates are in `words`; only those
/// in `begin .. end` if `masked`. Adds to what is there if `again`.
#[cube]
#[allow(clippy::too_many_arguments)]
fn write_entries<F: Float, A: Float, B: Size>(
    words: &Array<u32>,
    staged: &Shared<[Vector<F, B>]>,
    grad: Vector<A, B>,
    out: &mut Tensor<F>,
    first: usize,
    begin: u32,
    end: u32,
    valid: usize,
    again: bool,
    #[comptime] masked: bool,
    #[comptime] config: RowBlock,
) {
    #[unroll]
    for u in 0..comptime!(config.unroll) {
        let ahead = comptime!(u * config.lanes as usize);
        let entry = (first + ahead) as u32;
        if comptime!(!masked) || (entry >= begin && entry < end) {
            let col = decode_coordinate(words[u], first, ahead, config.packed);
            let terms = grad * Vector::<A, B>::cast_from(staged[col]);
            let mut sum = terms.extract(0usize);
            #[unroll]
            for t in 1..B::value() {
                if t < valid {
                    sum += terms.extract(t);
                }
            }
            if again {
                sum += A::cast_from(out[first + ahead]);
            }
            out[first + ahead] = F::cast_from(sum);
        }
    }
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
        unroll: 8,
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
        ..
    } = problem;
    let out = uninitialized(x, problem.output_shape());
    let rows = offsets.meta.num_elements() - 1;
    // SAFETY: entries are bounded by their rows, samples by the batch; the index tensors come from
    // a validated pattern of the operands' shapes.
    unsafe {
        row_block_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, [staging.cubes(rows), 1]),
            CubeDim::new_1d(staging.units),
            address_type([y, x, &out]),
            staging.tile,
            y.clone().into_tensor_arg(),
            x.clone().into_tensor_arg(),
            offsets.clone().into_tensor_arg(),
            cols.clone().into_tensor_arg(),
            out.clone().into_tensor_arg(),
            problem.batch(),
            x.meta.shape()[1],
            config,
            dtypes(x.dtype),
        );
    }
    Ok(out)
}
