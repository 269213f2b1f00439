use burn::tensor::{DType, Shape};
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;
use example_support::kernels::{Teams, addresses, element, index_element, output};

use super::exponentials::{UNROLL, exponentials};

/// A target, or the last place for one that does not exist.
#[cube]
fn target_of<I: Int>(targets: &Tensor<I>, row: usize, vocabulary: usize) -> usize {
    min(usize::cast_from(targets[row]), vocabulary - 1)
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn forward_kernel<F: Float, I: Int>(
    logits: &Tensor<F>,
    targets: &Tensor<I>,
    losses: &mut Tensor<f32>,
    rows: usize,
    columns: usize,
    vocabulary: usize,
    #[comptime] lanes: usize,
    #[define(F, I)] _dtypes: [ElemType; 2],
) {
    let teams = CUBE_DIM as usize / lanes;
    let lane = UNIT_POS as usize % lanes;
    let mut row = CUBE_POS_X as usize * teams + UNIT_POS as usize / lanes;
    while row < rows {
        let first = row * columns;
        let (highest, sum) = exponentials::<F>(logits, first, vocabulary, lane, 1.0_f32, lanes);
        if lane == 0 {
            let target = target_of::<I>(targets, row, vocabulary);
            losses[row] = sum.ln() + highest - f32::cast_from(logits[first + target]);
        }
        row += CUBE_COUNT_X as usize * teams;
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn backward_kernel<F: Float, I: Int>(
    logits: &Tensor<F>,
    targets: &Tensor<I>,
    grad: &Tensor<f32>,
    output: &mut Tensor<F>,
    rows: usize,
    columns: usize,
    vocabulary: usize,
    #[comptime] lanes: usize,
    #[define(F, I)] _dtypes: [ElemType; 2],
) {
    let teams = CUBE_DIM as usize / lanes;
    let lane = UNIT_POS as usize % lanes;
    let mut row = CUBE_POS_X as usize * teams + UNIT_POS as usize / lanes;
    while row < rows {
        let first = row * columns;
        let (highest, sum) = exponentials::<F>(logits, first, vocabulary, lane, 1.0_f32, lanes);
        let target = target_of::<I>(targets, row, vocabulary);
        let factor = grad[row] / sum;
        let mut at = lane;
        while at < vocabulary {
            #[unroll]
            for u in 0..UNROLL {
                let place = at + comptime!(u * lanes);
                if place < vocabulary {
                    let mut found =
                        factor * (f32::cast_from(logits[first + place]) - highest).exp();
                    if place == target {
                        found -= grad[row];
                    }
                    output[first + place] = F::cast_from(found);
                }
            }
            at += comptime!(UNROLL * lanes);
        }
        row += CUBE_COUNT_X as usize * teams;
    }
}

/// Losses of contiguous logits.
pub(super) fn forward(logits: CubeTensor, targets: CubeTensor, vocabulary: usize) -> CubeTensor {
    let [rows, columns] = [0, 1].map(|axis| logits.meta.shape()[axis]);
    let losses = output(&logits, Shape::new([rows]), DType::F32);
    if rows == 0 {
        return losses;
    }
    let teams = Teams::for_rows(&logits.client, rows);
    // SAFETY: rows and places are bounded in the kernel, targets are cut to the vocabulary.
    unsafe {
        forward_kernel::launch_unchecked(
            &logits.client,
            teams.count,
            teams.dim,
            addresses([&logits]),
            logits.clone().into_tensor_arg(),
            targets.clone().into_tensor_arg(),
            losses.clone().into_tensor_arg(),
            rows,
            columns,
            vocabulary,
            teams.lanes,
            [element(logits.dtype), index_element(targets.dtype)],
        );
    }
    losses
}

/// The gradient of contiguous logits.
pub(super) fn backward(
    logits: CubeTensor,
    targets: CubeTensor,
    grad: CubeTensor,
    vocabulary: usize,
) -> CubeTensor {
    let [rows, columns] = [0, 1].map(|axis| logits.meta.shape()[axis]);
    let found = output(&logits, logits.meta.shape().clone(), logits.dtype);
    if rows == 0 {
        return found;
    }
    let teams = Teams::for_rows(&logits.client, rows);
    // SAFETY: rows and places are bounded in the kernel, targets are cut to the vocabulary.
    unsafe {
        backward_kernel::launch_unchecked(
            &logits.client,
            teams.count,
            teams.dim,
            addresses([&logits]),
            logits.clone().into_tensor_arg(),
            targets.clone().into_tensor_arg(),
            grad.into_tensor_arg(),
            found.clone().into_tensor_arg(),
            rows,
            columns,
            vocabulary,
            teams.lanes,
            [element(logits.dtype), index_element(targets.dtype)],
        );
    }
    found
}
