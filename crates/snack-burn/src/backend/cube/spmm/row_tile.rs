//! Tiles of the feature-major operand in shared memory, one row at a time per group of lanes.
//!
//! A cube owns a range of rows and one tile of the operand, or all tiles one after the other where
//! the batch alone fills the device. The lanes of a group share the samples of each entry, so that
//! nothing has to be added across them. Sums of different tiles are added by a second kernel in a fixed
//! order, which also turns them batch-major and adds the bias. Where a feature-major output is wanted and
//! one cube adds all tiles, there is no second kernel.

use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SpmmProblem;
use crate::backend::cube::launch::{
    accumulation_dtype, address_type, dtypes, grid, scratch, strided_grid, uninitialized,
};
use crate::backend::cube::packs::{
    edge_entry, edge_turns, pack_coordinates, pack_of, pack_places, whole_packs, words_of_pack,
};
use crate::backend::cube::tiles::{
    LANES, SAMPLES, TileShape, Tiling, stage_features, stage_zeros, tile_ends, vector_of_unit,
};
use crate::backend::cube::transpose::{swap, to_feature_major};
use crate::ops::{RoutineError, SpmmRoutine};

/// Packs of entries that a group has in flight.
const UNROLL: usize = 4;
/// Units that share an entry at most.
const UNITS_OF_ENTRY: usize = 4;
/// Tiles along the batch up to which cubes own one tile each.
const FEW_BATCH_TILES: usize = 4;
/// Launches that may be added to the fewest, to occupy the device better.
const MORE_LAUNCHES: usize = 6;
/// What it costs to stage an element, in multiplications: shared memory serves six times as many
/// elements as a multiprocessor's share of the second-level cache.
const STAGING: f64 = 6.0;
/// What it costs to launch two kernels, in the same measure.
const LAUNCH: f64 = 5000.0;
/// Side of the square of sums that a cube of the second kernel turns.
const SIDE: usize = 32;
/// Rows of the square that it moves at a time.
const STEP: usize = 8;

/// What a variant of the kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RowTile {
    tile: TileShape,
    /// Entries beside whole packs that a group has in flight.
    edges: usize,
    /// Whether coordinates are stored two to a word.
    packed: bool,
    /// Whether the sums are the output, so that a bias is added to them.
    biased: bool,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn row_tile_kernel<F: Float, A: Float, S: Size, V: Size, C: Size>(
    values: &Tensor<Vector<F, V>>,
    single_values: &Tensor<F>,
    inputs: &Tensor<Vector<u32, C>>,
    single_inputs: &Tensor<u32>,
    ends: &Tensor<u32>,
    x: &Tensor<Vector<F, S>>,
    bias: &Tensor<F>,
    partial: &mut Tensor<Vector<A, S>>,
    outputs: usize,
    features: usize,
    width: usize,
    tiles: usize,
    parts: usize,
    first_vector: usize,
    first_sum: usize,
    operand_vectors: usize,
    sum_vectors: usize,
    #[comptime] config: RowTile,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let shape = comptime!(config.tile);
    let vectors = comptime!(shape.vectors);
    let lanes = comptime!(shape.lanes);
    let own = comptime!(shape.vectors_of_unit());

    let mut staged = Shared::<[Vector<F, S>]>::new_slice(comptime!(shape.memory));
    let unit = UNIT_POS as usize;
    let teams = CUBE_DIM as usize / lanes;
    let lane = unit % lanes;
    let mut shifts = Array::<usize>::new(own);
    #[unroll]
    for v in 0..own {
        shifts[v] = vector_of_unit(v, unit / lanes, lane, shape);
    }
    let share = outputs.div_ceil(CUBE_COUNT_X as usize);
    let first_row = CUBE_POS_X as usize * share;
    let last_row = min(first_row + share, outputs);
    let part = CUBE_POS_Y as usize % parts;
    let tile_vector = CUBE_POS_Y as usize / parts * vectors;

    let complete = single_values.len() / V::value();
    stage_zeros::<F, S>(&mut staged, shape);

    let mut tile = part;
    while tile < tiles {
        let first_feature = tile * width;
        let offset = 0usize - first_feature * vectors;
        // The column of entries that do not exist: a feature of zeros behind the tile.
        let nowhere = first_feature + comptime!(shape.memory / shape.vectors - 1);
        sync_cube();
        stage_features::<F, S>(
            x,
            &mut staged,
            first_feature,
            min(width, features - first_feature),
            first_vector + tile_vector,
            operand_vectors,
            shape,
        );
        sync_cube();
        let mut row = first_row + unit / lanes;
        let mut next = min(row, outputs - 1) * (tiles + 1) + tile;
        let mut next_begin = ends[next] as usize;
        let mut next_end = ends[next + 1] as usize;
        while row < last_row {
            let begin = next_begin;
            let end = next_end;
            next = min(row + teams, outputs - 1) * (tiles + 1) + tile;
            next_begin = ends[next] as usize;
            next_end = ends[next + 1] as usize;
            let mut sums = Array::<Vector<A, S>>::new(own);
            #[unroll]
            for v in 0..own {
                sums[v] = Vector::new(A::new(0.0_f32));
            }
            let (first, last) = whole_packs::<V>(begin, end, complete);
            let mut edge_values = Array::<F>::new(comptime!(config.edges.max(1)));
            let mut edge_places = Array::<usize>::new(comptime!(config.edges.max(1)));
            #[unroll]
            for e in 0..comptime!(config.edges) {
                let (value, column) = edge_entry::<F, V>(
                    single_values,
                    single_inputs,
                    e,
                    begin,
                    end,
                    first,
                    last,
                    nowhere,
                    config.packed,
                );
                edge_values[e] = value;
                edge_places[e] = column * vectors + offset;
            }
            let mut pack = first;
            while pack < last {
                add_packs::<F, A, S, V, C>(
                    values, inputs, &staged, &shifts, &mut sums, pack, last, offset, config,
                );
                pack += UNROLL;
            }
            #[unroll]
            for e in 0..comptime!(config.edges) {
                let value = Vector::new(A::cast_from(edge_values[e]));
                #[unroll]
                for v in 0..own {
                    let samples = staged[edge_places[e] + shifts[v]];
                    sums[v] = fma(value, Vector::cast_from(samples), sums[v]);
                }
            }
            #[unroll]
            for v in 0..own {
                let mut sum = sums[v];
                let vector = first_sum + tile_vector + shifts[v];
                let place = (part * outputs + row) * sum_vectors + vector;
                if tile != part {
                    sum += partial[place];
                } else if config.biased {
                    sum += Vector::new(A::cast_from(bias[row]));
                }
                partial[place] = sum;
            }
            row += teams;
        }
        tile += parts;
    }
}

