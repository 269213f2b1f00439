//! A cube owns a range of rows and stages the dense operand in shared memory.
//!
//! The non-zeros of the range are cut evenly over the cube's groups of lanes, so that a long row is
//! shared and short ones are not waited for. A group writes the rows that begin in its part and
//! hands over the head of its part, which continues a row of the group before; heads are added in
//! order, so the result does not depend on timing.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SpmmProblem;
use crate::backend::cube::coordinates::row_of;
use crate::backend::cube::launch::{
    address_type, dtypes, plane_reduction, strided_grid, uninitialized,
};
use crate::backend::cube::packs::{
    PACK, edge_entry, edge_turns, pack_coordinates, pack_places, whole_packs, words_of_pack,
};
use crate::backend::cube::staging::{
    ROWS, Staging, load_features, part_of_group, stage_offsets, store_all_features,
};
use crate::ops::{RoutineError, SpmmRoutine};

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
    /// Entries beside whole packs that a unit has in flight.
    pub edges: usize,
    /// Features that a unit has in flight when it stages them.
    pub ahead: usize,
    /// Whether coordinates are stored two to a word.
    pub packed: bool,
    /// Whether entries find their value through a permutation.
    pub permuted: bool,
    /// Whether a bias is added.
    pub biased: bool,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn row_block_kernel<F: Float, A: Float, B: Size, V: Size, C: Size>(
    values: &Tensor<Vector<F, V>>,
    single_values: &Tensor<F>,
    offsets: &Tensor<u32>,
    inputs: &Tensor<Vector<u32, C>>,
    single_inputs: &Tensor<u32>,
    slots: &Tensor<u32>,
    x: &Tensor<F>,
    bias: &Tensor<F>,
    y: &mut Tensor<F>,
    batch: usize,
    features: usize,
    #[comptime] config: RowBlock,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let lanes = comptime!(config.lanes as usize);
    let groups = comptime!(config.groups);
    let unroll = comptime!(config.unroll);
    let ahead = comptime!(config.ahead);
    let step = comptime!(config.lanes as usize * config.unroll);
    let tile = B::value();

    let mut staged = Shared::<[Vector<F, B>]>::new_slice(comptime!(config.features));
    let mut starts = Shared::<[u32]>::new_slice(comptime!(ROWS + 1));
    let mut sums = Shared::<[Vector<A, B>]>::new_slice(ROWS);
    let mut heads = Shared::<[Vector<A, B>]>::new_slice(groups);
    let mut head_rows = Shared::<[u32]>::new_slice(groups);

    let unit = UNIT_POS as usize;
    let units = CUBE_DIM as usize;
    let (group, lane) = (unit / lanes, unit % lanes);
    let outputs = offsets.len() - 1;
    let share = outputs.div_ceil(CUBE_COUNT_X as usize);
    let first_output = CUBE_POS_X as usize * share;
    let last_output = min(first_output + share, outputs);
    let complete = single_values.len() / V::value();

    let mut first_sample = CUBE_POS_Y as usize * tile;
    while first_sample < batch {
        let mut first_row = first_output;
        stage_offsets(offsets, &mut starts, first_row, last_output);
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
        // Where entries that do not exist point: a feature of zeros behind the others.
        if unit == 0 {
            staged[comptime!(config.features - 1)] = Vector::new(F::new(0.0_f32));
        }
        while first_row < last_output {
            let rows = min(ROWS, last_output - first_row);
            let block_begin = offsets[first_row] as usize;
            let block = offsets[first_row + rows] as usize - block_begin;
            let (part_begin, part_end) = part_of_group(block, group, groups);
            let part_begin = block_begin + part_begin;
            let part_end = block_begin + part_end;
            // The first packs are on their way while the operand is staged.
            let mut words = Array::<Vector<u32, C>>::new(unroll);
            let mut loaded = Array::<Vector<F, V>>::new(unroll);
            let mut ready = true;
            load_packs::<F, V, C>(
                values,
                single_values,
                slots,
                inputs,
                &mut words,
                &mut loaded,
                part_begin.div_ceil(V::value()) + lane,
                complete - 1,
                config,
            );
            if first_row == first_output {
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
                sums[row] = Vector::new(A::new(0.0_f32));
                row += units;
            }
            if lane == 0 {
                head_rows[group] = ROWS as u32;
            }
            sync_cube();

            let mut row = row_of(&starts, rows, part_begin as u32);
            while row < rows && (starts[row] as usize) < part_end {
                let row_begin = starts[row] as usize;
                let begin = max(row_begin, part_begin);
                let end = min(starts[row + 1] as usize, part_end);
                let mut sum = Vector::<A, B>::new(A::new(0.0_f32));
                let (first, last) = whole_packs::<V>(begin, end, complete);
                let mut edge_values = Array::<F>::new(comptime!(config.edges.max(1)));
                let mut edge_columns = Array::<usize>::new(comptime!(config.edges.max(1)));
                #[unroll]
                for e in 0..comptime!(config.edges) {
                    let (value, column) = edge_entry::<F, V>(
                        single_values,
                        single_inputs,
                        lane + e * lanes,
                        begin,
                        end,
                        first,
                        last,
                        comptime!(config.features - 1),
                        config.packed,
                    );
                    edge_values[e] = value;
                    edge_columns[e] = column;
                }
                let mut pack = first;
                while pack < last {
                    if !ready {
                        load_packs::<F, V, C>(
                            values,
                            single_values,
                            slots,
                            inputs,
                            &mut words,
                            &mut loaded,
                            pack + lane,
                            last - 1,
                            config,
                        );
                    }
                    ready = false;
                    sum = add_packs::<F, A, B, V, C>(
                        &words,
                        &loaded,
                        &staged,
                        sum,
                        pack + lane,
                        last,
                        config,
                    );
                    pack += step;
                }
                ready = false;
                #[unroll]
                for e in 0..comptime!(config.edges) {
                    let value = Vector::new(A::cast_from(edge_values[e]));
                    sum = fma(value, Vector::cast_from(staged[edge_columns[e]]), sum);
                }
                sum = plane_total::<A, B>(sum, config.lanes);
                if lane == 0 {
                    if row_begin < part_begin {
                        heads[group] = sum;
                        head_rows[group] = row as u32;
                    } else {
                        sums[row] = sum;
                    }
                }
                row += 1;
            }
            sync_cube();

            if unit < groups {
                let row = head_rows[unit];
                let first = row < ROWS as u32 && (unit == 0 || head_rows[max(unit, 1) - 1] != row);
                if first {
                    let mut sum = sums[row as usize];
                    let mut next = unit;
                    while next < groups && head_rows[min(next, groups - 1)] == row {
                        sum += heads[next];
                        next += 1;
                    }
                    sums[row as usize] = sum;
                }
            }
            sync_cube();

            let mut position = unit;
            while position < rows * tile {
                let (t, row) = (position / rows, position % rows);
                if first_sample + t < batch {
                    let mut sum = sums[row].extract_dynamic(t);
                    if config.biased {
                        sum += A::cast_from(bias[first_row + row]);
                    }
                    y[(first_sample + t) * outputs + first_row + row] = F::cast_from(sum);
                }
                position += units;
            }
            first_row += ROWS;
            stage_offsets(offsets, &mut starts, first_row, last_output);
            sync_cube();
        }
        first_sample += CUBE_COUNT_Y as usize * tile;
    }
}

