//! The second half of sums that cubes make in parts: adding the parts, always in the same order.

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::launch::{address_type, dtypes, strided_grid, uninitialized};

/// Units per cube.
const UNITS: u32 = 256;
/// Parts whose sums a unit has in flight.
const UNROLL: usize = 8;

/// The sums of all parts, `[parts, ..shape]` of the accumulation type, in the type of `like`.
pub(super) fn add(sums: CubeTensor, like: &CubeTensor, shape: Shape, parts: usize) -> CubeTensor {
    let out = uninitialized(like, shape);
    let count = out.meta.num_elements();
    // SAFETY: places are bounded by the output, parts by the sums.
    unsafe {
        add_parts_kernel::launch_unchecked(
            &like.client,
            strided_grid(&like.client, [count.div_ceil(UNITS as usize), 1]),
            CubeDim::new_1d(UNITS),
            address_type([&sums, &out]),
            sums.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            parts,
            dtypes(like.dtype),
        );
    }
    out
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn add_parts_kernel<F: Float, A: Float>(
    sums: &Tensor<A>,
    out: &mut Tensor<F>,
    parts: usize,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let count = out.len();
    let mut loaded = Array::<A>::new(UNROLL);
    let mut place = ABSOLUTE_POS;
    while place < count {
        let mut sum = A::new(0.0_f32);
        let mut part = 0usize;
        while part < parts {
            #[unroll]
            for u in 0..UNROLL {
                loaded[u] = sums[min(part + u, parts - 1) * count + place];
            }
            #[unroll]
            for u in 0..UNROLL {
                if part + u < parts {
                    sum += loaded[u];
                }
            }
            part += UNROLL;
        }
        out[place] = F::cast_from(sum);
        place += CUBE_COUNT * CUBE_DIM as usize;
    }
}
