use burn::backend::ops::FloatTensorOps;
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;
use example_support::kernels::{addresses, cubes, element, output, single_units, vector_size};

use crate::fused::base::{CUBIC, LINEAR};

/// `sigmoid(x (LINEAR + CUBIC x^2))`.
#[cube]
fn gate<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
    let one = Vector::<f32, N>::new(1.0_f32);
    let slope = x * x * Vector::new(CUBIC) + Vector::new(LINEAR);
    one / (one + (Vector::<f32, N>::new(0.0_f32) - x * slope).exp())
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn forward_kernel<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    output: &mut Tensor<Vector<F, N>>,
    vectors: usize,
    #[define(F)] _dtype: ElemType,
) {
    let mut at = ABSOLUTE_POS;
    while at < vectors {
        let value = Vector::<f32, N>::cast_from(x[at]);
        output[at] = Vector::cast_from(value * gate::<N>(value));
        at += CUBE_COUNT_X as usize * CUBE_DIM as usize;
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn backward_kernel<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    grad: &Tensor<Vector<F, N>>,
    output: &mut Tensor<Vector<F, N>>,
    vectors: usize,
    #[define(F)] _dtype: ElemType,
) {
    let one = Vector::<f32, N>::new(1.0_f32);
    let mut at = ABSOLUTE_POS;
    while at < vectors {
        let value = Vector::<f32, N>::cast_from(x[at]);
        let gate = gate::<N>(value);
        let slope = value * (value * value * Vector::new(3.0_f32 * CUBIC) + Vector::new(LINEAR));
        let found = gate * (one + slope * (one - gate));
        output[at] = Vector::cast_from(Vector::<f32, N>::cast_from(grad[at]) * found);
        at += CUBE_COUNT_X as usize * CUBE_DIM as usize;
    }
}

/// A matrix with its axes swapped as it is, since every element is on its own, all else contiguous.
pub(super) fn dense(x: CubeTensor) -> CubeTensor {
    match x.meta.strides()[..] == [1, x.meta.shape()[0]] {
        true => x,
        false => into_contiguous(x),
    }
}

/// An output whose elements lie as those of `x`.
fn output_like(x: &CubeTensor) -> CubeTensor {
    let shape = x.meta.shape();
    if x.meta.rank() != 2 || x.meta.strides()[1] == 1 {
        return output(x, shape.clone(), x.dtype);
    }
    let turned = output(x, Shape::new([shape[1], shape[0]]), x.dtype);
    CubeBackend::float_swap_dims(turned, 0, 1)
}

/// GELU of a tensor that [`dense`] made; the output lies as it does.
pub(super) fn forward(x: CubeTensor) -> CubeTensor {
    let found = output_like(&x);
    let width = vector_size(&[&x]);
    let vectors = x.meta.num_elements() / width;
    if vectors == 0 {
        return found;
    }
    let dim = single_units(&x.client);
    let count = cubes(&x.client, vectors.div_ceil(dim.num_elems() as usize));
    // SAFETY: vectors are bounded in the kernel.
    unsafe {
        forward_kernel::launch_unchecked(
            &x.client,
            count,
            dim,
            addresses([&x]),
            width,
            x.clone().into_tensor_arg(),
            found.clone().into_tensor_arg(),
            vectors,
            element(x.dtype),
        );
    }
    found
}

/// The gradient of the input, both tensors as [`dense`] made them.
pub(super) fn backward(x: CubeTensor, grad: CubeTensor) -> CubeTensor {
    let (x, grad) = match x.meta.strides() == grad.meta.strides() {
        true => (x, grad),
        false => (into_contiguous(x), into_contiguous(grad)),
    };
    let found = output_like(&x);
    let width = vector_size(&[&x, &grad]);
    let vectors = x.meta.num_elements() / width;
    if vectors == 0 {
        return found;
    }
    let dim = single_units(&x.client);
    let count = cubes(&x.client, vectors.div_ceil(dim.num_elems() as usize));
    // SAFETY: vectors are bounded in the kernel; all three tensors have one shape.
    unsafe {
        backward_kernel::launch_unchecked(
            &x.client,
            count,
            dim,
            addresses([&x]),
            width,
            x.clone().into_tensor_arg(),
            grad.into_tensor_arg(),
            found.clone().into_tensor_arg(),
            vectors,
            element(x.dtype),
        );
    }
    found
}
