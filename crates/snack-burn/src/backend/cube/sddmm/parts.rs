//! Sums over parts of the batch, so that a matrix of few rows occupies the device as well.
//!
//! Each part has sums of its own, which a second kernel adds in their order: the result does not
//! depend on timing.

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SddmmProblem;
use crate::backend::cube::launch::{
    accumulation_dtype, address_type, dtypes, scratch, strided_grid, uninitialized,
};

/// Units per cube of the second kernel.
const UNITS: u32 = 256;
/// Parts whose sums a unit has in flight.
const UNROLL: usize = 8;

/// Parts whose sums the scratch has room for and a grid may have on its second axis, at least one.
pub(super) fn parts_allowed(problem: &SddmmProblem) -> usize {
    let SddmmProblem { x, nnz, .. } = problem;
    let (_, axis, _) = x.client.properties().hardware.max_cube_count;
    let part = nnz * accumulation_dtype(x.dtype).size();
    (problem.panel_bytes / part).clamp(1, axis as usize)
}

/// The sums that the parts write, `[parts, nnz]`: the result itself where there is one part and
/// each sum is rounded `once`.
pub(super) fn sums_of_parts(problem: &SddmmProblem, parts: usize, once: bool) -> CubeTensor {
    let shape = Shape::new([parts * problem.nnz]);
    match parts == 1 && once {
        true => uninitialized(&problem.x, shape),
        false => scratch(&problem.x, shape),
    }
}

/// Element types of the operands, of what is computed in, and of the sums of parts.
pub(super) fn dtypes_with_sums(problem: &SddmmProblem, sums: &CubeTensor) -> [ElemType; 3] {
    let [operand, computed] = dtypes(problem.x.dtype);
    [operand, computed, dtypes(sums.dtype)[0]]
}

/// The result, from what [`sums_of_parts`] made and a kernel wrote.
pub(super) fn add_parts(problem: &SddmmProblem, sums: CubeTensor) -> CubeTensor {
    let SddmmProblem { x, nnz, .. } = problem;
    let parts = sums.meta.num_elements() / nnz;
    if parts == 1 && sums.dtype == x.dtype {
        return sums;
    }
    let out = uninitialized(x, problem.output_shape());
    // SAFETY: slots are bounded by the output, parts by the sums.
    unsafe {
        add_parts_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, [nnz.div_ceil(UNITS as usize), 1]),
            CubeDim::new_1d(UNITS),
            address_type([&sums, &out]),
            sums.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            parts,
            dtypes(x.dtype),
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
    let nnz = out.len();
    let mut loaded = Array::<A>::new(UNROLL);
    let mut slot = ABSOLUTE_POS;
    while slot < nnz {
        let mut sum = A::new(0.0_f32);
        let mut part = 0usize;
        while part < parts {
            #[unroll]
            for u in 0..UNROLL {
                loaded[u] = sums[min(part + u, parts - 1) * nnz + slot];
            }
            #[unroll]
            for u in 0..UNROLL {
                if part + u < parts {
                    sum += loaded[u];
                }
            }
            part += UNROLL;
        }
        out[slot] = F::cast_from(sum);
        slot += CUBE_COUNT * CUBE_DIM as usize;
    }
}
