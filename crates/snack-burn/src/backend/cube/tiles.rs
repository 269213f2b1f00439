//! What the routines named `row_tile` share: tiles of a feature-major operand in shared memory.
//!
//! A tile holds some samples of a range of features. The entries of a row whose column lies in the
//! range are neighbours, since columns increase along a row, so a cube that owns a tile and a range
//! of rows reads each of its entries once and finds the dense operand at hand. Where the entries of
//! a row enter and leave a tile is found by a kernel of its own.

use burn::tensor::{DType, Shape};
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::client::Client;
use cubecl::prelude::*;

use super::coordinates::coordinate;
use super::launch::{address_type, check_units, multiprocessors, plane_reduction, strided_grid};
use crate::ops::RoutineError;

/// Samples per vector.
pub(super) const LANES: usize = 4;
/// Samples of a tile at most, where features would not all fit with more.
pub(super) const SAMPLES: usize = 32;
/// Units per cube at most.
const UNITS: u32 = 1024;
/// Units per cube of the kernels that search and transpose before.
const HELPER_UNITS: u32 = 256;
/// Features by which the memory of a tile is rounded up, so that few variants are compiled.
const FEATURES: usize = 64;

/// How a dense operand of `features` by `batch` is cut into tiles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiling {
    /// Samples of a tile, a multiple of [`LANES`].
    pub samples: usize,
    /// Features of a tile, a multiple of [`LANES`].
    pub width: usize,
    /// Tiles along the features.
    pub tiles: usize,
    /// Tiles along the batch.
    pub batch_tiles: usize,
    /// Cubes that the device runs at once.
    pub multiprocessors: usize,
    /// What the kernels are compiled for.
    pub shape: TileShape,
}

/// What a variant of a kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TileShape {
    /// Vectors of the shared memory.
    pub memory: usize,
    /// Vectors of samples of a tile.
    pub vectors: usize,
    /// Units that share the samples of an entry, a power of two.
    pub lanes: usize,
    /// Groups of so many units that share the entries of a row: all of a plane, or one.
    pub groups: usize,
    /// Units per cube.
    pub units: usize,
}

impl TileShape {
    /// Vectors of samples that a unit multiplies.
    pub const fn vectors_of_unit(&self) -> usize {
        self.vectors / self.lanes
    }

    /// Units that work on a row.
    pub const fn team(&self) -> usize {
        self.lanes * self.groups
    }
}

impl Tiling {
    /// As few tiles as fit, all but the last of the same width.
    ///
    /// Tiles have `most_samples` or fewer. `share` gives the lanes that share an entry of so many vectors, and whether the groups of a
    /// plane share a row.
    ///
    /// # Errors
    ///
    /// If the device has no shared memory for a tile of [`FEATURES`] features.
    pub fn plan(
        client: &Client,
        routine: &'static str,
        batch: usize,
        features: usize,
        element: usize,
        most_samples: usize,
        share: impl Fn(usize) -> (usize, bool),
    ) -> Result<Self, RoutineError> {
        let hardware = &client.properties().hardware;
        let plane = plane_reduction(client);
        check_units(client, routine, plane.max(HELPER_UNITS))?;
        let units = hardware.max_units_per_cube.min(UNITS) / plane * plane;
        let samples = batch.next_power_of_two().clamp(2 * LANES, most_samples);
        let vectors = samples / LANES;
        let widest = hardware.max_shared_memory_size / (samples * element) / FEATURES * FEATURES;
        // One feature of zeros lies behind those of a tile.
        let widest = widest.saturating_sub(LANES);
        if widest == 0 {
            return Err(RoutineError::MissingFeature {
                routine,
                needed: format!("{} bytes of shared memory", FEATURES * samples * element),
            });
        }
        let tiles = features.div_ceil(widest);
        let width = features.div_ceil(tiles).next_multiple_of(LANES);
        let (lanes, shared_rows) = share(vectors);
        let lanes = lanes.clamp(1, plane as usize);
        Ok(Self {
            samples,
            width,
            tiles,
            batch_tiles: batch.div_ceil(samples),
            multiprocessors: multiprocessors(client),
            shape: TileShape {
                memory: (width + 1).next_multiple_of(FEATURES) * vectors,
                vectors,
                lanes,
                groups: match shared_rows {
                    true => plane as usize / lanes,
                    false => 1,
                },
                units: units as usize,
            },
        })
    }
}

