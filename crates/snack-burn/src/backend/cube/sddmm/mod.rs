//! `d[s] = sum_b Y[b, row(s)] X[b, col(s)]`.

mod outer_product;
mod row_block;
mod row_vector;

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;

use super::launch::is_cpu;
use crate::ops::{RoutineError, SddmmRoutine};

const AVAILABLE: &str = "auto, composed, outer_product, row_block, row_vector";

/// A sampled product with at least one non-zero and one sample, all tensors contiguous on one
/// device.
#[derive(Clone)]
pub(super) struct SddmmProblem {
    /// `[batch, m]`.
    pub y: CubeTensor,
    /// `[batch, k]`.
    pub x: CubeTensor,
    /// First slot of each row, `[m + 1]`.
    pub offsets: CubeTensor,
    /// Row of each slot, `[nnz]`, two to a word if `packed`.
    pub rows: CubeTensor,
    /// Column of each slot, as `rows`.
    pub cols: CubeTensor,
    /// Width of all coordinates.
    pub packed: bool,
    /// Number of non-zeros.
    pub nnz: usize,
}

impl SddmmProblem {
    fn batch(&self) -> usize {
        self.x.meta.shape()[0]
    }

    fn output_shape(&self) -> Shape {
        Shape::new([self.nnz])
    }
}

/// Runs the routine, or for `Auto` the one that suits the device.
pub(super) fn sddmm(
    problem: &SddmmProblem,
    routine: SddmmRoutine,
) -> Result<CubeTensor, RoutineError> {
    match routine {
        SddmmRoutine::Auto => match is_cpu(&problem.x.client) {
            true => outer_product::launch(problem),
            false => row_vector::launch(problem).or_else(|_| outer_product::launch(problem)),
        },
        SddmmRoutine::OuterProduct => outer_product::launch(problem),
        SddmmRoutine::RowBlock => row_block::launch(problem),
        SddmmRoutine::RowVector => row_vector::launch(problem),
        SddmmRoutine::HostRows | SddmmRoutine::Composed => Err(RoutineError::NotOnBackend {
            routine: routine.name(),
            available: AVAILABLE,
        }),
    }
}
