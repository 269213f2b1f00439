//! `X = Y W` in the order of the rows of `W`: no column order, no permuted values, no atomics.
//!
//! The columns of one row are distinct, so the units of a team may add a whole row to sums in
//! shared memory without meeting each other; a barrier separates one row from the next. Several
//! teams of a cube work on rows of their own with sums of their own. The sums of all cubes are added
//! by a second kernel in a fixed order, so the result does not depend on timing.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SpmmProblem;
use crate::backend::cube::coordinates::{coordinate, coordinate_word, decode_coordinate};
use crate::backend::cube::launch::{
    address_type, check_units, dtypes, grid, scratch, strided_grid, uninitialized,
};
use crate::backend::cube::staging::{ROWS, Staging, stage_offsets};
use crate::ops::{RoutineError, SpmmRoutine};

/// Units of a cube of the second kernel along the cubes whose sums it adds.
const ADDERS: u32 = 16;
/// Units of a cube of the second kernel along the sums.
const SUMS: u32 = 32;

/// What a variant of the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowScatter {
    /// Sums of a team, at least the number of outputs.
    outputs: usize,
    /// Teams of a cube.
    teams: usize,
    /// Units per cube.
    units: usize,
    /// Rows whose entries a team has in flight.
    ahead: usize,
    /// Entries of each of these rows that a unit has in flight.
    chunks: usize,
    /// Whether coordinates are stored two to a word.
    packed: bool,
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn row_scatter_kernel<F: Float, A: Float, B: Size>(
    values: &Tensor<F>,
    offsets: &Tensor<u32>,
    cols: &Tensor<u32>,
    y: &Tensor<F>,
    partial: &mut Tensor<A>,
    batch: usize,
    outputs: usize,
    #[comptime] config: RowScatter,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let teams = comptime!(config.teams);
    let ahead = comptime!(config.ahead);
    let chunks = comptime!(config.chunks);
    let tile = B::value();
    let width = comptime!(config.outputs);

    let mut sums = Shared::<[Vector<A, B>]>::new_slice(comptime!(width * teams));
    let mut starts = Shared::<[u32]>::new_slice(comptime!(ROWS + 1));
    let mut inputs = Shared::<[Vector<A, B>]>::new_slice(ROWS);

    let unit = UNIT_POS as usize;
    let units = CUBE_DIM as usize;
    let members = units / teams;
    let (team, member) = (unit / members, unit % members);
    let rows_total = offsets.len() - 1;
    let last_entry = values.len() - 1;
    let share = rows_total.div_ceil(CUBE_COUNT_X as usize);
    let mut first_row = CUBE_POS_X as usize * share;
    let last_row = min(first_row + share, rows_total);
    let first_sample = CUBE_POS_Y as usize * tile;

    let mut entry_words = Array::<u32>::new(comptime!(ahead * chunks));
    let mut entry_values = Array::<F>::new(comptime!(ahead * chunks));

    let mut position = unit;
    while position < width * teams {
        sums[position] = Vector::new(A::new(0.0_f32));
        position += units;
    }
    while first_row < last_row {
        let rows = min(ROWS, last_row - first_row);
        stage_offsets(offsets, &mut starts, first_row, last_row);
        let mut row = unit;
        while row < rows {
            let mut column = Vector::<A, B>::new(A::new(0.0_f32));
            #[unroll]
            for t in 0..tile {
                if first_sample + t < batch {
                    let sample = first_sample + t;
                    column.insert(t, A::cast_from(y[sample * rows_total + first_row + row]));
                }
            }
            inputs[row] = column;
            row += units;
        }
        sync_cube();

        let mut step = 0usize;
        while step * teams < rows {
            #[unroll]
            for a in 0..ahead {
                let row = min((step + a) * teams + team, rows - 1);
                let first = starts[row] as usize + member;
                #[unroll]
                for c in 0..chunks {
                    let distance = comptime!(c * config.units / teams);
                    let word = coordinate_word(cols, first, distance, config.packed);
                    entry_words[a * chunks + c] = word;
                    entry_values[a * chunks + c] = values[min(first + distance, last_entry)];
                }
            }
            #[unroll]
            for a in 0..ahead {
                let row = (step + a) * teams + team;
                if row < rows {
                    let end = starts[row + 1] as usize;
                    let first = starts[row] as usize + member;
                    let input = inputs[row];
                    #[unroll]
                    for c in 0..chunks {
                        let distance = comptime!(c * config.units / teams);
                        if first + distance < end {
                            let word = entry_words[a * chunks + c];
                            let col = decode_coordinate(word, first, distance, config.packed);
                            let value = A::cast_from(entry_values[a * chunks + c]);
                            let place = team * width + col;
                            sums[place] = fma(Vector::new(value), input, sums[place]);
                        }
                    }
                    let mut entry = first + chunks * members;
                    while entry < end {
                        let place = team * width + coordinate(cols, entry, config.packed);
                        let value = A::cast_from(values[entry]);
                        sums[place] = fma(Vector::new(value), input, sums[place]);
                        entry += members;
                    }
                }
                sync_cube();
            }
            step += ahead;
        }
        first_row += ROWS;
    }

    let mut output = unit;
    while output < outputs {
        let mut sum = sums[output];
        #[unroll]
        for team in 1..teams {
            sum += sums[team * width + output];
        }
        #[unroll]
        for t in 0..tile {
            if first_sample + t < batch {
                let sample = CUBE_POS_X as usize * batch + first_sample + t;
                partial[sample * outputs + output] = sum.extract(t);
            }
        }
        output += units;
    }
}

