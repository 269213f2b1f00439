//! `Y = X W^T`, and `X = Y W` by the same kernels in column order.

mod coo_atomic;
mod row_plane;
mod row_unit;

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;

use super::launch::{is_cpu, plane_size};
use crate::ops::{RoutineError, SpmmRoutine};

const AVAILABLE: &str = "auto, composed, coo_atomic, row_plane, row_unit";

/// A product of a non-empty sparse matrix with `x`, all tensors contiguous on one device.
pub(super) struct SpmmProblem {
    /// One value per slot, `[nnz]`.
    pub values: CubeTensor,
    /// The dense operand, `[batch, inputs]`.
    pub x: CubeTensor,
    /// First entry of each output, `[outputs + 1]`.
    pub offsets: CubeTensor,
    /// Input of each entry, `[nnz]`.
    pub inputs: CubeTensor,
    /// Slot of each entry, `[nnz]`; `None` where entries are in slot order.
    pub slots: Option<CubeTensor>,
    /// Output and input of each slot, `[nnz]` each.
    pub by_slot: [CubeTensor; 2],
}

impl SpmmProblem {
    fn batch(&self) -> usize {
        self.x.meta.shape()[0]
    }

    fn outputs(&self) -> usize {
        self.offsets.meta.num_elements() - 1
    }

    fn output_shape(&self) -> Shape {
        Shape::new([self.batch(), self.outputs()])
    }
}

/// Runs the routine, or for `Auto` the first that the device can run.
pub(super) fn spmm(
    problem: &SpmmProblem,
    routine: SpmmRoutine,
) -> Result<CubeTensor, RoutineError> {
    match routine {
        SpmmRoutine::Auto => {
            let client = &problem.x.client;
            match !is_cpu(client) && plane_size(client).is_some() {
                true => row_plane::launch(problem).or_else(|_| row_unit::launch(problem)),
                false => row_unit::launch(problem),
            }
        }
        SpmmRoutine::CooAtomic => coo_atomic::launch(problem),
        SpmmRoutine::RowPlane => row_plane::launch(problem),
        SpmmRoutine::RowUnit => row_unit::launch(problem),
        SpmmRoutine::HostRows | SpmmRoutine::Composed => Err(RoutineError::NotOnBackend {
            routine: routine.name(),
            available: AVAILABLE,
        }),
    }
}
