//! A few lanes of a plane per output, as `row_plane`, with the dense operand in shared memory.
//!
//! Neighbouring entries of a row read features that are far apart. Out of the first-level cache a plane
//! gets two of those at a time, out of shared memory most of them at once. Cubes are just so large
//! that all multiprocessors have equally many rows, and each stages the operand while its first entries
//! are on their way.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SpmmProblem;
use crate::backend::cube::coordinates::{coordinate_word, decode_coordinate};
use crate::backend::cube::launch::{
    address_type, dtypes, grid, multiprocessors, plane_size, strided_grid, uninitialized,
};
use crate::backend::cube::staging::{Staging, load_features, store_all_features};
use crate::ops::{RoutineError, SpmmRoutine};

/// Entries that a lane has in flight.
const UNROLL: usize = 8;

/// Features that are staged for each entry at most, where the rule takes the routine.
const STAGED_PER_ENTRY: usize = 3;

/// What a variant of the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowStaged {
    /// Length of the staged operand, at least the number of features.
    features: usize,
    /// Features that a unit has in flight when it stages them.
    ahead: usize,
    /// Lanes that share a row, a power of two.
    lanes: usize,
    /// Rows of a cube.
    rows: usize,
    /// Whether coordinates are stored two to a word.
    packed: bool,
    /// Whether entries find their value through a permutation.
    permuted: bool,
    /// Whether a bias is added.
    biased: bool,
}

