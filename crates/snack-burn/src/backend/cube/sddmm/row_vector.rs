//! Lanes along the batch: both operands are turned feature-major first, then a team of units walks
//! a row and each group of units multiplies the two vectors of an entry.
//!
//! A larger batch is cut into parts with cubes of their own, in the order of the parts, so that a
//! matrix of few rows fills the device and the cubes that run at once share a few samples of all
//! features, which the second-level cache holds.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SddmmProblem;
use super::parts::{add_parts, dtypes_with_sums, parts_allowed, sums_of_parts};
use crate::backend::cube::coordinates::{coordinate_word, decode_coordinate};
use crate::backend::cube::launch::{
    address_type, check_units, multiprocessors, plane_size, strided_grid,
};
use crate::backend::cube::transpose::to_feature_major;
use crate::ops::{RoutineError, SddmmRoutine};

/// Samples per vector.
const LANES: usize = 4;
/// Units per cube.
const UNITS: u32 = 256;
/// Entries that a group of units has in flight.
const UNROLL: usize = 8;
/// Units that walk a row together.
const TEAM: usize = 32;
/// Samples of a part of the batch: few enough for the second-level cache, enough that the end of
/// each dot product, where its units add their shares, costs little.
const PART: usize = 512;
/// Samples of a part where there would be too few cubes else: a vector for each unit of a team.
const SMALLEST_PART: usize = TEAM * LANES;
/// Cubes a multiprocessor that hide the latency of memory.
const CUBES: usize = 4;

/// What a variant of the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowVector {
    /// Units that share the two vectors of an entry, a power of two.
    vectors: usize,
    /// Whether coordinates are stored two to a word.
    packed: bool,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn row_vector_kernel<F: Float, A: Float, O: Float, V: Size>(
    y: &Tensor<Vector<F, V>>,
    x: &Tensor<Vector<F, V>>,
    offsets: &Tensor<u32>,
    cols: &Tensor<u32>,
    sums_of_parts: &mut Tensor<O>,
    nnz: usize,
    feature_vectors: usize,
    part_vectors: usize,
    #[comptime] config: RowVector,
    #[define(F, A, O)] _dtypes: [ElemType; 3],
) {
    let vectors = comptime!(config.vectors);
    let groups = comptime!(TEAM / config.vectors);
    let unroll = comptime!(UNROLL);
    let teams = CUBE_DIM as usize / TEAM;
    let unit = UNIT_POS as usize;
    let group = (unit % TEAM) / vectors;
    let lane = unit % vectors;
    let rows = offsets.len() - 1;
    let first_vector = CUBE_POS_Y as usize * part_vectors;
    let last_vector = min(first_vector + part_vectors, feature_vectors);
    let first_sum = CUBE_POS_Y as usize * nnz;

    let mut columns = Array::<usize>::new(unroll);
    let mut sums = Array::<Vector<A, V>>::new(unroll);

    let mut first_row = CUBE_POS_X as usize * teams;
    while first_row < rows {
        // Teams without a row walk an empty one, so that all lanes meet at the plane operations.
        let row = min(first_row + unit / TEAM, rows - 1);
        let mut end = offsets[row + 1] as usize;
        if first_row + unit / TEAM >= rows {
            end = 0usize;
        }
        let mut entry = offsets[row] as usize + group;
        let last_turn = end + group;
        while entry < last_turn {
            #[unroll]
            for u in 0..unroll {
                let ahead = comptime!(u * groups);
                let word = coordinate_word(cols, entry, ahead, config.packed);
                let col = decode_coordinate(word, entry, ahead, config.packed);
                columns[u] = col * feature_vectors;
                // What is no entry of the row reads one that is: no memory but the nearest cache.
                if comptime!(u > 0) && entry + ahead >= end {
                    columns[u] = columns[0];
                }
                sums[u] = Vector::new(A::new(0.0_f32));
            }
            let mut vector = first_vector + lane;
            while vector < last_vector {
                let grad = Vector::<A, V>::cast_from(y[row * feature_vectors + vector]);
                #[unroll]
                for u in 0..unroll {
                    let column = Vector::<A, V>::cast_from(x[columns[u] + vector]);
                    sums[u] = fma(grad, column, sums[u]);
                }
                vector += vectors;
            }
            #[unroll]
            for u in 0..unroll {
                let mut sum = sums[u].extract(0usize);
                #[unroll]
                for t in 1..LANES {
                    sum += sums[u].extract(t);
                }
                #[unroll]
                for step in 0..comptime!(vectors.ilog2() as usize) {
                    sum += plane_shuffle_xor(sum, comptime!(1u32 << step as u32));
                }
                let position = entry + comptime!(u * groups);
                if lane == 0 && position < end {
                    sums_of_parts[first_sum + position] = O::cast_from(sum);
                }
            }
            entry += unroll * groups;
        }
        first_row += CUBE_COUNT_X as usize * teams;
    }
}

/// What the device runs for a problem.
///
/// # Errors
///
/// If the device has no cubes of so many units.
pub(super) fn plan(problem: &SddmmProblem) -> Result<RowVector, RoutineError> {
    let client = &problem.x.client;
    check_units(client, SddmmRoutine::RowVector.name(), UNITS)?;
    let widest = match plane_size(client) {
        Some(plane) if (plane as usize).is_multiple_of(TEAM) => TEAM,
        _ => 1,
    };
    let vectors = problem.batch().div_ceil(LANES).next_power_of_two();
    Ok(RowVector {
        vectors: vectors.min(widest),
        packed: problem.packed,
    })
}

/// Vectors of a part of the batch, a multiple of the units that share an entry.
fn vectors_of_part(problem: &SddmmProblem, config: RowVector, cubes: usize) -> usize {
    let batch = problem.batch();
    let filled = (CUBES * multiprocessors(&problem.x.client)).div_ceil(cubes);
    let parts = (batch / PART)
        .max(filled.min(batch / SMALLEST_PART))
        .clamp(1, parts_allowed(problem));
    batch
        .div_ceil(LANES)
        .div_ceil(parts)
        .next_multiple_of(config.vectors)
}

pub(super) fn launch(problem: &SddmmProblem) -> Result<CubeTensor, RoutineError> {
    let config = plan(problem)?;
    let SddmmProblem {
        y,
        x,
        offsets,
        cols,
        ..
    } = problem;
    let padded = problem.batch().next_multiple_of(LANES);
    let rows = offsets.meta.num_elements() - 1;
    let cubes = rows.div_ceil(UNITS as usize / TEAM);
    let part_vectors = vectors_of_part(problem, config, cubes);
    let parts = (padded / LANES).div_ceil(part_vectors);
    let (y, x) = (to_feature_major(y, padded), to_feature_major(x, padded));
    let sums = sums_of_parts(problem, parts, true);
    // SAFETY: entries are bounded by their rows, vectors by their part and the batch, parts by the
    // grid; columns of entries past the end are those of the list's padding; the index tensors come
    // from a validated pattern of the operands' shapes.
    unsafe {
        row_vector_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, [cubes, parts]),
            CubeDim::new_1d(UNITS),
            address_type([&y, &x, &sums]),
            LANES,
            y.into_tensor_arg(),
            x.clone().into_tensor_arg(),
            offsets.clone().into_tensor_arg(),
            cols.clone().into_tensor_arg(),
            sums.clone().into_tensor_arg(),
            problem.nnz,
            padded / LANES,
            part_vectors,
            config,
            dtypes_with_sums(problem, &sums),
        );
    }
    Ok(add_parts(problem, sums))
}
