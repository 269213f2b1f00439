//! How much of a dense operand the cubes of a launch hold in shared memory.

use cubecl::client::Client;
use cubecl::prelude::*;

use super::launch::{batch_tile, multiprocessors};
use crate::ops::RoutineError;

/// Loads that a unit has in flight while it stages.
const LOADS: usize = 16;

/// Rows whose offsets a cube holds at a time.
pub(super) const ROWS: usize = 128;

/// Samples of a staged tile at most: one vector of 16 bytes in `f32`.
const SAMPLES: usize = 4;

/// Units per cube at most.
const UNITS: u32 = 1024;

/// A batch tile of a whole dense operand, or of sums as wide, in shared memory.
pub(super) struct Staging {
    /// Samples that a cube serves in one pass.
    pub tile: usize,
    /// Features that the shared memory is made for: the operand's and one more, rounded up so that
    /// few variants of a kernel are compiled.
    pub features: usize,
    /// Units per cube.
    pub units: u32,
    /// Bytes of shared memory that a cube needs.
    pub bytes: usize,
    /// Bytes of shared memory that a cube may have.
    pub limit: usize,
    multiprocessors: usize,
}

impl Staging {
    /// The widest tile of `features` elements of `element` bytes a sample that fits beside what
    /// `overhead(tile, units)` bytes need.
    ///
    /// # Errors
    ///
    /// If not even one sample fits.
    pub fn plan(
        client: &Client,
        routine: &'static str,
        batch: usize,
        features: usize,
        element: usize,
        overhead: impl Fn(usize, usize) -> usize,
    ) -> Result<Self, RoutineError> {
        let hardware = &client.properties().hardware;
        let units = hardware.max_units_per_cube.min(UNITS);
        let limit = hardware.max_shared_memory_size;
        let widest = batch_tile(batch).min(SAMPLES);
        let mut bytes = 0;
        for tile in [SAMPLES, 2, 1].into_iter().filter(|&tile| tile <= widest) {
            for step in [1024, 128, 16] {
                let features = (features + 1).next_multiple_of(step);
                bytes = features * tile * element + overhead(tile, units as usize);
                if bytes <= limit {
                    return Ok(Self {
                        tile,
                        features,
                        units,
                        bytes,
                        limit,
                        multiprocessors: multiprocessors(client),
                    });
                }
            }
        }
        Err(RoutineError::MissingFeature {
            routine,
            needed: format!("{bytes} bytes of shared memory for {features} features"),
        })
    }

    /// Features that a unit loads before it stores the first: as few rounds as registers allow.
    pub fn ahead(&self) -> usize {
        let features = self.features.div_ceil(self.units as usize);
        let rounds = (features * self.tile).div_ceil(LOADS);
        features.div_ceil(rounds)
    }

    /// Cubes over the rows of a matrix: as many as the device runs at once, one a multiprocessor.
    pub fn cubes(&self, rows: usize) -> usize {
        rows.min(self.multiprocessors)
    }
}

/// Loads a unit's share of the features `base ..` of the samples `first ..` of `x`,
/// `[batch, features]`, one vector per feature. Lanes of the tile beyond the batch repeat its last
/// sample.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn load_features<F: Float, B: Size>(
    x: &Tensor<F>,
    columns: &mut Array<Vector<F, B>>,
    base: usize,
    batch: usize,
    features: usize,
    first: usize,
    #[comptime] units: usize,
    #[comptime] ahead: usize,
) {
    #[unroll]
    for a in 0..ahead {
        let feature = UNIT_POS as usize + base + comptime!(a * units);
        if feature < features {
            let mut column = Vector::<F, B>::empty();
            #[unroll]
            for t in 0..B::value() {
                column.insert(t, x[min(first + t, batch - 1) * features + feature]);
            }
            columns[a] = column;
        }
    }
}

/// Stores what [`load_features`] loaded.
#[cube]
fn store_features<F: Float, B: Size>(
    columns: &mut Array<Vector<F, B>>,
    staged: &mut Shared<[Vector<F, B>]>,
    base: usize,
    features: usize,
    #[comptime] units: usize,
    #[comptime] ahead: usize,
) {
    #[unroll]
    for a in 0..ahead {
        let feature = UNIT_POS as usize + base + comptime!(a * units);
        if feature < features {
            staged[feature] = columns[a];
        }
    }
}

/// Stores what [`load_features`] loaded of the first features, and copies all others.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn store_all_features<F: Float, B: Size>(
    x: &Tensor<F>,
    columns: &mut Array<Vector<F, B>>,
    staged: &mut Shared<[Vector<F, B>]>,
    batch: usize,
    features: usize,
    first: usize,
    #[comptime] units: usize,
    #[comptime] ahead: usize,
) {
    store_features::<F, B>(columns, staged, 0usize, features, units, ahead);
    let mut base = 0usize;
    base += comptime!(ahead * units);
    while base < features {
        load_features::<F, B>(x, columns, base, batch, features, first, units, ahead);
        store_features::<F, B>(columns, staged, base, features, units, ahead);
        base += comptime!(ahead * units);
    }
}

/// Copies the offsets of the rows `first .. last`, [`ROWS`] of them at most, and the end of the last
/// of these. Nothing is copied where no rows are left.
#[cube]
pub(super) fn stage_offsets(
    offsets: &Tensor<u32>,
    starts: &mut Shared<[u32]>,
    first: usize,
    last: usize,
) {
    let mut row = UNIT_POS as usize;
    while row <= ROWS && first + row <= last && first < last {
        starts[row] = offsets[first + row];
        row += CUBE_DIM as usize;
    }
}

/// The part of a range of `total` that falls to a group: an even share of it.
#[cube]
pub(super) fn part_of_group(
    total: usize,
    group: usize,
    #[comptime] groups: usize,
) -> (usize, usize) {
    let part = total.div_ceil(groups);
    (min(total, part * group), min(total, part * (group + 1)))
}