impl RowStaged {
    fn units(&self) -> usize {
        self.rows * self.lanes
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn row_staged_kernel<F: Float, A: Float, B: Size>(
    values: &Tensor<F>,
    offsets: &Tensor<u32>,
    inputs: &Tensor<u32>,
    slots: &Tensor<u32>,
    x: &Tensor<F>,
    bias: &Tensor<F>,
    y: &mut Tensor<F>,
    batch: usize,
    features: usize,
    #[comptime] config: RowStaged,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let lanes = comptime!(config.lanes);
    let units = comptime!(config.units());
    let ahead = comptime!(config.ahead);
    let tile = B::value();
    let outputs = offsets.len() - 1;
    let (member, lane) = (UNIT_POS as usize / lanes, UNIT_POS as usize % lanes);

    let mut staged = Shared::<[Vector<F, B>]>::new_slice(comptime!(config.features));
    let mut words = Array::<u32>::new(UNROLL);
    let mut loaded = Array::<F>::new(UNROLL);

    let output = CUBE_POS_X as usize * config.rows + member;
    // Teams without a row walk an empty one, so that all lanes meet at the plane operations.
    let mut begin = 0usize;
    let mut end = 0usize;
    if output < outputs {
        begin = offsets[output] as usize;
        end = offsets[output + 1] as usize;
    }
    let mut first_sample = CUBE_POS_Y as usize * tile;
    while first_sample < batch {
        let mut columns = Array::<Vector<F, B>>::new(ahead);
        load_features::<F, B>(
            x,
            &mut columns,
            0usize,
            batch,
            features,
            first_sample,
            units,
            ahead,
        );
        let mut entry = begin + lane;
        load_entries::<F>(
            values,
            inputs,
            slots,
            &mut words,
            &mut loaded,
            entry,
            end,
            config,
        );
        store_all_features::<F, B>(
            x,
            &mut columns,
            &mut staged,
            batch,
            features,
            first_sample,
            units,
            ahead,
        );
        sync_cube();

        let mut sum = Vector::<A, B>::new(A::new(0.0_f32));
        while entry < end {
            #[unroll]
            for u in 0..UNROLL {
                let distance = comptime!(u * config.lanes);
                if entry + distance < end {
                    let input = decode_coordinate(words[u], entry, distance, config.packed);
                    let column = Vector::<A, B>::cast_from(staged[input]);
                    sum = fma(Vector::new(A::cast_from(loaded[u])), column, sum);
                }
            }
            entry += comptime!(UNROLL * config.lanes);
            load_entries::<F>(
                values,
                inputs,
                slots,
                &mut words,
                &mut loaded,
                entry,
                end,
                config,
            );
        }
        #[unroll]
        for step in 0..comptime!(config.lanes.ilog2() as usize) {
            sum += plane_shuffle_xor(sum, comptime!((config.lanes >> (step + 1)) as u32));
        }
        if lane == 0 && output < outputs {
            let mut added = A::new(0.0_f32);
            if config.biased {
                added = A::cast_from(bias[output]);
            }
            #[unroll]
            for t in 0..tile {
                if first_sample + t < batch {
                    let result = F::cast_from(sum.extract(t) + added);
                    y[(first_sample + t) * outputs + output] = result;
                }
            }
        }
        // What is staged next must not meet those who still read.
        sync_cube();
        first_sample += CUBE_COUNT_Y as usize * tile;
    }
}

/// Loads the entries `entry`, `entry + lanes`, ... of a row that ends before `end`: nothing if `entry` lies
/// behind it.
#[cube]
#[allow(clippy::too_many_arguments)]
fn load_entries<F: Float>(
    values: &Tensor<F>,
    inputs: &Tensor<u32>,
    slots: &Tensor<u32>,
    words: &mut Array<u32>,
    loaded: &mut Array<F>,
    entry: usize,
    end: usize,
    #[comptime] config: RowStaged,
) {
    if entry < end {
        let last = values.len() - 1;
        #[unroll]
        for u in 0..UNROLL {
            let distance = comptime!(u * config.lanes);
            words[u] = coordinate_word(inputs, entry, distance, config.packed);
            if config.permuted {
                loaded[u] = values[slots[entry + distance] as usize];
            } else {
                loaded[u] = values[min(entry + distance, last)];
            }
        }
    }
}

/// What the device runs for a problem.
///
/// # Errors
///
/// If the device has no plane operations, or if not even one sample of the dense operand fits into
/// shared memory.
pub(super) fn plan(problem: &SpmmProblem) -> Result<(Staging, RowStaged), RoutineError> {
    let x = &problem.x;
    let routine = SpmmRoutine::RowStaged.name();
    let Some(plane) = plane_size(&x.client) else {
        return Err(RoutineError::MissingFeature {
            routine,
            needed: "plane operations on planes of one size".to_string(),
        });
    };
    let (features, element) = (x.meta.shape()[1], x.dtype.size());
    let mut staging = Staging::plan(
        &x.client,
        routine,
        problem.batch(),
        features,
        element,
        |_, _| 0,
    )?;
    let lanes = problem.nnz().div_ceil(problem.outputs() * UNROLL);
    let lanes = lanes.next_power_of_two().clamp(2, plane as usize);
    let most = staging.units as usize / lanes;
    let cubes = multiprocessors(&x.client);
    // Every multiprocessor has as many cubes as any other, and these as many rows.
    let cubes = cubes * problem.outputs().div_ceil(cubes * most);
    let rows = problem.outputs().div_ceil(cubes);
    let rows = rows.next_multiple_of(plane as usize / lanes).min(most);
    staging.units = (rows * lanes) as u32;
    let config = RowStaged {
        features: staging.features,
        ahead: staging.ahead(),
        lanes,
        rows,
        packed: problem.packed,
        permuted: problem.slots.is_some(),
        biased: problem.bias.is_some(),
    };
    Ok((staging, config))
}

/// Whether the routine suits the problem as those it was measured on: the multiprocessors hold all cubes at a
/// time, and what these stage is little beside their entries.
pub(super) fn pays(problem: &SpmmProblem) -> bool {
    plan(problem).is_ok_and(|(staging, config)| {
        let client = &problem.x.client;
        let passes = problem.batch().div_ceil(staging.tile);
        let cubes = problem.outputs().div_ceil(config.rows) * passes;
        let of_each = cubes.div_ceil(multiprocessors(client));
        // Two of the largest cubes, as far as is known.
        let units = 2 * client.properties().hardware.max_units_per_cube as usize;
        let staged = cubes * problem.x.meta.shape()[1];
        of_each * staging.bytes <= staging.limit
            && of_each * config.units() <= units
            && staged <= STAGED_PER_ENTRY * problem.nnz()
    })
}

pub(super) fn launch(problem: &SpmmProblem) -> Result<CubeTensor, RoutineError> {
    let (staging, config) = plan(problem)?;
    let SpmmProblem {
        values,
        x,
        offsets,
        inputs,
        slots,
        ..
    } = problem;
    let cubes = problem.outputs().div_ceil(config.rows);
    // Cubes stride over samples, but not over rows.
    grid(&x.client, SpmmRoutine::RowStaged.name(), [cubes, 1])?;
    let wanted = [cubes, problem.batch().div_ceil(staging.tile)];
    let y = uninitialized(x, problem.output_shape());
    // SAFETY: rows and samples are bounded in the kernel; the index tensors come from a validated
    // pattern of the operands' shapes.
    unsafe {
        row_staged_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, wanted),
            CubeDim::new_1d(staging.units),
            address_type([values, x, &y]),
            staging.tile,
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
