//! A few lanes of a plane per output: lanes share the row's entries, plane operations join them.
//!
//! The dense operand is read through the first-level cache. Nothing is staged, so that a launch
//! costs little: for small problems and short rows.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SpmmProblem;
use crate::backend::cube::coordinates::{coordinate_word, decode_coordinate};
use crate::backend::cube::launch::{
    address_type, batch_tile, check_units, dtypes, plane_size, strided_grid, uninitialized,
};
use crate::ops::{RoutineError, SpmmRoutine};

/// Units per cube.
const UNITS: u32 = 256;
/// Entries that a lane has in flight.
const UNROLL: usize = 4;

/// What a variant of the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowPlane {
    /// Lanes that share a row, a power of two.
    lanes: usize,
    /// Samples that they serve in one pass over the row.
    tile: usize,
    /// Whether coordinates are stored two to a word.
    packed: bool,
    /// Whether entries find their value through a permutation.
    permuted: bool,
    /// Whether a bias is added.
    biased: bool,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn row_plane_kernel<F: Float, A: Float>(
    values: &Tensor<F>,
    offsets: &Tensor<u32>,
    inputs: &Tensor<u32>,
    slots: &Tensor<u32>,
    x: &Tensor<F>,
    bias: &Tensor<F>,
    y: &mut Tensor<F>,
    batch: usize,
    features: usize,
    #[comptime] config: RowPlane,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let lanes = comptime!(config.lanes);
    let tile = comptime!(config.tile);
    let unroll = comptime!(UNROLL);
    let outputs = offsets.len() - 1;
    let rows = CUBE_DIM as usize / lanes;
    let (member, lane) = (UNIT_POS as usize / lanes, UNIT_POS as usize % lanes);
    let last_entry = values.len() - 1;

    let mut sums = Array::<A>::new(tile);
    let mut words = Array::<u32>::new(unroll);
    let mut loaded = Array::<A>::new(unroll);
    let mut samples = Array::<usize>::new(tile);

    let mut first_row = CUBE_POS_X as usize * rows;
    while first_row < outputs {
        // Teams without a row walk an empty one, so that all lanes meet at the plane operations.
        let output = first_row + member;
        let mut begin = 0usize;
        let mut end = 0usize;
        if output < outputs {
            begin = offsets[output] as usize;
            end = offsets[output + 1] as usize;
        }
        let mut first = CUBE_POS_Y as usize * tile;
        while first < batch {
            #[unroll]
            for t in 0..tile {
                sums[t] = A::new(0.0_f32);
                // Lanes of a tile beyond the batch repeat its last sample.
                samples[t] = min(first + t, batch - 1) * features;
            }
            let mut entry = begin + lane;
            while entry < end {
                #[unroll]
                for u in 0..unroll {
                    let ahead = comptime!(u * lanes);
                    words[u] = coordinate_word(inputs, entry, ahead, config.packed);
                    if config.permuted {
                        loaded[u] = A::cast_from(values[slots[entry + ahead] as usize]);
                    } else {
                        loaded[u] = A::cast_from(values[min(entry + ahead, last_entry)]);
                    }
                }
                #[unroll]
                for u in 0..unroll {
                    let ahead = comptime!(u * lanes);
                    if entry + ahead < end {
                        let input = decode_coordinate(words[u], entry, ahead, config.packed);
                        #[unroll]
                        for t in 0..tile {
                            sums[t] = fma(loaded[u], A::cast_from(x[samples[t] + input]), sums[t]);
                        }
                    }
                }
                entry += unroll * lanes;
            }
            #[unroll]
            for t in 0..tile {
                let mut sum = sums[t];
                #[unroll]
                for step in 0..comptime!(lanes.ilog2() as usize) {
                    sum += plane_shuffle_xor(sum, comptime!((lanes >> (step + 1)) as u32));
                }
                if lane == 0 && output < outputs && first + t < batch {
                    if config.biased {
                        sum += A::cast_from(bias[output]);
                    }
                    y[(first + t) * outputs + output] = F::cast_from(sum);
                }
            }
            first += CUBE_COUNT_Y as usize * tile;
        }
        first_row += CUBE_COUNT_X as usize * rows;
    }
}

/// What the device runs for a problem.
///
/// # Errors
///
/// If the device has no plane operations.
pub(super) fn plan(problem: &SpmmProblem) -> Result<RowPlane, RoutineError> {
    let client = &problem.x.client;
    let routine = SpmmRoutine::RowPlane.name();
    let Some(plane) = plane_size(client) else {
        return Err(RoutineError::MissingFeature {
            routine,
            needed: "plane operations on planes of one size".to_string(),
        });
    };
    check_units(client, routine, UNITS)?;
    // A lane should have a few turns of entries, so that short rows leave few lanes idle.
    let row = problem.nnz().div_ceil(problem.outputs());
    let lanes = row.div_ceil(2 * UNROLL).next_power_of_two();
    Ok(RowPlane {
        lanes: lanes.clamp(2, plane as usize),
        tile: batch_tile(problem.batch()),
        packed: problem.packed,
        permuted: problem.slots.is_some(),
        biased: problem.bias.is_some(),
    })
}

pub(super) fn launch(problem: &SpmmProblem) -> Result<CubeTensor, RoutineError> {
    let config = plan(problem)?;
    let SpmmProblem {
        values,
        x,
        offsets,
        inputs,
        slots,
        ..
    } = problem;
    let wanted = [
        problem.outputs().div_ceil(UNITS as usize / config.lanes),
        problem.batch().div_ceil(config.tile),
    ];
    let y = uninitialized(x, problem.output_shape());
    // SAFETY: rows and samples are bounded in the kernel; the index tensors come from a validated
    // pattern of the operands' shapes.
    unsafe {
        row_plane_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, wanted),
            CubeDim::new_1d(UNITS),
            address_type([values, x, &y]),
            values.clone().into_tensor_arg(),
            offsets.clone().into_tensor_arg(),
            inputs.clone().into_tensor_arg(),
            slots.as_ref().unwrap_or(inputs).clone().into_tensor_arg(),
            x.clone().into_tensor_arg(),
            problem.bias.as_ref().unwrap_or(x).clone().into_tensor_arg(),
            y.clone().into_tensor_arg(),
            problem.batch(),
            x.meta.shape()[1],
            config,
            dtypes(x.dtype),
        );
    }
    Ok(y)
}
