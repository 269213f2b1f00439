//! Which routine computes a sampled product, by rule or by measurement.

use burn_cubecl::tensor::CubeTensor;

use super::{SddmmProblem, launch, panel, row_block, row_tile, row_vector};
use crate::backend::cube::launch::{is_cpu, panels_allowed};
#[cfg(feature = "autotune")]
use crate::backend::cube::tune::Contest;
use crate::ops::{RoutineError, SddmmRoutine};

/// Non-zeros from which it pays to stage `X`: until then one unit per non-zero is done sooner.
const STAGED_FROM: usize = 500_000;

/// Largest batch for which `X` is staged as it is.
const SMALL_BATCH: usize = 4;

/// Batch and matrix entries per non-zero up to which the dense product costs less than the
/// non-zeros alone, where its precision is allowed (docs/results).
const PANEL: (usize, usize) = (256, 20);

/// The routines that are measured against each other; not `panel` in single precision unless the
/// user allows that of the dense product.
#[cfg(feature = "autotune")]
static CONTEST: Contest<SddmmProblem, SddmmRoutine> = Contest {
    candidates: &[
        (SddmmRoutine::RowBlock.name(), SddmmRoutine::RowBlock),
        (SddmmRoutine::RowTile.name(), SddmmRoutine::RowTile),
        (SddmmRoutine::RowVector.name(), SddmmRoutine::RowVector),
        (
            SddmmRoutine::OuterProduct.name(),
            SddmmRoutine::OuterProduct,
        ),
        (SddmmRoutine::Panel.name(), SddmmRoutine::Panel),
    ],
    competes,
    estimated,
    launch,
};

/// Whether the routine is worth measuring: the device can run it, and the batch is not one at which
/// it is known to be many times slower than another.
#[cfg(feature = "autotune")]
fn competes(problem: &SddmmProblem, routine: SddmmRoutine) -> bool {
    let largest_batch = match routine {
        SddmmRoutine::RowBlock => 64,
        SddmmRoutine::RowTile if problem.batch() <= SMALL_BATCH => 0,
        SddmmRoutine::OuterProduct if row_vector::plan(problem).is_ok() => 16,
        _ => usize::MAX,
    };
    problem.batch() <= largest_batch && fits(problem, routine)
}

/// Whether the device can run the routine on the problem.
fn fits(problem: &SddmmProblem, routine: SddmmRoutine) -> bool {
    match routine {
        SddmmRoutine::RowBlock => row_block::plan(problem).is_ok(),
        SddmmRoutine::RowTile => row_tile::plan(problem).is_ok(),
        SddmmRoutine::RowVector => row_vector::plan(problem).is_ok(),
        SddmmRoutine::Panel => {
            panels_allowed(&problem.x, problem.reduced_precision)
                && panel::sddmm_fits(problem).is_ok()
        }
        SddmmRoutine::OuterProduct => true,
        _ => false,
    }
}

/// The routine that the rule expects to be fastest among those that fit.
pub(super) fn estimated(problem: &SddmmProblem) -> SddmmRoutine {
    if is_cpu(&problem.x.client) {
        return SddmmRoutine::OuterProduct;
    }
    let (rows, cols) = (problem.y.meta.shape()[1], problem.x.meta.shape()[1]);
    let dense = problem.batch() >= PANEL.0 && problem.nnz.saturating_mul(PANEL.1) >= rows * cols;
    if dense && fits(problem, SddmmRoutine::Panel) {
        return SddmmRoutine::Panel;
    }
    let preferred: &[SddmmRoutine] = match problem.batch() <= SMALL_BATCH {
        true if problem.nnz < STAGED_FROM => &[],
        true => &[SddmmRoutine::RowBlock],
        false if row_tile::plan(problem).is_ok_and(|plan| plan.pays(problem)) => {
            &[SddmmRoutine::RowTile]
        }
        false => &[SddmmRoutine::RowVector],
    };
    preferred
        .iter()
        .copied()
        .find(|&routine| fits(problem, routine))
        .unwrap_or(SddmmRoutine::OuterProduct)
}

/// Runs the routine that was measured to be fastest, or that is expected to be where measuring is
/// off or not worth it.
pub(super) fn tuned(problem: &SddmmProblem) -> Result<CubeTensor, RoutineError> {
    #[cfg(feature = "autotune")]
    if crate::backend::cube::tune::pays(&problem.x, problem.nnz) {
        return Ok(tuner::run(problem));
    }
    launch(problem, estimated(problem))
}

#[cfg(feature = "autotune")]
mod tuner {
    use burn_cubecl::{CubeTuneId, tensor::CubeTensor};
    use cubecl::tune::{LocalTuner, local_tuner};

    use super::{CONTEST, SddmmProblem};
    use crate::backend::cube::transpose::is_feature_major;
    use crate::backend::cube::tune::{Direction, Problem, SparseAutotuneKey};

    impl Problem for SddmmProblem {
        fn direction(&self) -> Direction {
            Direction::Sampled
        }

        fn operand(&self) -> &CubeTensor {
            &self.x
        }

        fn outputs(&self) -> usize {
            self.y.meta.shape()[1]
        }

        fn nnz(&self) -> usize {
            self.nnz
        }

        fn packed(&self) -> bool {
            self.packed
        }

        fn layouts(&self) -> u32 {
            u32::from(is_feature_major(&self.x)) | u32::from(is_feature_major(&self.y)) << 1
        }
    }

    pub(super) fn run(problem: &SddmmProblem) -> CubeTensor {
        static TUNER: LocalTuner<SparseAutotuneKey, CubeTuneId> = local_tuner!();
        CONTEST.run(&TUNER, problem)
    }
}