/// Adds the products of the packs `first`, `first + 1`, ..., before `last`.
#[cube]
#[allow(clippy::too_many_arguments)]
fn add_packs<F: Float, A: Float, S: Size, V: Size, C: Size>(
    values: &Tensor<Vector<F, V>>,
    inputs: &Tensor<Vector<u32, C>>,
    staged: &Shared<[Vector<F, S>]>,
    shifts: &Array<usize>,
    sums: &mut Array<Vector<A, S>>,
    first: usize,
    last: usize,
    offset: usize,
    #[comptime] config: RowTile,
) {
    let shape = comptime!(config.tile);
    let own = comptime!(shape.vectors_of_unit());
    let mut words = Array::<Vector<u32, C>>::new(UNROLL);
    let mut loaded = Array::<Vector<F, V>>::new(UNROLL);
    #[unroll]
    for u in 0..UNROLL {
        let pack = min(first + u, last - 1);
        words[u] = pack_coordinates::<V, C>(inputs, pack, config.packed);
        loaded[u] = values[pack];
    }
    #[unroll]
    for u in 0..UNROLL {
        let pack = first + u;
        if pack < last {
            let mut places = Array::<usize>::new(V::value());
            let (stride, packed) = comptime!((shape.vectors, config.packed));
            pack_places::<V, C>(words[u], &mut places, pack, offset, stride, packed);
            #[unroll]
            for i in 0..V::value() {
                let value = Vector::<A, S>::new(A::cast_from(loaded[u].extract(i)));
                #[unroll]
                for v in 0..own {
                    let samples = staged[places[i] + shifts[v]];
                    sums[v] = fma(value, Vector::<A, S>::cast_from(samples), sums[v]);
                }
            }
        }
    }
}

