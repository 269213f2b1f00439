//! Which routine computes a product, by rule or by measurement.

use core::ops::Range;

use burn_cubecl::tensor::CubeTensor;

use super::{
    SpmmProblem, launch, panel, row_block, row_plane, row_scatter, row_staged, row_tile, row_vector,
};
use crate::backend::cube::launch::{is_cpu, panels_allowed};
#[cfg(feature = "autotune")]
use crate::backend::cube::{launch::plane_size, tune::Contest};
use crate::ops::{RoutineError, SpmmRoutine};

/// Non-zeros between which `row_staged` was measured to be faster than the other routines for small batches,
/// where it [pays](row_staged::pays) at all (docs/results).
const STAGED: Range<usize> = 75_000..4_000_000;
/// Non-zeros from which `row_block`, and `row_scatter` where transposed, are faster than `row_plane`: the launch
/// of a large cube costs about as much as reading so many (docs/results).
const LARGE: usize = 2_000_000;

/// Batch and non-zeros per output from which tiles of the dense operand pay: below, a row has too few
/// entries in a tile, and the operand is read seldom enough (docs/results).
const TILED_FROM: (usize, usize) = (32, 256);

/// Largest batch for which lanes share the entries of a row.
const SMALL_BATCH: usize = 4;

/// The deterministic routines that are measured against each other. `coo_atomic` is not among
/// them, nor is `panel` in single precision unless the user allows that of the dense product.
#[cfg(feature = "autotune")]
static CONTEST: Contest<SpmmProblem, SpmmRoutine> = Contest {
    candidates: &[
        (SpmmRoutine::RowBlock.name(), SpmmRoutine::RowBlock),
        (SpmmRoutine::RowPlane.name(), SpmmRoutine::RowPlane),
        (SpmmRoutine::RowStaged.name(), SpmmRoutine::RowStaged),
        (SpmmRoutine::RowTile.name(), SpmmRoutine::RowTile),
        (SpmmRoutine::RowVector.name(), SpmmRoutine::RowVector),
        (SpmmRoutine::RowScatter.name(), SpmmRoutine::RowScatter),
        (SpmmRoutine::RowUnit.name(), SpmmRoutine::RowUnit),
        (SpmmRoutine::Panel.name(), SpmmRoutine::Panel),
    ],
    competes,
    estimated,
    launch,
};

/// Whether the routine is worth measuring: the device can run it, and the batch is not one at which
/// it is known to be many times slower than another.
#[cfg(feature = "autotune")]
fn competes(problem: &SpmmProblem, routine: SpmmRoutine) -> bool {
    let largest_batch = match routine {
        SpmmRoutine::RowStaged => SMALL_BATCH,
        SpmmRoutine::RowScatter => 16,
        SpmmRoutine::RowTile if problem.batch() <= SMALL_BATCH => 0,
        SpmmRoutine::RowBlock | SpmmRoutine::RowPlane => 64,
        SpmmRoutine::RowUnit if plane_size(&problem.x.client).is_some() => 0,
        _ => usize::MAX,
    };
    problem.batch() <= largest_batch && fits(problem, routine)
}

/// Whether the device can run the routine on the problem.
fn fits(problem: &SpmmProblem, routine: SpmmRoutine) -> bool {
    match routine {
        SpmmRoutine::RowBlock => row_block::plan(problem).is_ok(),
        SpmmRoutine::RowPlane => row_plane::plan(problem).is_ok(),
        SpmmRoutine::RowTile => row_tile::plan(problem).is_ok(),
        SpmmRoutine::RowVector => row_vector::plan(problem).is_ok(),
        SpmmRoutine::RowScatter => row_scatter::plan(problem).is_ok(),
        SpmmRoutine::RowStaged => row_staged::plan(problem).is_ok(),
        SpmmRoutine::Panel => {
            panels_allowed(&problem.x, problem.reduced_precision)
                && panel::spmm_fits(problem).is_ok()
        }
        SpmmRoutine::RowUnit => true,
        _ => false,
    }
}

/// The routine that the rule expects to be fastest among those that fit.
pub(super) fn estimated(problem: &SpmmProblem) -> SpmmRoutine {
    if is_cpu(&problem.x.client) {
        return SpmmRoutine::RowUnit;
    }
    let tiled = (problem.batch() >= TILED_FROM.0)
        && problem.nnz() >= TILED_FROM.1.saturating_mul(problem.outputs());
    let preferred: &[SpmmRoutine] = match problem.batch() <= SMALL_BATCH {
        true => for_small_batches(problem),
        false if tiled => &[SpmmRoutine::RowTile, SpmmRoutine::RowVector],
        false => &[SpmmRoutine::RowVector],
    };
    preferred
        .iter()
        .copied()
        .find(|&routine| fits(problem, routine))
        .unwrap_or(SpmmRoutine::RowUnit)
}

fn for_small_batches(problem: &SpmmProblem) -> &'static [SpmmRoutine] {
    let nnz = problem.nnz();
    let (transposed, large) = (problem.slots.is_some(), nnz >= LARGE);
    if transposed && large {
        &[
            SpmmRoutine::RowScatter,
            SpmmRoutine::RowBlock,
            SpmmRoutine::RowPlane,
        ]
    } else if STAGED.contains(&nnz) && row_staged::pays(problem) {
        &[SpmmRoutine::RowStaged]
    } else if large {
        &[SpmmRoutine::RowBlock, SpmmRoutine::RowPlane]
    } else {
        &[SpmmRoutine::RowPlane]
    }
}

/// Runs the routine that was measured to be fastest, or that is expected to be where measuring is
/// off or not worth it.
pub(super) fn tuned(problem: &SpmmProblem) -> Result<CubeTensor, RoutineError> {
    #[cfg(feature = "autotune")]
    if crate::backend::cube::tune::pays(&problem.x, problem.nnz()) {
        return Ok(tuner::run(problem));
    }
    launch(problem, estimated(problem))
}

#[cfg(feature = "autotune")]
mod tuner {
    use burn_cubecl::{CubeTuneId, tensor::CubeTensor};
    use cubecl::tune::{LocalTuner, local_tuner};

    use super::{CONTEST, SpmmProblem};
    use crate::backend::cube::transpose::is_feature_major;
    use crate::backend::cube::tune::{Direction, Problem, SparseAutotuneKey};

    impl Problem for SpmmProblem {
        fn direction(&self) -> Direction {
            match self.slots {
                None => Direction::Forward,
                Some(_) => Direction::Transposed,
            }
        }

        fn operand(&self) -> &CubeTensor {
            &self.x
        }

        fn outputs(&self) -> usize {
            SpmmProblem::outputs(self)
        }

        fn nnz(&self) -> usize {
            SpmmProblem::nnz(self)
        }

        fn packed(&self) -> bool {
            self.packed
        }

        fn layouts(&self) -> u32 {
            u32::from(is_feature_major(&self.x)) | u32::from(self.writes_feature_major(1)) << 1
        }
    }

    pub(super) fn run(problem: &SpmmProblem) -> CubeTensor {
        static TUNER: LocalTuner<SparseAutotuneKey, CubeTuneId> = local_tuner!();
        CONTEST.run(&TUNER, problem)
    }
}