/// Where the entries of each row enter each tile, and leave the last: `[rows, tiles + 1]`.
pub(super) fn tile_ends(
    offsets: &CubeTensor,
    cols: &CubeTensor,
    packed: bool,
    tiling: &Tiling,
) -> CubeTensor {
    let rows = offsets.meta.num_elements() - 1;
    let length = rows * (tiling.tiles + 1);
    let (client, device) = (offsets.client.clone(), offsets.device.clone());
    let ends = empty_device_contiguous_dtype(client, device, Shape::new([length]), DType::U32);
    // SAFETY: positions are bounded by the output, entries by their rows.
    unsafe {
        tile_ends_kernel::launch_unchecked(
            &offsets.client,
            strided_grid(&offsets.client, [length.div_ceil(HELPER_UNITS as usize), 1]),
            CubeDim::new_1d(HELPER_UNITS),
            address_type([offsets, &ends]),
            offsets.clone().into_tensor_arg(),
            cols.clone().into_tensor_arg(),
            ends.clone().into_tensor_arg(),
            tiling.tiles,
            tiling.width,
            packed,
        );
    }
    ends
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn tile_ends_kernel(
    offsets: &Tensor<u32>,
    cols: &Tensor<u32>,
    ends: &mut Tensor<u32>,
    tiles: usize,
    width: usize,
    #[comptime] packed: bool,
) {
    let mut position = ABSOLUTE_POS;
    while position < ends.len() {
        let (row, tile) = (position / (tiles + 1), position % (tiles + 1));
        let mut low = offsets[row] as usize;
        let mut high = offsets[row + 1] as usize;
        if tile == 0 {
            high = low;
        } else if tile == tiles {
            low = high;
        }
        let bound = tile * width;
        // Three probes at once: the search waits for memory half as often.
        while low < high {
            let quarter = (high - low) / 4;
            let first = low + quarter;
            let second = first + (high - first) / 3;
            let third = second + (high - second) / 2;
            let at_first = coordinate(cols, first, packed);
            let at_second = coordinate(cols, second, packed);
            let at_third = coordinate(cols, third, packed);
            if at_first >= bound {
                high = first;
            } else if at_second >= bound {
                low = first + 1;
                high = second;
            } else if at_third >= bound {
                low = second + 1;
                high = third;
            } else {
                low = third + 1;
            }
        }
        ends[position] = low as u32;
        position += CUBE_COUNT * CUBE_DIM as usize;
    }
}

/// The place in an entry's vectors of vector number `v` of a unit. Neighbouring groups take theirs in
/// another order, so that they read different banks.
#[cube]
pub(super) fn vector_of_unit(
    v: usize,
    group: usize,
    lane: usize,
    #[comptime] shape: TileShape,
) -> usize {
    let own = comptime!(shape.vectors_of_unit());
    (v ^ (group % own)) * comptime!(shape.lanes) + lane
}

/// Makes the last feature of the memory zero.
#[cube]
pub(super) fn stage_zeros<F: Float, V: Size>(
    staged: &mut Shared<[Vector<F, V>]>,
    #[comptime] shape: TileShape,
) {
    if (UNIT_POS as usize) < shape.vectors {
        let place = comptime!(shape.memory - shape.vectors) + UNIT_POS as usize;
        staged[place] = Vector::new(F::new(0.0_f32));
    }
}

/// Copies the features `first .. first + count` of the vectors `first_vector ..` of a feature-major
/// operand, `[features, stride]` vectors.
#[cube]
pub(super) fn stage_features<F: Float, V: Size>(
    x: &Tensor<Vector<F, V>>,
    staged: &mut Shared<[Vector<F, V>]>,
    first: usize,
    count: usize,
    first_vector: usize,
    stride: usize,
    #[comptime] shape: TileShape,
) {
    let vectors = comptime!(shape.vectors);
    let units = comptime!(shape.units);
    let unroll = comptime!(8usize);
    let total = count * vectors;
    let mut loaded = Array::<Vector<F, V>>::new(unroll);
    let mut base = UNIT_POS as usize;
    while base < total {
        #[unroll]
        for u in 0..unroll {
            let place = base + comptime!(u * units);
            if place < total {
                let feature = first + place / vectors;
                loaded[u] = x[feature * stride + first_vector + place % vectors];
            }
        }
        #[unroll]
        for u in 0..unroll {
            let place = base + comptime!(u * units);
            if place < total {
                staged[place] = loaded[u];
            }
        }
        base += comptime!(unroll * units);
    }
}

/// Copies the features `first .. first + count` of the samples `first_sample ..` of a batch-major
/// operand, `[batch, features]`, and turns them; samples beyond the batch are zero. `first`, `count`
/// and `features` are multiples of the vector `Q`.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn stage_samples<F: Float, V: Size, Q: Size>(
    x: &Tensor<Vector<F, Q>>,
    staged: &mut Shared<[Vector<F, V>]>,
    first: usize,
    count: usize,
    features: usize,
    first_sample: usize,
    batch: usize,
    #[comptime] shape: TileShape,
) {
    let vectors = comptime!(shape.vectors);
    let units = comptime!(shape.units);
    let unroll = comptime!(2usize);
    let total = count / Q::value() * vectors;
    let stride = features / Q::value();
    let mut loaded = Array::<Vector<F, Q>>::new(comptime!(unroll * LANES));
    let mut base = UNIT_POS as usize;
    while base < total {
        #[unroll]
        for u in 0..unroll {
            let place = base + comptime!(u * units);
            let sample = first_sample + place % vectors * LANES;
            let column = first / Q::value() + place / vectors;
            #[unroll]
            for t in 0..LANES {
                let number = comptime!(u * LANES + t);
                loaded[number] = Vector::new(F::new(0.0_f32));
                if place < total && sample + t < batch {
                    loaded[number] = x[(sample + t) * stride + column];
                }
            }
        }
        #[unroll]
        for u in 0..unroll {
            let place = base + comptime!(u * units);
            if place < total {
                let feature = place / vectors * Q::value();
                #[unroll]
                for q in 0..Q::value() {
                    let mut samples = Vector::<F, V>::empty();
                    #[unroll]
                    for t in 0..LANES {
                        samples.insert(t, loaded[comptime!(u * LANES + t)].extract(q));
                    }
                    staged[(feature + q) * vectors + place % vectors] = samples;
                }
            }
        }
        base += comptime!(unroll * units);
    }
}