/// Loads the packs `first`, `first + lanes`, ..., and the last one in place of those behind it.
#[cube]
#[allow(clippy::too_many_arguments)]
fn load_packs<F: Float, V: Size, C: Size>(
    values: &Tensor<Vector<F, V>>,
    single_values: &Tensor<F>,
    slots: &Tensor<u32>,
    inputs: &Tensor<Vector<u32, C>>,
    words: &mut Array<Vector<u32, C>>,
    loaded: &mut Array<Vector<F, V>>,
    first: usize,
    last: usize,
    #[comptime] config: RowBlock,
) {
    #[unroll]
    for u in 0..comptime!(config.unroll) {
        let pack = min(first + comptime!(u * config.lanes as usize), last);
        words[u] = pack_coordinates::<V, C>(inputs, pack, config.packed);
        if config.permuted {
            loaded[u] = Vector::new(single_values[slots[pack] as usize]);
        } else {
            loaded[u] = values[pack];
        }
    }
}

/// Adds to a unit's sum the products of the packs `first`, `first + lanes`, ..., before `last`.
#[cube]
fn add_packs<F: Float, A: Float, B: Size, V: Size, C: Size>(
    words: &Array<Vector<u32, C>>,
    loaded: &Array<Vector<F, V>>,
    staged: &Shared<[Vector<F, B>]>,
    sum: Vector<A, B>,
    first: usize,
    last: usize,
    #[comptime] config: RowBlock,
) -> Vector<A, B> {
    let mut total = sum;
    #[unroll]
    for u in 0..comptime!(config.unroll) {
        let pack = first + comptime!(u * config.lanes as usize);
        if pack < last {
            let mut places = Array::<usize>::new(V::value());
            let packed = config.packed;
            pack_places::<V, C>(words[u], &mut places, pack, 0usize, 1usize, packed);
            #[unroll]
            for i in 0..V::value() {
                let column = Vector::<A, B>::cast_from(staged[places[i]]);
                let value = A::cast_from(loaded[u].extract(i));
                total = fma(Vector::new(value), column, total);
            }
        }
    }
    total
}

