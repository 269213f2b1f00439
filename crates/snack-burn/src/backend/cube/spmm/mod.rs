//! `Y = X W^T`, and `X = Y W` by the same kernels in column order.

mod coo_atomic;
mod row_block;
mod row_plane;
mod row_scatter;
mod row_unit;
mod row_vector;

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;

use super::launch::{is_cpu, plane_size};
use crate::ops::{RoutineError, SpmmRoutine};

pub(super) use row_block::ROWS;

const AVAILABLE: &str =
    "auto, composed, coo_atomic, row_block, row_plane, row_scatter, row_unit, row_vector";

/// A product of a non-empty sparse matrix with `x`, all tensors contiguous on one device.
#[derive(Clone)]
pub(super) struct SpmmProblem {
    /// One value per slot, `[nnz]`.
    pub values: CubeTensor,
    /// The dense operand, `[batch, inputs]`.
    pub x: CubeTensor,
    /// First entry of each output, `[outputs + 1]`.
    pub offsets: CubeTensor,
    /// Input of each entry, `[nnz]`, two to a word if `packed`.
    pub inputs: CubeTensor,
    /// Width of all coordinates.
    pub packed: bool,
    /// Slot of each entry, `[nnz]`; `None` where entries are in slot order.
    pub slots: Option<CubeTensor>,
    /// First slot of each input and output of each slot, of a transposed product.
    pub by_input: Option<(CubeTensor, CubeTensor)>,
    /// Output and input of each slot, as `inputs`.
    pub by_slot: [CubeTensor; 2],
    /// Added to every sample, `[outputs]`.
    pub bias: Option<CubeTensor>,
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
        SpmmRoutine::RowBlock => row_block::launch(problem),
        SpmmRoutine::RowPlane => row_plane::launch(problem),
        SpmmRoutine::RowScatter => row_scatter::launch(problem),
        SpmmRoutine::RowUnit => row_unit::launch(problem),
        SpmmRoutine::RowVector => row_vector::launch(problem),
        SpmmRoutine::HostRows | SpmmRoutine::Composed => Err(RoutineError::NotOnBackend {
            routine: routine.name(),
            available: AVAILABLE,
        }),
    }
}
