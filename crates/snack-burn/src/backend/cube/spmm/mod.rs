//! `Y = X W^T`, and `X = Y W` by the same kernels in column order.

mod choice;
mod coo_atomic;
mod row_block;
mod row_plane;
mod row_scatter;
mod row_staged;
mod row_tile;
mod row_unit;
mod row_vector;

use std::borrow::Cow;

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;

use super::transpose::{is_feature_major, to_batch_major};
use super::{packs, panel};
use crate::ops::{Layout, RoutineError, SpmmRoutine};

const AVAILABLE: &str = "auto, estimated, composed, coo_atomic, panel, row_block, row_plane, \
                         row_scatter, row_staged, row_tile, row_unit, row_vector";

/// A product of a non-empty sparse matrix with `x`, all tensors on one device and contiguous, `x` possibly
/// feature-major.
#[derive(Clone, Debug)]
pub(super) struct SpmmProblem {
    /// One value per slot, `[nnz]`.
    pub values: CubeTensor,
    /// The dense operand, `[batch, inputs]`.
    pub x: CubeTensor,
    /// First entry of each output, `[outputs + 1]`.
    pub offsets: CubeTensor,
    /// Input of each entry, two to a word if `packed`.
    pub inputs: CubeTensor,
    /// Width of all coordinates.
    pub packed: bool,
    /// Slot of each entry; `None` where entries are in slot order.
    pub slots: Option<CubeTensor>,
    /// First slot of each input and output of each slot, of a transposed product.
    pub by_input: Option<(CubeTensor, CubeTensor)>,
    /// Output and input of each slot, as `inputs`, where a routine needs them.
    pub by_slot: Option<[CubeTensor; 2]>,
    /// Added to every sample, `[outputs]`.
    pub bias: Option<CubeTensor>,
    /// Bytes that dense panels may take.
    pub panel_bytes: usize,
    /// Whether panels may compute in the precision of the dense product in any data type.
    pub reduced_precision: bool,
    /// The wanted layout of the output.
    pub layout: Layout,
}

impl SpmmProblem {
    pub fn batch(&self) -> usize {
        self.x.meta.shape()[0]
    }

    pub fn outputs(&self) -> usize {
        self.offsets.meta.num_elements() - 1
    }

    pub fn nnz(&self) -> usize {
        self.values.meta.num_elements()
    }

    /// Entries that kernels load at once.
    pub fn pack(&self) -> usize {
        match self.slots {
            Some(_) => 1,
            None => packs::pack_of(&self.values),
        }
    }

    pub fn output_shape(&self) -> Shape {
        Shape::new([self.batch(), self.outputs()])
    }

    /// With a contiguous operand.
    fn batch_major(&self) -> Cow<'_, Self> {
        match is_feature_major(&self.x) {
            true => Cow::Owned(Self {
                x: to_batch_major(&self.x),
                ..self.clone()
            }),
            false => Cow::Borrowed(self),
        }
    }

    /// Whether the output is wanted feature-major and has whole vectors of `samples`.
    pub fn writes_feature_major(&self, samples: usize) -> bool {
        self.layout == Layout::FeatureMajor && self.batch().is_multiple_of(samples)
    }
}

/// Runs the routine, or the one that is chosen.
pub(super) fn spmm(
    problem: &SpmmProblem,
    routine: SpmmRoutine,
) -> Result<CubeTensor, RoutineError> {
    match routine {
        SpmmRoutine::Auto => choice::tuned(problem),
        SpmmRoutine::Estimated => launch(problem, choice::estimated(problem)),
        _ => launch(problem, routine),
    }
}

fn launch(problem: &SpmmProblem, routine: SpmmRoutine) -> Result<CubeTensor, RoutineError> {
    match routine {
        SpmmRoutine::CooAtomic => coo_atomic::launch(&problem.batch_major()),
        SpmmRoutine::Panel => panel::spmm(problem),
        SpmmRoutine::RowBlock => row_block::launch(&problem.batch_major()),
        SpmmRoutine::RowPlane => row_plane::launch(&problem.batch_major()),
        SpmmRoutine::RowScatter => row_scatter::launch(&problem.batch_major()),
        SpmmRoutine::RowStaged => row_staged::launch(&problem.batch_major()),
        SpmmRoutine::RowTile => row_tile::launch(problem),
        SpmmRoutine::RowUnit => row_unit::launch(&problem.batch_major()),
        SpmmRoutine::RowVector => row_vector::launch(problem),
        SpmmRoutine::Auto
        | SpmmRoutine::Estimated
        | SpmmRoutine::HostRows
        | SpmmRoutine::Composed => Err(RoutineError::NotOnBackend {
            routine: routine.name(),
            available: AVAILABLE,
        }),
    }
}
