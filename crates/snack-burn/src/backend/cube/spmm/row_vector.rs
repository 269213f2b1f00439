//! Lanes along the batch: the dense operand is turned feature-major first, then a team of units
//! walks a row and each unit multiplies vectors of four samples.
//!
//! A team is cut into groups of one unit per vector of the batch tile; each group takes every so
//! many-th entry of the row, so that a small batch still fills a plane (Sputnik's one-dimensional
//! tiling, Gale et al. 2020, with the entries shared as well).

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SpmmProblem;
use crate::backend::cube::coordinates::{coordinate_word, decode_coordinate};
use crate::backend::cube::launch::{
    address_type, check_units, dtypes, plane_reduction, strided_grid, uninitialized,
};
use crate::backend::cube::transpose::{to_feature_major, uninitialized_feature_major};
use crate::ops::{RoutineError, SpmmRoutine};

/// Samples per vector.
const LANES: usize = 4;
/// Units per cube.
const UNITS: u32 = 256;
/// Entries that a unit has in flight.
const UNROLL: usize = 8;
/// Vectors per batch tile at most.
const VECTORS: usize = 16;

/// What a variant of the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowVector {
    /// Vectors of a batch tile, a power of two.
    vectors: usize,
    /// Groups per team, which share the entries of a row.
    groups: usize,
    /// Whether coordinates are stored two to a word.
    packed: bool,
    /// Whether entries find their value through a permutation.
    permuted: bool,
    /// Whether a bias is added.
    biased: bool,
    /// Whether `y` is written feature-major, by vectors.
    turned: bool,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn row_vector_kernel<F: Float, A: Float, V: Size, O: Size>(
    values: &Tensor<F>,
    offsets: &Tensor<u32>,
    inputs: &Tensor<u32>,
    slots: &Tensor<u32>,
    x: &Tensor<Vector<F, V>>,
    bias: &Tensor<F>,
    y: &mut Tensor<Vector<F, O>>,
    batch: usize,
    feature_vectors: usize,
    #[comptime] config: RowVector,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let groups = comptime!(config.groups);
    let unroll = comptime!(UNROLL);
    let team_size = comptime!(config.vectors * config.groups);
    let rows = CUBE_DIM as usize / team_size;
    let unit = UNIT_POS as usize;
    let member = unit / team_size;
    let group = (unit % team_size) / config.vectors;
    let lane = unit % config.vectors;
    let outputs = offsets.len() - 1;
    let last_entry = values.len() - 1;

    let mut words = Array::<u32>::new(unroll);
    let mut loaded = Array::<A>::new(unroll);

    let mut vector = CUBE_POS_Y as usize * config.vectors + lane;
    while vector < feature_vectors.div_ceil(config.vectors) * config.vectors {
        // The last tile may be cut by the end of the batch.
        let inside = vector < feature_vectors;
        let column = min(vector, feature_vectors - 1);
        let mut first_row = CUBE_POS_X as usize * rows;
        while first_row < outputs {
            let output = first_row + member;
            let mut begin = 0usize;
            let mut end = 0usize;
            if output < outputs {
                begin = offsets[output] as usize;
                end = offsets[output + 1] as usize;
            }
            let mut sum = Vector::<A, V>::new(A::new(0.0_f32));
            let mut entry = begin + group;
            while entry < end {
                #[unroll]
                for u in 0..unroll {
                    let ahead = comptime!(u * groups);
                    words[u] = coordinate_word(inputs, entry, ahead, config.packed);
                    if config.permuted {
                        loaded[u] = A::cast_from(values[slots[entry + ahead] as usize]);
                    } else {
                        loaded[u] = A::cast_from(values[min(entry + ahead, last_entry)]);
                    }
                }
                #[unroll]
                for u in 0..unroll {
                    let ahead = comptime!(u * groups);
                    if entry + ahead < end {
                        let input = decode_coordinate(words[u], entry, ahead, config.packed);
                        let samples =
                            Vector::<A, V>::cast_from(x[input * feature_vectors + column]);
                        sum = fma(Vector::new(loaded[u]), samples, sum);
                    }
                }
                entry += unroll * groups;
            }
            #[unroll]
            for step in 0..comptime!(groups.ilog2() as usize) {
                sum += plane_shuffle_xor(sum, comptime!((config.vectors << step) as u32));
            }
            if group == 0 && output < outputs && inside {
                if config.biased {
                    sum += Vector::new(A::cast_from(bias[output]));
                }
                if config.turned {
                    y[output * feature_vectors + vector] = Vector::cast_from(sum);
                } else {
                    #[unroll]
                    for t in 0..LANES {
                        let sample = vector * LANES + t;
                        if sample < batch {
                            y[sample * outputs + output] =
                                Vector::new(F::cast_from(sum.extract(t)));
                        }
                    }
                }
            }
            first_row += CUBE_COUNT_X as usize * rows;
        }
        vector += CUBE_COUNT_Y as usize * config.vectors;
    }
}

/// What the device runs for a problem.
///
/// # Errors
///
/// If the device has no cubes of so many units.
pub(super) fn plan(problem: &SpmmProblem) -> Result<RowVector, RoutineError> {
    let client = &problem.x.client;
    check_units(client, SpmmRoutine::RowVector.name(), UNITS)?;
    let vectors = problem
        .batch()
        .div_ceil(LANES)
        .next_power_of_two()
        .min(VECTORS);
    Ok(RowVector {
        vectors,
        groups: (plane_reduction(client) as usize / vectors).max(1),
        packed: problem.packed,
        permuted: problem.slots.is_some(),
        biased: problem.bias.is_some(),
        turned: problem.writes_feature_major(LANES),
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
    let padded = problem.batch().next_multiple_of(LANES);
    let rows = UNITS as usize / (config.vectors * config.groups);
    let wanted = [
        problem.outputs().div_ceil(rows),
        (padded / LANES).div_ceil(config.vectors),
    ];
    let turned = to_feature_major(x, padded);
    let (y, vector) = match config.turned {
        true => (
            uninitialized_feature_major(x, problem.output_shape()),
            LANES,
        ),
        false => (uninitialized(x, problem.output_shape()), 1),
    };
    // SAFETY: rows and samples are bounded in the kernel; the index tensors come from a validated
    // pattern of the operands' shapes.
    unsafe {
        row_vector_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, wanted),
            CubeDim::new_1d(UNITS),
            address_type([values, &turned, &y]),
            LANES,
            vector,
            values.clone().into_tensor_arg(),
            offsets.clone().into_tensor_arg(),
            inputs.clone().into_tensor_arg(),
            slots.as_ref().unwrap_or(inputs).clone().into_tensor_arg(),
            turned.into_tensor_arg(),
            problem.bias.as_ref().unwrap_or(x).clone().into_tensor_arg(),
            y.clone().into_tensor_arg(),
            problem.batch(),
            padded / LANES,
            config,
            dtypes(x.dtype),
        );
    }
    Ok(y)
}
