use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;
use example_support::kernels::{addresses, cubes, element, output, single_units, vector_size};

/// How the last axis is made of parts, heads and vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Heads {
    parts: usize,
    heads: usize,
    /// Vectors of the width of a head.
    vectors: usize,
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn split_kernel<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    output: &mut Tensor<Vector<F, N>>,
    batch: usize,
    tokens: usize,
    total: usize,
    #[comptime] shape: Heads,
    #[define(F)] _dtype: ElemType,
) {
    let mut at = ABSOLUTE_POS;
    while at < total {
        let vector = at % comptime!(shape.vectors);
        let row = at / comptime!(shape.vectors);
        let token = row % tokens;
        let rest = row / tokens;
        let head = rest % comptime!(shape.heads);
        let rest = rest / comptime!(shape.heads);
        let (sample, part) = (rest % batch, rest / batch);
        let place = (sample * tokens + token) * comptime!(shape.parts) + part;
        let place = place * comptime!(shape.heads) + head;
        output[at] = x[place * comptime!(shape.vectors) + vector];
        at += CUBE_COUNT_X as usize * CUBE_DIM as usize;
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn join_kernel<F: Float, N: Size>(
    first: &Tensor<Vector<F, N>>,
    second: &Tensor<Vector<F, N>>,
    third: &Tensor<Vector<F, N>>,
    output: &mut Tensor<Vector<F, N>>,
    tokens: usize,
    total: usize,
    #[comptime] shape: Heads,
    #[define(F)] _dtype: ElemType,
) {
    let mut at = ABSOLUTE_POS;
    while at < total {
        let vector = at % comptime!(shape.vectors);
        let rest = at / comptime!(shape.vectors);
        let head = rest % comptime!(shape.heads);
        let rest = rest / comptime!(shape.heads);
        let part = rest % comptime!(shape.parts);
        let row = rest / comptime!(shape.parts);
        let (sample, token) = (row / tokens, row % tokens);
        let place = (sample * comptime!(shape.heads) + head) * tokens + token;
        let place = place * comptime!(shape.vectors) + vector;
        if part == 0 {
            output[at] = first[place];
        } else if part == 1 {
            output[at] = second[place];
        } else {
            output[at] = third[place];
        }
        at += CUBE_COUNT_X as usize * CUBE_DIM as usize;
    }
}

/// Elements of a head that are moved at once.
fn vector_of_head(tensors: &[&CubeTensor], head_width: usize) -> usize {
    let mut width = vector_size(tensors);
    while !head_width.is_multiple_of(width) {
        width /= 2;
    }
    width
}

/// Heads apart, of a contiguous tensor.
pub(super) fn split(x: CubeTensor, parts: usize, heads: usize) -> CubeTensor {
    let [batch, tokens, width] = x.meta.shape().dims();
    let head_width = width / (parts * heads);
    let shape = Shape::new([parts, batch * heads, tokens, head_width]);
    let found = output(&x, shape, x.dtype);
    if found.meta.num_elements() == 0 {
        return found;
    }
    let vector = vector_of_head(&[&x], head_width);
    let total = x.meta.num_elements() / vector;
    let dim = single_units(&x.client);
    // SAFETY: vectors are bounded in the kernel, which only changes their order.
    unsafe {
        split_kernel::launch_unchecked(
            &x.client,
            cubes(&x.client, total.div_ceil(dim.num_elems() as usize)),
            dim,
            addresses([&x]),
            vector,
            x.clone().into_tensor_arg(),
            found.clone().into_tensor_arg(),
            batch,
            tokens,
            total,
            Heads {
                parts,
                heads,
                vectors: head_width / vector,
            },
            element(x.dtype),
        );
    }
    found
}

/// Heads of three contiguous tensors beside each other.
pub(super) fn join(parts: [CubeTensor; 3], heads: usize) -> CubeTensor {
    let [first, second, third] = parts;
    let [rows, tokens, head_width] = first.meta.shape().dims();
    let shape = Shape::new([rows / heads, tokens, 3 * heads * head_width]);
    let found = output(&first, shape, first.dtype);
    let elements = found.meta.num_elements();
    if elements == 0 {
        return found;
    }
    let vector = vector_of_head(&[&first, &second, &third], head_width);
    let total = elements / vector;
    let dim = single_units(&first.client);
    // SAFETY: vectors are bounded in the kernel; all three tensors have one shape.
    unsafe {
        join_kernel::launch_unchecked(
            &first.client,
            cubes(&first.client, total.div_ceil(dim.num_elems() as usize)),
            dim,
            addresses([&first, &found]),
            vector,
            first.clone().into_tensor_arg(),
            second.into_tensor_arg(),
            third.into_tensor_arg(),
            found.clone().into_tensor_arg(),
            tokens,
            total,
            Heads {
                parts: 3,
                heads,
                vectors: head_width / vector,
            },
            element(first.dtype),
        );
    }
    found
}