/// Adds the sums of all parts, `[parts, outputs, samples]`, into the samples `first ..` of `y`,
/// `[batch, outputs]`, feature-major if `turned`.
#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn finish_kernel<F: Float, A: Float>(
    partial: &Tensor<A>,
    bias: &Tensor<F>,
    y: &mut Tensor<F>,
    outputs: usize,
    parts: usize,
    samples: usize,
    first: usize,
    count: usize,
    batch: usize,
    #[comptime] biased: bool,
    #[comptime] turned: bool,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    // One column more than needed, so that a column of the square lies in different banks.
    let mut square = Shared::<[A]>::new_slice(comptime!(SIDE * (SIDE + 1)));
    let (lane, step) = (UNIT_POS_X as usize, UNIT_POS_Y as usize);
    let mut sample = CUBE_POS_Y as usize * SIDE;
    while sample < count {
        let mut output = CUBE_POS_X as usize * SIDE;
        while output < outputs {
            #[unroll]
            for s in 0..comptime!(SIDE / STEP) {
                let row = step + s * STEP;
                let mut sum = A::new(0.0_f32);
                if output + row < outputs && sample + lane < count {
                    let mut part = 0usize;
                    while part < parts {
                        sum += partial[(part * outputs + output + row) * samples + sample + lane];
                        part += 1;
                    }
                    if biased {
                        sum += A::cast_from(bias[output + row]);
                    }
                    if turned {
                        y[(output + row) * batch + first + sample + lane] = F::cast_from(sum);
                    }
                }
                if !turned {
                    square[row * (SIDE + 1) + lane] = sum;
                }
            }
            if !turned {
                sync_cube();
                #[unroll]
                for s in 0..comptime!(SIDE / STEP) {
                    let row = step + s * STEP;
                    if output + lane < outputs && sample + row < count {
                        let sum = square[lane * (SIDE + 1) + row];
                        y[(first + sample + row) * outputs + output + lane] = F::cast_from(sum);
                    }
                }
                sync_cube();
            }
            output += CUBE_COUNT_X as usize * SIDE;
        }
        sample += CUBE_COUNT_Y as usize * SIDE;
    }
}

/// How the operand is cut.
///
/// # Errors
///
/// If no tile fits into shared memory.
pub(super) fn plan(problem: &SpmmProblem) -> Result<Tiling, RoutineError> {
    let x = &problem.x;
    let routine = SpmmRoutine::RowTile.name();
    Tiling::plan(
        &x.client,
        routine,
        problem.batch(),
        x.meta.shape()[1],
        x.dtype.size(),
        SAMPLES,
        |vectors| (vectors.min(UNITS_OF_ENTRY), false),
    )
}

/// How the batch is shared among launches, and a launch among cubes.
#[derive(Debug, Clone, Copy)]
struct Split {
    /// Parts of the features, which have sums of their own.
    parts: usize,
    /// Tiles along the batch that a launch has.
    batch_tiles: usize,
    /// Ranges of outputs.
    ranges: usize,
}

impl Split {
    /// `direct` if the sums are the output, so that they need no scratch.
    fn new(problem: &SpmmProblem, tiling: &Tiling, direct: bool) -> Self {
        let outputs = problem.outputs();
        let parts = match tiling.batch_tiles <= FEW_BATCH_TILES && !direct {
            true => tiling.tiles,
            false => 1,
        };
        let (_, axis, _) = problem.x.client.properties().hardware.max_cube_count;
        // Sums of part of the batch at a time, so that they stay within the bound of panels.
        let tile_bytes = parts * outputs * tiling.samples * size_of::<f32>();
        let most = match direct {
            true => axis as usize,
            false => problem.panel_bytes / tile_bytes,
        };
        let most = most.clamp(1, tiling.batch_tiles);
        if parts > 1 {
            let ranges = tiling.multiprocessors / (parts * most);
            return Self {
                parts,
                batch_tiles: most,
                ranges: ranges.clamp(1, outputs),
            };
        }
        let launches = tiling.batch_tiles.div_ceil(most);
        let splits = (launches..launches + MORE_LAUNCHES).flat_map(|launches| {
            let batch_tiles = tiling.batch_tiles.div_ceil(launches);
            let ranges = 1..=tiling.multiprocessors.min(outputs);
            ranges.map(move |ranges| Self {
                parts,
                batch_tiles,
                ranges,
            })
        });
        splits
            .min_by(|a, b| {
                let [a, b] = [a, b].map(|split| split.cost(problem, tiling));
                a.total_cmp(&b)
            })
            .expect("there is at least one output")
    }

