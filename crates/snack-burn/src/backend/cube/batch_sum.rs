//! Sums over the batch: the gradient of a bias.
//!
//! Cubes add up blocks of samples, so that few features occupy the device as well; the sums of the blocks
//! are added by a second kernel.

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{address_type, dtypes, multiprocessors, scratch, strided_grid};
use super::parts;

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

/// `x`, `[batch, features]`, contiguous and not empty, summed over the batch: `[features]`.
pub(super) fn batch_sum(x: &CubeTensor) -> CubeTensor {
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
