//! Lanes along the batch: both operands are turned feature-major first, then a team of units walks
//! a row and each group of units multiplies the two vectors of an entry.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SddmmProblem;
use crate::backend::cube::coordinates::{coordinate_word, decode_coordinate};
use crate::backend::cube::launch::{
    address_type, check_units, dtypes, plane_size, strided_grid, uninitialized,
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

/// What a variant of the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowVector {
    /// Units that share the two vectors of an entry, a power of two.
    vectors: usize,
    /// Whether coordinates are stored two to a word.
    packed: bool,
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn row_vector_kernel<F: Float, A: Float, V: Size>(
    y: &Tensor<Vector<F, V>>,
    x: &Tensor<Vector<F, V>>,
    offsets: &Tensor<u32>,
    cols: &Tensor<u32>,
    out: &mut Tensor<F>,
    feature_vectors: usize,
    #[comptime] config: RowVector,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let vectors = comptime!(config.vectors);
    let groups = comptime!(TEAM / config.vectors);
    let unroll = comptime!(UNROLL);
    let teams = CUBE_DIM as usize / TEAM;
    let unit = UNIT_POS as usize;
    let group = (unit % TEAM) / vectors;
    let lane = unit % vectors;
    let rows = offsets.len() - 1;

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
                sums[u] = Vector::new(A::new(0.0_f32));
            }
            let mut vector = lane;
            while vector < feature_vectors {
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
                    out[position] = F::cast_from(sum);
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
    let (y, x) = (to_feature_major(y, padded), to_feature_major(x, padded));
    let out = uninitialized(&x, problem.output_shape());
    // SAFETY: entries are bounded by their rows; columns of entries past the end are those of the
    // list's padding; the index tensors come from a validated pattern of the operands' shapes.
    unsafe {
        row_vector_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, [rows.div_ceil(UNITS as usize / TEAM), 1]),
            CubeDim::new_1d(UNITS),
            address_type([&y, &x, &out]),
            LANES,
            y.into_tensor_arg(),
            x.clone().into_tensor_arg(),
            offsets.clone().into_tensor_arg(),
            cols.clone().into_tensor_arg(),
            out.clone().into_tensor_arg(),
            padded / LANES,
            config,
            dtypes(x.dtype),
        );
    }
    Ok(out)
}
