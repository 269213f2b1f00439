//! Products of a few rows with a matrix that is read once: what decoding is made of.

use burn::tensor::{DType, Shape};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;
use example_support::kernels::{Teams, addresses, grid, output, team_sum};

use super::exponentials::UNROLL;

/// Neighbouring columns that a cube computes.
const COLUMNS: usize = 32;
/// Elements of a column that a unit has in flight.
const AHEAD: usize = 8;

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn project_kernel(
    x: &Tensor<f32>,
    weight: &Tensor<f32>,
    bias: &Tensor<f32>,
    y: &mut Tensor<f32>,
    rows: usize,
    inputs: usize,
    outputs: usize,
    #[comptime] columns: usize,
    #[comptime] groups: usize,
) {
    let mut sums = Shared::<[f32]>::new_slice(comptime!(columns * groups));
    let (column, group) = (UNIT_POS as usize % columns, UNIT_POS as usize / columns);
    let share = inputs.div_ceil(groups);
    let begin = min(inputs, group * share);
    let end = min(inputs, begin + share);
    let mut row = CUBE_POS_Y as usize;
    while row < rows {
        let mut first = CUBE_POS_X as usize * columns;
        while first < outputs {
            let place = min(first + column, outputs - 1);
            let mut sum = 0.0_f32;
            let mut input = begin;
            while input < end {
                #[unroll]
                for a in 0..AHEAD {
                    if input + a < end {
                        sum += x[row * inputs + input + a] * weight[(input + a) * outputs + place];
                    }
                }
                input += AHEAD;
            }
            sums[UNIT_POS as usize] = sum;
            sync_cube();
            if group == 0 && first + column < outputs {
                let mut total = bias[place];
                #[unroll]
                for g in 0..groups {
                    total += sums[g * columns + column];
                }
                y[row * outputs + place] = total;
            }
            sync_cube();
            first += CUBE_COUNT_X as usize * columns;
        }
        row += CUBE_COUNT_Y as usize;
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn compare_kernel(
    x: &Tensor<f32>,
    table: &Tensor<f32>,
    y: &mut Tensor<f32>,
    rows: usize,
    inputs: usize,
    outputs: usize,
    #[comptime] lanes: usize,
) {
    let teams = CUBE_DIM as usize / lanes;
    let lane = UNIT_POS as usize % lanes;
    let mut place = CUBE_POS_X as usize * teams + UNIT_POS as usize / lanes;
    while place < outputs {
        let mut row = 0usize;
        while row < rows {
            let mut sum = 0.0_f32;
            let mut at = lane;
            while at < inputs {
                #[unroll]
                for u in 0..UNROLL {
                    let input = at + comptime!(u * lanes);
                    if input < inputs {
                        sum += x[row * inputs + input] * table[place * inputs + input];
                    }
                }
                at += comptime!(UNROLL * lanes);
            }
            let total = team_sum(sum, lanes);
            if lane == 0 {
                y[row * outputs + place] = total;
            }
            row += 1;
        }
        place += CUBE_COUNT_X as usize * teams;
    }
}

/// `x`, `[rows, inputs]`, times `weight`, `[inputs, outputs]`, plus `bias`; all contiguous.
pub(super) fn project(x: CubeTensor, weight: CubeTensor, bias: CubeTensor) -> CubeTensor {
    let (rows, inputs) = (x.meta.shape()[0], x.meta.shape()[1]);
    let outputs = bias.meta.num_elements();
    let y = output(&x, Shape::new([rows, outputs]), DType::F32);
    if rows * outputs == 0 {
        return y;
    }
    let most = x.client.properties().hardware.max_units_per_cube as usize;
    let columns = COLUMNS.min(most);
    let groups = (most / columns).clamp(1, COLUMNS);
    // SAFETY: inputs, outputs and rows are bounded in the kernel.
    unsafe {
        project_kernel::launch_unchecked(
            &x.client,
            grid(&x.client, [outputs.div_ceil(columns), rows]),
            CubeDim::new_1d((columns * groups) as u32),
            addresses([&x, &weight, &y]),
            x.clone().into_tensor_arg(),
            weight.into_tensor_arg(),
            bias.into_tensor_arg(),
            y.clone().into_tensor_arg(),
            rows,
            inputs,
            outputs,
            columns,
            groups,
        );
    }
    y
}

/// `x`, `[rows, inputs]`, times every row of `table`, `[outputs, inputs]`; both contiguous.
pub(super) fn compare(x: CubeTensor, table: CubeTensor) -> CubeTensor {
    let (rows, inputs) = (x.meta.shape()[0], x.meta.shape()[1]);
    let outputs = table.meta.shape()[0];
    let y = output(&x, Shape::new([rows, outputs]), DType::F32);
    if rows * outputs == 0 {
        return y;
    }
    let teams = Teams::for_rows(&x.client, outputs);
    // SAFETY: inputs, outputs and rows are bounded in the kernel.
    unsafe {
        compare_kernel::launch_unchecked(
            &x.client,
            teams.count,
            teams.dim,
            addresses([&x, &table, &y]),
            x.clone().into_tensor_arg(),
            table.into_tensor_arg(),
            y.clone().into_tensor_arg(),
            rows,
            inputs,
            outputs,
            teams.lanes,
        );
    }
    y
}