/// Adds the sums of all cubes, `[cubes, batch, outputs]`, into `[batch, outputs]`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn add_partials_kernel<F: Float, A: Float>(
    partial: &Tensor<A>,
    out: &mut Tensor<F>,
    cubes: usize,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let length = out.len();
    let mut shares = Shared::<[A]>::new_slice(comptime!((ADDERS * SUMS) as usize));
    let mut first = CUBE_POS_X as usize * SUMS as usize;
    while first < length {
        let position = first + UNIT_POS_X as usize;
        let mut sum = A::new(0.0_f32);
        if position < length {
            let mut cube = UNIT_POS_Y as usize;
            while cube < cubes {
                sum += partial[cube * length + position];
                cube += ADDERS as usize;
            }
        }
        shares[UNIT_POS as usize] = sum;
        sync_cube();
        if UNIT_POS_Y == 0 && position < length {
            let mut total = A::new(0.0_f32);
            #[unroll]
            for adder in 0..ADDERS {
                total += shares[(adder * SUMS + UNIT_POS_X) as usize];
            }
            out[position] = F::cast_from(total);
        }
        sync_cube();
        first += CUBE_COUNT_X as usize * SUMS as usize;
    }
}

/// What the device runs for a problem.
///
/// # Errors
///
/// If the product is not a transposed one, or if the sums of one sample do not fit into shared
/// memory.
pub(super) fn plan(problem: &SpmmProblem) -> Result<(Staging, RowScatter), RoutineError> {
    let routine = SpmmRoutine::RowScatter.name();
    let Some((offsets, _)) = &problem.by_input else {
        return Err(RoutineError::TransposedOnly { routine });
    };
    let client = &problem.x.client;
    let (batch, outputs) = (problem.batch(), problem.outputs());
    let sum = problem.x.dtype.size().max(size_of::<f32>());
    check_units(client, routine, SUMS * ADDERS)?;
    let staging = Staging::plan(client, routine, batch, outputs, sum, |tile, _| {
        ROWS * (tile * sum + size_of::<u32>()) + size_of::<u32>()
    })?;
    let sums = staging.features * staging.tile * sum;
    let teams = [4, 2, 1]
        .into_iter()
        .find(|teams| staging.bytes + (teams - 1) * sums <= staging.limit)
        .unwrap_or(1)
        .min(staging.units as usize);
    let rows = offsets.meta.num_elements() - 1;
    let row = problem.nnz().div_ceil(rows);
    let chunks = row
        .div_ceil(staging.units as usize / teams)
        .next_power_of_two()
        .min(4);
    let config = RowScatter {
        outputs: staging.features,
        teams,
        units: staging.units as usize,
        ahead: 8 / chunks,
        chunks,
        packed: problem.packed,
    };
    grid(
        client,
        routine,
        [staging.cubes(rows), batch.div_ceil(staging.tile)],
    )?;
    Ok((staging, config))
}

pub(super) fn launch(problem: &SpmmProblem) -> Result<CubeTensor, RoutineError> {
    let (staging, config) = plan(problem)?;
    let routine = SpmmRoutine::RowScatter.name();
    let Some((offsets, cols)) = &problem.by_input else {
        return Err(RoutineError::TransposedOnly { routine });
    };
    let SpmmProblem { values, x, .. } = problem;
    let (batch, outputs) = (problem.batch(), problem.outputs());
    let rows = offsets.meta.num_elements() - 1;
    let cubes = staging.cubes(rows);
    let count = grid(&x.client, routine, [cubes, batch.div_ceil(staging.tile)])?;
    let partial = scratch(x, [cubes, batch, outputs].into());
    let y = uninitialized(x, problem.output_shape());
    // SAFETY: entries are bounded by their rows, samples by the batch; the index tensors come from
    // a validated pattern of the operands' shapes.
    unsafe {
        row_scatter_kernel::launch_unchecked(
            &x.client,
            count,
            CubeDim::new_1d(staging.units),
            address_type([values, x, &partial]),
            staging.tile,
            values.clone().into_tensor_arg(),
            offsets.clone().into_tensor_arg(),
            cols.clone().into_tensor_arg(),
            x.clone().into_tensor_arg(),
            partial.clone().into_tensor_arg(),
            batch,
            outputs,
            config,
            dtypes(x.dtype),
        );
        add_partials_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, [(batch * outputs).div_ceil(SUMS as usize), 1]),
            CubeDim::new_2d(SUMS, ADDERS),
            address_type([&partial, &y]),
            partial.into_tensor_arg(),
            y.clone().into_tensor_arg(),
            cubes,
            dtypes(x.dtype),
        );
    }
    Ok(y)
}
