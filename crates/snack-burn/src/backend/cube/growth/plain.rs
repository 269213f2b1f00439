//! The gradients of a panel by one unit each, for devices that have no cubes for tiles, such as the
//! CPU runtime.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::*;

use super::GrowthProblem;
use crate::backend::cube::launch::{address_type, dtypes};

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn plain_kernel<F: Float>(
    g: &Tensor<F>,
    x: &Tensor<F>,
    gradients: &mut Tensor<f32>,
    batch: usize,
    m: usize,
    k: usize,
    first_row: usize,
    first_col: usize,
    cols: usize,
    #[define(F)] _dtype: ElemType,
) {
    let position = ABSOLUTE_POS;
    if position >= gradients.len() {
        terminate!();
    }
    let row = first_row + position / cols;
    let col = first_col + position % cols;
    let mut sum = 0.0_f32;
    for sample in 0..batch {
        sum += f32::cast_from(g[sample * m + row]) * f32::cast_from(x[sample * k + col]);
    }
    gradients[position] = sum;
}

/// The entries of the panel, `[rows, cols]`.
pub(super) fn launch(problem: &GrowthProblem) -> CubeTensor {
    let GrowthProblem { g, x, panel, .. } = problem;
    let gradients = problem.empty(panel.dims(), DType::F32);
    let dim = CubeDim::new(&g.client, panel.len());
    // SAFETY: positions are checked against the length; the panel lies within the factors.
    unsafe {
        plain_kernel::launch_unchecked(
            &g.client,
            calculate_cube_count_elemwise(&g.client, panel.len(), dim),
            dim,
            address_type([g, x, &gradients]),
            g.clone().into_tensor_arg(),
            x.clone().into_tensor_arg(),
            gradients.clone().into_tensor_arg(),
            problem.batch(),
            g.meta.shape()[1],
            x.meta.shape()[1],
            panel.rows.start,
            panel.cols.start,
            panel.cols.len(),
            dtypes(g.dtype)[0],
        );
    }
    gradients
}
