//! One cube per row: the row's column of `Y` is staged in shared memory, tile by tile of the
//! batch, and reused by all non-zeros of the row.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SddmmProblem;
use crate::backend::cube::launch::{
    address_type, check_units, dtypes, strided_grid, uninitialized,
};
use crate::ops::{RoutineError, SddmmRoutine};

/// Units per cube: non-zeros handled together, and samples staged together.
const CUBE_SIZE: u32 = 64;

#[cube(launch_unchecked, address_type = "dynamic")]
fn row_staged_kernel<F: Float, A: Float>(
    y: &Tensor<F>,
    x: &Tensor<F>,
    offsets: &Tensor<i32>,
    cols: &Tensor<i32>,
    out: &mut Tensor<F>,
    #[comptime] tile: usize,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let batch = x.shape(0);
    let rows = offsets.len() - 1;
    let unit = UNIT_POS as usize;
    let mut staged = Shared::<[A]>::new_slice(tile);

    let mut row = CUBE_POS_X as usize;
    while row < rows {
        let end = usize::cast_from(offsets[row + 1]);
        let mut first_slot = usize::cast_from(offsets[row]);
        while first_slot < end {
            let slot = first_slot + unit;
            let active = slot < end;
            // Idle units repeat the last non-zero, so that every unit meets every barrier.
            let col = usize::cast_from(cols[min(slot, end - 1)]);
            let mut sum = A::new(0.0_f32);
            let mut first = 0usize;
            while first < batch {
                if first + unit < batch {
                    staged[unit] = A::cast_from(y[(first + unit) * y.stride(0) + row]);
                }
                sync_cube();
                for t in 0..min(tile, batch - first) {
                    sum += staged[t] * A::cast_from(x[(first + t) * x.stride(0) + col]);
                }
                sync_cube();
                first += tile;
            }
            if active {
                out[slot] = F::cast_from(sum);
            }
            first_slot += tile;
        }
        row += CUBE_COUNT_X as usize;
    }
}

pub(super) fn launch(problem: &SddmmProblem) -> Result<CubeTensor, RoutineError> {
    let SddmmProblem {
        y,
        x,
        offsets,
        cols,
        ..
    } = problem;
    check_units(&x.client, SddmmRoutine::RowStaged.name(), CUBE_SIZE)?;
    let rows = offsets.meta.num_elements() - 1;
    let out = uninitialized(x, problem.output_shape());
    // SAFETY: slots are bounded by the row's end, samples by the batch; the index tensors come
    // from a validated pattern of the operands' shapes.
    unsafe {
        row_staged_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, [rows, 1]),
            CubeDim::new_1d(CUBE_SIZE),
            address_type([y, x, &out]),
            y.clone().into_tensor_arg(),
            x.clone().into_tensor_arg(),
            offsets.clone().into_tensor_arg(),
            cols.clone().into_tensor_arg(),
            out.clone().into_tensor_arg(),
            CUBE_SIZE as usize,
            dtypes(x.dtype),
        );
    }
    Ok(out)
}
