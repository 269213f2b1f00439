//! The element types that the host kernels compute in.

use pulp::Simd;

pub(super) trait Real: num_traits::Float + Default + Send + Sync + 'static {
    const ZERO: Self;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
}

impl Real for f64 {
    const ZERO: Self = 0.0;
}

/// `a b + c`, fused where the instruction set has it: without it, `mul_add` is a library call.
#[inline(always)]
pub(super) fn multiply_add<T: Real, S: Simd>(a: T, b: T, c: T) -> T {
    match S::IS_SCALAR {
        true => a * b + c,
        false => a.mul_add(b, c),
    }
}
