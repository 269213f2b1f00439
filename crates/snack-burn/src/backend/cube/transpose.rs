//! Batch-major to feature-major and back, for routines whose lanes run along the batch.

use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{address_type, dtypes, strided_grid, uninitialized};

/// Side of the square that a cube turns at a time.
const SIDE: usize = 32;
/// Rows of the square that a cube moves at a time.
const STEP: usize = 8;

#[cube(launch_unchecked, address_type = "dynamic")]
fn transpose_kernel<F: Float>(
    x: &Tensor<F>,
    out: &mut Tensor<F>,
    batch: usize,
    features: usize,
    padded: usize,
    #[define(F)] _dtype: ElemType,
) {
    // One column more than needed, so that a column of the square lies in different banks.
    let mut square = Shared::<[F]>::new_slice(comptime!(SIDE * (SIDE + 1)));
    let (lane, step) = (UNIT_POS_X as usize, UNIT_POS_Y as usize);
    let mut sample = CUBE_POS_Y as usize * SIDE;
    while sample < padded {
        let mut feature = CUBE_POS_X as usize * SIDE;
        while feature < features {
            #[unroll]
            for s in 0..comptime!(SIDE / STEP) {
                let row = step + s * STEP;
                let mut value = F::new(0.0_f32);
                if sample + row < batch && feature + lane < features {
                    value = x[(sample + row) * features + feature + lane];
                }
                square[row * (SIDE + 1) + lane] = value;
            }
            sync_cube();
            #[unroll]
            for s in 0..comptime!(SIDE / STEP) {
                let row = step + s * STEP;
                if feature + row < features && sample + lane < padded {
                    out[(feature + row) * padded + sample + lane] = square[lane * (SIDE + 1) + row];
                }
            }
            sync_cube();
            feature += CUBE_COUNT_X as usize * SIDE;
        }
        sample += CUBE_COUNT_Y as usize * SIDE;
    }
}

/// The largest vector that routines load from a feature-major operand, in elements.
const VECTOR: usize = 4;

/// Whether `x`, `[batch, features]`, is a contiguous `[features, batch]` tensor with its axes swapped,
/// of more than one sample and feature, and begins where vectors do.
pub(super) fn is_feature_major(x: &CubeTensor) -> bool {
    let (batch, features) = (x.meta.shape()[0], x.meta.shape()[1]);
    let start = x.handle.offset_start.unwrap_or(0);
    batch > 1
        && features > 1
        && x.meta.strides()[..] == [1, batch]
        && start.is_multiple_of((VECTOR * x.dtype.size()) as u64)
}

/// The tensor as it is where it is feature-major, else contiguous.
pub(super) fn either_major(x: CubeTensor) -> CubeTensor {
    match is_feature_major(&x) {
        true => x,
        false => into_contiguous(x),
    }
}

/// The same matrix with its axes swapped, without a copy.
pub(super) fn swap(x: &CubeTensor) -> CubeTensor {
    CubeBackend::float_swap_dims(x.clone(), 0, 1)
}

/// A feature-major output of shape `[batch, features]` whose elements the kernel writes all.
pub(super) fn uninitialized_feature_major(like: &CubeTensor, shape: Shape) -> CubeTensor {
    swap(&uninitialized(like, Shape::new([shape[1], shape[0]])))
}

/// What [`either_major`] returned, contiguous.
pub(super) fn to_batch_major(x: &CubeTensor) -> CubeTensor {
    match is_feature_major(x) {
        true => turn(&swap(x), x.meta.shape()[1]),
        false => x.clone(),
    }
}

/// What [`either_major`] returned, `[batch, features]`, as a contiguous `[features, padded]`; samples beyond
/// the batch are zero. No copy if it is feature-major and needs no samples more.
pub(super) fn to_feature_major(x: &CubeTensor, padded: usize) -> CubeTensor {
    match (is_feature_major(x), padded == x.meta.shape()[0]) {
        (true, true) => swap(x),
        (true, false) => turn(&to_batch_major(x), padded),
        (false, _) => turn(x, padded),
    }
}

/// A contiguous `[batch, features]` as `[features, padded]`.
fn turn(x: &CubeTensor, padded: usize) -> CubeTensor {
    let features = x.meta.shape()[1];
    let out = uninitialized(x, Shape::new([features, padded]));
    let wanted = [features.div_ceil(SIDE), padded.div_ceil(SIDE)];
    // SAFETY: both sides are bounded in the kernel.
    unsafe {
        transpose_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, wanted),
            CubeDim::new_2d(SIDE as u32, STEP as u32),
            address_type([x, &out]),
            x.clone().into_tensor_arg(),
            out.clone().into_tensor_arg(),
            x.meta.shape()[0],
            features,
            padded,
            dtypes(x.dtype)[0],
        );
    }
    out
}
