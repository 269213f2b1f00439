use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;
use example_support::kernels::{addresses, cubes, element, single_units, vector_size};

use crate::fused::AdamWStep;

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn step_kernel<F: Float, N: Size>(
    weight: &mut Tensor<Vector<F, N>>,
    grad: &Tensor<Vector<F, N>>,
    first: &mut Tensor<Vector<F, N>>,
    second: &mut Tensor<Vector<F, N>>,
    vectors: usize,
    beta_1: f32,
    beta_2: f32,
    epsilon: f32,
    rate: f32,
    correction_2: f32,
    keep: f32,
    #[define(F)] _dtype: ElemType,
) {
    let one = 1.0_f32;
    let mut at = ABSOLUTE_POS;
    while at < vectors {
        let slope = Vector::<f32, N>::cast_from(grad[at]);
        let moment = Vector::<f32, N>::cast_from(first[at]) * Vector::new(beta_1)
            + slope * Vector::new(one - beta_1);
        let square = Vector::<f32, N>::cast_from(second[at]) * Vector::new(beta_2)
            + slope * slope * Vector::new(one - beta_2);
        let size = (square * Vector::new(correction_2)).sqrt() + Vector::new(epsilon);
        let kept = Vector::<f32, N>::cast_from(weight[at]) * Vector::new(keep);
        weight[at] = Vector::cast_from(kept - moment * Vector::new(rate) / size);
        first[at] = Vector::cast_from(moment);
        second[at] = Vector::cast_from(square);
        at += CUBE_COUNT_X as usize * CUBE_DIM as usize;
    }
}

/// The weights and both moments after a step, all tensors contiguous: the same memory where nobody else
/// has it.
pub(super) fn step(state: [CubeTensor; 3], grad: CubeTensor, step: AdamWStep) -> [CubeTensor; 3] {
    let [weight, first, second] = state.map(|tensor| match tensor.can_mut() {
        true => tensor,
        false => tensor.copy(),
    });
    let width = vector_size(&[&weight, &grad, &first, &second]);
    let vectors = weight.meta.num_elements() / width;
    if vectors == 0 {
        return [weight, first, second];
    }
    let client = weight.client.clone();
    let dim = single_units(&client);
    // SAFETY: vectors are bounded in the kernel; all tensors have one shape, and those that are written
    // are nobody else's.
    unsafe {
        step_kernel::launch_unchecked(
            &client,
            cubes(&client, vectors.div_ceil(dim.num_elems() as usize)),
            dim,
            addresses([&weight]),
            width,
            weight.clone().into_tensor_arg(),
            grad.into_tensor_arg(),
            first.clone().into_tensor_arg(),
            second.clone().into_tensor_arg(),
            vectors,
            step.beta_1,
            step.beta_2,
            step.epsilon,
            step.rate,
            step.correction_2,
            step.keep,
            element(weight.dtype),
        );
    }
    [weight, first, second]
}
