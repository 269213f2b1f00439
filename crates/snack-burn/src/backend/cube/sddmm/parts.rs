//! Sums over parts of the batch, so that a matrix of few rows occupies the device as well.
//!
//! Each part has sums of its own, which a second kernel adds in their order: the result does not
//! depend on timing.

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;

use super::SddmmProblem;
use crate::backend::cube::launch::{accumulation_dtype, dtypes, scratch, uninitialized};
use crate::backend::cube::parts;

/// Parts whose sums the scratch has room for and a grid may have on its second axis, at least one.
pub(super) fn parts_allowed(problem: &SddmmProblem) -> usize {
    let SddmmProblem { x, nnz, .. } = problem;
    let (_, axis, _) = x.client.properties().hardware.max_cube_count;
    let part = nnz * accumulation_dtype(x.dtype).size();
    (problem.panel_bytes / part).clamp(1, axis as usize)
}

/// The sums that the parts write, `[parts, nnz]`: the result itself where there is one part and
/// each sum is rounded `once`.
pub(super) fn sums_of_parts(problem: &SddmmProblem, parts: usize, once: bool) -> CubeTensor {
    let shape = Shape::new([parts * problem.nnz]);
    match parts == 1 && once {
        true => uninitialized(&problem.x, shape),
        false => scratch(&problem.x, shape),
    }
}

/// Element types of the operands, of what is computed in, and of the sums of parts.
pub(super) fn dtypes_with_sums(problem: &SddmmProblem, sums: &CubeTensor) -> [ElemType; 3] {
    let [operand, computed] = dtypes(problem.x.dtype);
    [operand, computed, dtypes(sums.dtype)[0]]
}

/// The result, from what [`sums_of_parts`] made and a kernel wrote.
pub(super) fn add_parts(problem: &SddmmProblem, sums: CubeTensor) -> CubeTensor {
    let SddmmProblem { x, nnz, .. } = problem;
    let parts = sums.meta.num_elements() / nnz;
    if parts == 1 && sums.dtype == x.dtype {
        return sums;
    }
    parts::add(sums, x, problem.output_shape(), parts)
}
