//! The paper's sparse outer product: one unit per non-zero walks the batch (SNACK, appendix F).

use burn_cubecl::tensor::CubeTensor;
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::*;

use super::SddmmProblem;
use crate::backend::cube::coordinates::coordinate;
use crate::backend::cube::launch::{address_type, dtypes, uninitialized};
use crate::ops::RoutineError;

#[cube(launch_unchecked, address_type = "dynamic")]
fn outer_product_kernel<F: Float, A: Float>(
    y: &Tensor<F>,
    x: &Tensor<F>,
    rows: &Tensor<u32>,
    cols: &Tensor<u32>,
    out: &mut Tensor<F>,
    #[comptime] packed: bool,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let slot = ABSOLUTE_POS;
    if slot >= out.len() {
        terminate!();
    }
    let row = coordinate(rows, slot, packed);
    let col = coordinate(cols, slot, packed);
    let mut sum = A::new(0.0_f32);
    for sample in 0..x.shape(0) {
        let grad = A::cast_from(y[sample * y.stride(0) + row]);
        sum += grad * A::cast_from(x[sample * x.stride(0) + col]);
    }
    out[slot] = F::cast_from(sum);
}

pub(super) fn launch(problem: &SddmmProblem) -> Result<CubeTensor, RoutineError> {
    let SddmmProblem {
        y, x, rows, cols, ..
    } = problem;
    let dim = CubeDim::new(&x.client, problem.nnz);
    let out = uninitialized(x, problem.output_shape());
    // SAFETY: slots are checked against the length; the index tensors come from a validated
    // pattern of the operands' shapes.
    unsafe {
        outer_product_kernel::launch_unchecked(
            &x.client,
            calculate_cube_count_elemwise(&x.client, problem.nnz, dim),
            dim,
            address_type([y, x, &out]),
            y.clone().into_tensor_arg(),
            x.clone().into_tensor_arg(),
            rows.clone().into_tensor_arg(),
            cols.clone().into_tensor_arg(),
            out.clone().into_tensor_arg(),
            problem.packed,
            dtypes(x.dtype),
        );
    }
    Ok(out)
}