/// The sum over the lanes of a plane, or the unit's own where planes are not used.
#[cube]
fn plane_total<A: Float, B: Size>(sum: Vector<A, B>, #[comptime] lanes: u32) -> Vector<A, B> {
    let mut total = sum;
    #[unroll]
    for step in 0..comptime!(lanes.ilog2() as usize) {
        total += plane_shuffle_xor(total, comptime!(lanes >> (step as u32 + 1)));
    }
    total
}

/// What the device runs for a problem.
///
/// # Errors
///
/// If not even one sample of the dense operand fits into shared memory.
pub(super) fn plan(problem: &SpmmProblem) -> Result<(Staging, RowBlock), RoutineError> {
    let x = &problem.x;
    let routine = SpmmRoutine::RowBlock.name();
    let lanes = plane_reduction(&x.client);
    let (features, element) = (x.meta.shape()[1], x.dtype.size());
    let word = size_of::<u32>();
    let staging = Staging::plan(
        &x.client,
        routine,
        problem.batch(),
        features,
        element,
        |tile, units| {
            let sum = tile * element.max(word) + word;
            (ROWS + units / lanes as usize) * sum + word
        },
    )?;
    let config = RowBlock {
        features: staging.features,
        lanes,
        units: staging.units as usize,
        groups: staging.units as usize / lanes as usize,
        unroll: if problem.pack() == PACK { 2 } else { 4 },
        ahead: staging.ahead(),
        edges: edge_turns(problem.pack(), lanes as usize),
        packed: problem.packed,
        permuted: problem.slots.is_some(),
        biased: problem.bias.is_some(),
    };
    Ok((staging, config))
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
    let y = uninitialized(x, problem.output_shape());
    // SAFETY: entries are bounded by their rows, samples by the batch; the index tensors come from
    // a validated pattern of the operands' shapes.
    unsafe {
        row_block_kernel::launch_unchecked(
            &x.client,
            strided_grid(
                &x.client,
                [
                    staging.cubes(problem.outputs()),
                    problem.batch().div_ceil(staging.tile),
                ],
            ),
            CubeDim::new_1d(staging.units),
            address_type([values, x, &y]),
            staging.tile,
            problem.pack(),
            words_of_pack(problem.pack(), problem.packed),
            values.clone().into_tensor_arg(),
            values.clone().into_tensor_arg(),
            offsets.clone().into_tensor_arg(),
            inputs.clone().into_tensor_arg(),
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
