//! One unit per output and tile of the batch, walking the row alone: needs nothing of a device.

use burn_cubecl::tensor::CubeTensor;
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::*;

use super::SpmmProblem;
use crate::backend::cube::coordinates::coordinate;
use crate::backend::cube::launch::{address_type, batch_tile, dtypes, uninitialized};
use crate::ops::RoutineError;

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn row_unit_kernel<F: Float, A: Float>(
    values: &Tensor<F>,
    offsets: &Tensor<u32>,
    inputs: &Tensor<u32>,
    slots: &Tensor<u32>,
    x: &Tensor<F>,
    bias: &Tensor<F>,
    y: &mut Tensor<F>,
    #[comptime] tile: usize,
    #[comptime] permuted: bool,
    #[comptime] packed: bool,
    #[comptime] biased: bool,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let batch = x.shape(0);
    let (x_stride, y_stride) = (x.stride(0), y.stride(0));
    let outputs = offsets.len() - 1;
    let output = ABSOLUTE_POS % outputs;
    let first = (ABSOLUTE_POS / outputs) * tile;
    if first >= batch {
        terminate!();
    }
    let mut sums = Array::<A>::new(tile);
    #[unroll]
    for t in 0..tile {
        sums[t] = A::new(0.0_f32);
    }
    let start = usize::cast_from(offsets[output]);
    let end = usize::cast_from(offsets[output + 1]);
    for entry in start..end {
        let input = coordinate(inputs, entry, packed);
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
    }
    #[unroll]
    for t in 0..tile {
        if first + t < batch {
            let mut sum = sums[t];
            if biased {
                sum += A::cast_from(bias[output]);
            }
            y[(first + t) * y_stride + output] = F::cast_from(sum);
        }
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
    let tile = batch_tile(problem.batch());
    let units = problem.outputs() * problem.batch().div_ceil(tile);
    let dim = CubeDim::new(&x.client, units);
    let y = uninitialized(x, problem.output_shape());
    // SAFETY: samples are bounded in the kernel, outputs by the remainder; the index tensors come
    // from a validated pattern of the operands' shapes.
    unsafe {
        row_unit_kernel::launch_unchecked(
            &x.client,
            calculate_cube_count_elemwise(&x.client, units, dim),
            dim,
            address_type([values, x, &y]),
            values.clone().into_tensor_arg(),
            offsets.clone().into_tensor_arg(),
            inputs.clone().into_tensor_arg(),
            slots.as_ref().unwrap_or(inputs).clone().into_tensor_arg(),
            x.clone().into_tensor_arg(),
            problem.bias.as_ref().unwrap_or(x).clone().into_tensor_arg(),
            y.clone().into_tensor_arg(),
            tile,
            slots.is_some(),
            problem.packed,
            problem.bias.is_some(),
            dtypes(x.dtype),
        );
    }
    Ok(y)
}
