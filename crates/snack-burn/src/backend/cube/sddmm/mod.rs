//! `d[s] = sum_b Y[b, row(s)] X[b, col(s)]`.

mod choice;
mod outer_product;
mod parts;
mod row_block;
mod row_tile;
mod row_vector;

use std::borrow::Cow;

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;

use super::panel;
use super::transpose::{is_feature_major, to_batch_major};
use crate::ops::{RoutineError, SddmmRoutine};

const AVAILABLE: &str =
    "auto, estimated, composed, outer_product, panel, row_block, row_tile, row_vector";

/// A sampled product with at least one non-zero and one sample, all tensors on one device and contiguous,
/// `y` and `x` possibly feature-major.
#[derive(Clone, Debug)]
pub(super) struct SddmmProblem {
    /// `[batch, m]`.
    pub y: CubeTensor,
    /// `[batch, k]`.
    pub x: CubeTensor,
    /// First slot of each row, `[m + 1]`.
    pub offsets: CubeTensor,
    /// Row of each slot, two to a word if `packed`.
    pub rows: CubeTensor,
    /// Column of each slot, as `rows`.
    pub cols: CubeTensor,
    /// Width of all coordinates.
    pub packed: bool,
    /// Number of non-zeros.
    pub nnz: usize,
    /// Bytes that dense panels may take.
    pub panel_bytes: usize,
    /// Whether panels may compute in the precision of the dense product in any data type.
    pub reduced_precision: bool,
}

impl SddmmProblem {
    pub fn batch(&self) -> usize {
        self.x.meta.shape()[0]
    }

    pub fn output_shape(&self) -> Shape {
        Shape::new([self.nnz])
    }

    /// With contiguous operands.
    fn batch_major(&self) -> Cow<'_, Self> {
        match is_feature_major(&self.y) || is_feature_major(&self.x) {
            true => Cow::Owned(Self {
                y: to_batch_major(&self.y),
                x: to_batch_major(&self.x),
                ..self.clone()
            }),
            false => Cow::Borrowed(self),
        }
    }
}

/// Runs the routine, or the one that is chosen.
pub(super) fn sddmm(
    problem: &SddmmProblem,
    routine: SddmmRoutine,
) -> Result<CubeTensor, RoutineError> {
    match routine {
        SddmmRoutine::Auto => choice::tuned(problem),
        SddmmRoutine::Estimated => launch(problem, choice::estimated(problem)),
        _ => launch(problem, routine),
    }
}

fn launch(problem: &SddmmProblem, routine: SddmmRoutine) -> Result<CubeTensor, RoutineError> {
    match routine {
        SddmmRoutine::OuterProduct => outer_product::launch(&problem.batch_major()),
        SddmmRoutine::Panel => panel::sddmm(problem),
        SddmmRoutine::RowBlock => row_block::launch(&problem.batch_major()),
        SddmmRoutine::RowTile => row_tile::launch(problem),
        SddmmRoutine::RowVector => row_vector::launch(problem),
        SddmmRoutine::Auto
        | SddmmRoutine::Estimated
        | SddmmRoutine::HostRows
        | SddmmRoutine::Composed => Err(RoutineError::NotOnBackend {
            routine: routine.name(),
            available: AVAILABLE,
        }),
    }
}