    /// Of all launches, in multiplications of a multiprocessor per sample of a tile.
    fn cost(&self, problem: &SpmmProblem, tiling: &Tiling) -> f64 {
        let (outputs, shape) = (problem.outputs(), &tiling.shape);
        let launches = tiling.batch_tiles.div_ceil(self.batch_tiles);
        let waves = (self.batch_tiles * self.ranges).div_ceil(tiling.multiprocessors);
        // Teams wait for the slowest of them.
        let teams = shape.units / shape.lanes;
        let turns = outputs.div_ceil(self.ranges).div_ceil(teams);
        let entries = (turns * teams * problem.nnz()) as f64 / outputs as f64;
        let features = problem.x.meta.shape()[1] as f64;
        launches as f64 * (LAUNCH + waves as f64 * (STAGING * features + entries))
    }
}

pub(super) fn launch(problem: &SpmmProblem) -> Result<CubeTensor, RoutineError> {
    let routine = SpmmRoutine::RowTile.name();
    let tiling = plan(problem)?;
    let SpmmProblem {
        x, offsets, inputs, ..
    } = problem;
    let (batch, outputs, features) = (problem.batch(), problem.outputs(), x.meta.shape()[1]);
    let values = in_entry_order(problem);
    let pack = pack_of(&values);
    let turned = problem.writes_feature_major(1);
    let direct = problem.writes_feature_major(tiling.samples)
        && tiling.batch_tiles > FEW_BATCH_TILES
        && accumulation_dtype(x.dtype) == x.dtype;
    let config = RowTile {
        tile: tiling.shape,
        edges: edge_turns(pack, 1),
        packed: problem.packed,
        biased: direct && problem.bias.is_some(),
    };
    let Split {
        parts,
        batch_tiles,
        ranges,
    } = Split::new(problem, &tiling, direct);
    let padded = batch.next_multiple_of(tiling.samples);
    let samples = batch_tiles * tiling.samples;

    let ends = tile_ends(offsets, inputs, problem.packed, &tiling);
    let operand = to_feature_major(x, padded);
    let y = match turned {
        true => uninitialized(x, Shape::new([outputs, batch])),
        false => uninitialized(x, problem.output_shape()),
    };
    let (sums, sum_samples) = match direct {
        true => (y.clone(), batch),
        false => (scratch(x, Shape::new([parts, outputs, samples])), samples),
    };
    let bias = problem.bias.as_ref().unwrap_or(x);
    for first in (0..batch).step_by(samples) {
        let count = samples.min(batch - first);
        let cubes_y = parts * count.div_ceil(tiling.samples);
        let count_xy = grid(&x.client, routine, [ranges, cubes_y])?;
        // SAFETY: rows are bounded by the outputs, packs by the padded lists, samples by the padded
        // operand and sums; the index tensors come from a validated pattern.
        unsafe {
            row_tile_kernel::launch_unchecked(
                &x.client,
                count_xy,
                CubeDim::new_1d(tiling.shape.units as u32),
                address_type([&values, &operand, &sums]),
                LANES,
                pack,
                words_of_pack(pack, problem.packed),
                values.clone().into_tensor_arg(),
                values.clone().into_tensor_arg(),
                inputs.clone().into_tensor_arg(),
                inputs.clone().into_tensor_arg(),
                ends.clone().into_tensor_arg(),
                operand.clone().into_tensor_arg(),
                bias.clone().into_tensor_arg(),
                sums.clone().into_tensor_arg(),
                outputs,
                features,
                tiling.width,
                tiling.tiles,
                parts,
                first / LANES,
                if direct { first / LANES } else { 0 },
                padded / LANES,
                sum_samples / LANES,
                config,
                dtypes(x.dtype),
            );
        }
        if direct {
            continue;
        }
        let squares = [outputs.div_ceil(SIDE), count.div_ceil(SIDE)];
        // SAFETY: outputs and samples are bounded in the kernel.
        unsafe {
            finish_kernel::launch_unchecked(
                &x.client,
                strided_grid(&x.client, squares),
                CubeDim::new_2d(SIDE as u32, STEP as u32),
                address_type([&sums, &y]),
                sums.clone().into_tensor_arg(),
                bias.clone().into_tensor_arg(),
                y.clone().into_tensor_arg(),
                outputs,
                parts,
                samples,
                first,
                count,
                batch,
                problem.bias.is_some(),
                turned,
                dtypes(x.dtype),
            );
        }
    }
    Ok(match turned {
        true => swap(&y),
        false => y,
    })
}

/// The values in the order of the entries: a copy for the transposed product, where each value is
/// then read once and not once per tile.
fn in_entry_order(problem: &SpmmProblem) -> CubeTensor {
    match &problem.slots {
        None => problem.values.clone(),
        Some(slots) => CubeBackend::float_select(problem.values.clone(), 0, slots.clone()),
    }
}
