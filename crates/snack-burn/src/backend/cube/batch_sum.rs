//! Sums over the batch: the gradient of a bias.
//!
//! Cubes add up blocks of samples, so that few features occupy the device as well; the sums of the blocks
//! are added by a second kernel.

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{address_type, dtypes, multiprocessors, scratch, strided_grid, uninitialized};
use super::parts;
use super::transpose::{is_feature_major, swap};

/// Units per cube, one feature each.
const UNITS: usize = 256;
/// Samples that a unit has in flight.
const AHEAD: usize = 8;
/// Samples of a block at least.
const LEAST: usize = 32;
/// Cubes that a multiprocessor has at a time.
const CUBES: usize = 8;

#[cube(launch_unchecked, address_type = "dynamic")]
fn batch_sum_kernel<F: Float, A: Float>(
    x: &Tensor<F>,
    sums: &mut Tensor<A>,
    batch: usize,
    features: usize,
    block: usize,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let blocks = batch.div_ceil(block);
    let mut loaded = Array::<A>::new(AHEAD);
    let mut index = CUBE_POS_Y as usize;
    while index < blocks {
        let last = min(batch, (index + 1) * block);
        let mut feature = CUBE_POS_X as usize * CUBE_DIM as usize + UNIT_POS as usize;
        while feature < features {
            let mut sum = A::new(0.0_f32);
            let mut sample = index * block;
            while sample < last {
                #[unroll]
                for a in 0..AHEAD {
                    let place = min(sample + a, last - 1) * features + feature;
                    loaded[a] = A::cast_from(x[place]);
                }
                #[unroll]
                for a in 0..AHEAD {
                    if sample + a < last {
                        sum += loaded[a];
                    }
                }
                sample += AHEAD;
            }
            sums[index * features + feature] = sum;
            feature += CUBE_COUNT_X as usize * CUBE_DIM as usize;
        }
        index += CUBE_COUNT_Y as usize;
    }
}

/// `x`, `[features, batch]`: a cube per feature, whose units add every so many-th sample and then halve
/// their number of sums.
#[cube(launch_unchecked, address_type = "dynamic")]
fn row_sum_kernel<F: Float, A: Float>(
    x: &Tensor<F>,
    sums: &mut Tensor<F>,
    batch: usize,
    #[comptime] units: usize,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let mut shared = Shared::<[A]>::new_slice(units);
    let mut loaded = Array::<A>::new(AHEAD);
    let unit = UNIT_POS as usize;
    let mut feature = CUBE_POS_X as usize;
    while feature < sums.len() {
        let first = feature * batch;
        let mut sum = A::new(0.0_f32);
        let mut sample = unit;
        while sample < batch {
            #[unroll]
            for a in 0..AHEAD {
                let place = min(sample + comptime!(a * units), batch - 1);
                loaded[a] = A::cast_from(x[first + place]);
            }
            #[unroll]
            for a in 0..AHEAD {
                if sample + comptime!(a * units) < batch {
                    sum += loaded[a];
                }
            }
            sample += comptime!(AHEAD * units);
        }
        shared[unit] = sum;
        #[unroll]
        for half in 0..comptime!(units.ilog2() as usize) {
            let width = comptime!(units >> (half + 1));
            sync_cube();
            if unit < width {
                let other = shared[unit + width];
                shared[unit] += other;
            }
        }
        sync_cube();
        if unit == 0 {
            sums[feature] = F::cast_from(shared[0]);
        }
        sync_cube();
        feature += CUBE_COUNT_X as usize;
    }
}

/// `x`, `[batch, features]`, contiguous or feature-major and not empty, summed over the batch:
/// `[features]`.
pub(super) fn batch_sum(x: &CubeTensor) -> CubeTensor {
    match is_feature_major(x) {
        true => sums_of_rows(&swap(x)),
        false => sums_of_columns(x),
    }
}

fn sums_of_rows(x: &CubeTensor) -> CubeTensor {
    let (features, batch) = (x.meta.shape()[0], x.meta.shape()[1]);
    let most = x.client.properties().hardware.max_units_per_cube;
    let units = (UNITS as u32).min(1 << most.max(1).ilog2());
    let sums = uninitialized(x, Shape::new([features]));
    // SAFETY: features and samples are bounded in the kernel, which writes all sums.
    unsafe {
        row_sum_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, [features, 1]),
            CubeDim::new_1d(units),
            address_type([x, &sums]),
            x.clone().into_tensor_arg(),
            sums.clone().into_tensor_arg(),
            batch,
            units as usize,
            dtypes(x.dtype),
        );
    }
    sums
}

fn sums_of_columns(x: &CubeTensor) -> CubeTensor {
    let (batch, features) = (x.meta.shape()[0], x.meta.shape()[1]);
    let most = x.client.properties().hardware.max_units_per_cube as usize;
    let units = UNITS.min(most);
    let columns = features.div_ceil(units);
    let wanted = (CUBES * multiprocessors(&x.client)).div_ceil(columns);
    let block = batch.div_ceil(wanted).max(LEAST);
    let blocks = batch.div_ceil(block);
    let sums = scratch(x, Shape::new([blocks, features]));
    // SAFETY: samples and features are bounded in the kernel, which writes all sums.
    unsafe {
        batch_sum_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, [columns, blocks]),
            CubeDim::new_1d(units as u32),
            address_type([x, &sums]),
            x.clone().into_tensor_arg(),
            sums.clone().into_tensor_arg(),
            batch,
            features,
            block,
            dtypes(x.dtype),
        );
    }
    parts::add(sums, x, Shape::new([features]), blocks)
}
