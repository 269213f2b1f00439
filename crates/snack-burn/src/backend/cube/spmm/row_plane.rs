//! One plane per output and tile of the batch: lanes share the row, a plane sum joins them.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::SpmmProblem;
use crate::backend::cube::launch::{
    address_type, batch_tile, check_units, dtypes, plane_size, strided_grid, uninitialized,
};
use crate::ops::{RoutineError, SpmmRoutine};

/// Planes per cube.
const PLANES: u32 = 8;

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn row_plane_kernel<F: Float, A: Float>(
    values: &Tensor<F>,
    offsets: &Tensor<i32>,
    inputs: &Tensor<i32>,
    slots: &Tensor<i32>,
    x: &Tensor<F>,
    y: &mut Tensor<F>,
    #[comptime] tile: usize,
    #[comptime] permuted: bool,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let batch = x.shape(0);
    let (x_stride, y_stride) = (x.stride(0), y.stride(0));
    let outputs = offsets.len() - 1;
    let mut sums = Array::<A>::new(tile);

    let mut output = (CUBE_POS_X * CUBE_DIM_Y + UNIT_POS_Y) as usize;
    while output < outputs {
        let start = usize::cast_from(offsets[output]);
        let end = usize::cast_from(offsets[output + 1]);
        let mut first = CUBE_POS_Y as usize * tile;
        while first < batch {
            #[unroll]
            for t in 0..tile {
                sums[t] = A::new(0.0_f32);
            }
            let mut entry = start + UNIT_POS_X as usize;
            while entry < end {
                let input = usize::cast_from(inputs[entry]);
                let value = if permuted {
                    A::cast_from(values[usize::cast_from(slots[entry])])
                } else {
                    A::cast_from(values[entry])
                };
                #[unroll]
                for t in 0..tile {
                    // Lanes of a tile beyond the batch repeat its last sample.
                    let sample = min(first + t, batch - 1);
                    sums[t] += value * A::cast_from(x[sample * x_stride + input]);
                }
                entry += CUBE_DIM_X as usize;
            }
            #[unroll]
            for t in 0..tile {
                let sum = plane_sum(sums[t]);
                if UNIT_POS_X == 0 && first + t < batch {
                    y[(first + t) * y_stride + output] = F::cast_from(sum);
                }
            }
            first += CUBE_COUNT_Y as usize * tile;
        }
        output += (CUBE_COUNT_X * CUBE_DIM_Y) as usize;
    }
}

pub(super) fn launch(problem: &SpmmProblem) -> Result<CubeTensor, RoutineError> {
    let SpmmProblem {
        values,
        x,
        offsets,
        inputs,
        slots,
        ..
    } = problem;
    let Some(plane) = plane_size(&x.client) else {
        return Err(RoutineError::MissingFeature {
            routine: SpmmRoutine::RowPlane.name(),
            needed: "plane operations on planes of one size".to_string(),
        });
    };
    check_units(&x.client, SpmmRoutine::RowPlane.name(), plane * PLANES)?;
    let tile = batch_tile(problem.batch());
    let wanted = [
        problem.outputs().div_ceil(PLANES as usize),
        problem.batch().div_ceil(tile),
    ];
    let y = uninitialized(x, problem.output_shape());
    // SAFETY: rows and samples are bounded in the kernel; the index tensors come from a validated
    // pattern of the operands' shapes.
    unsafe {
        row_plane_kernel::launch_unchecked(
            &x.client,
            strided_grid(&x.client, wanted),
            CubeDim::new_2d(plane, PLANES),
            address_type([values, x, &y]),
            values.clone().into_tensor_arg(),
            offsets.clone().into_tensor_arg(),
            inputs.clone().into_tensor_arg(),
            slots.as_ref().unwrap_or(inputs).clone().into_tensor_arg(),
            x.clone().into_tensor_arg(),
            y.clone().into_tensor_arg(),
            tile,
            slots.is_some(),
            dtypes(x.dtype),
        );
    }
    Ok(y)
}
