//! SNACK-COO, the paper's kernel: batch-to-multiprocessor mapping with atomic additions.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SpmmProblem;
use crate::backend::cube::coordinates::coordinate;
use crate::backend::cube::launch::{
    add_bias, address_type, adds_atomically, check_units, dtypes, grid, zeros,
};
use crate::ops::{RoutineError, SpmmRoutine};

/// Non-zeros per cube, `T` in the paper.
const CUBE_SIZE: u32 = 256;

/// Cube `(i, b)` owns the `i`-th chunk of non-zeros and sample `b` (SNACK, section 3.2).
#[cube(launch_unchecked, address_type = "dynamic")]
fn coo_atomic_kernel<F: Float>(
    values: &Tensor<F>,
    outputs: &Tensor<u32>,
    inputs: &Tensor<u32>,
    x: &Tensor<F>,
    y: &mut Tensor<Atomic<F>>,
    #[comptime] packed: bool,
    #[define(F)] _dtype: ElemType,
) {
    let slot = ABSOLUTE_POS_X as usize;
    let sample = CUBE_POS_Y as usize;
    if slot >= values.len() {
        terminate!();
    }
    let output = coordinate(outputs, slot, packed);
    let input = coordinate(inputs, slot, packed);
    let product = values[slot] * x[sample * x.stride(0) + input];
    let position = sample * y.stride(0) + output;
    y[position].fetch_add(product);
}

pub(super) fn launch(problem: &SpmmProblem) -> Result<CubeTensor, RoutineError> {
    let SpmmProblem {
        values, x, by_slot, ..
    } = problem;
    let [outputs, inputs] = by_slot
        .as_ref()
        .expect("the rows of slots are built for the routine that reads them");
    let routine = SpmmRoutine::CooAtomic.name();
    check_units(&x.client, routine, CUBE_SIZE)?;
    if !adds_atomically(&x.client, x.dtype) {
        return Err(RoutineError::MissingFeature {
            routine,
            needed: format!("atomic addition of {}", x.dtype.name()),
        });
    }
    let chunks = values.meta.num_elements().div_ceil(CUBE_SIZE as usize);
    let count = grid(&x.client, routine, [chunks, problem.batch()])?;
    let y = zeros(x, problem.output_shape());
    // SAFETY: slots are checked against the length; the index tensors come from a validated
    // pattern of the operands' shapes.
    unsafe {
        coo_atomic_kernel::launch_unchecked(
            &x.client,
            count,
            CubeDim::new_1d(CUBE_SIZE),
            address_type([values, x, &y]),
            values.clone().into_tensor_arg(),
            outputs.clone().into_tensor_arg(),
            inputs.clone().into_tensor_arg(),
            x.clone().into_tensor_arg(),
            y.clone().into_tensor_arg(),
            problem.packed,
            dtypes(x.dtype)[0],
        );
    }
    Ok(match &problem.bias {
        Some(bias) => add_bias(y, bias),
        None => y,
    })
}
