//! Which routine computes a product, by rule or by measurement.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;

use super::{SpmmProblem, launch, panel, row_block, row_plane, row_scatter, row_vector};
use crate::backend::cube::launch::is_cpu;
#[cfg(feature = "autotune")]
use crate::backend::cube::launch::plane_size;
use crate::ops::{RoutineError, SpmmRoutine};

/// Non-zeros from which it pays to stage the dense operand: the launch of a cube that does costs
/// about as much as reading so many (docs/results).
const STAGED_FROM: usize = 2_000_000;

/// Largest batch for which lanes share the entries of a row.
const SMALL_BATCH: usize = 4;

/// The deterministic routines that are measured against each other. `coo_atomic` is not among
/// them, nor is `panel` in full precision, where it has only that of the dense product.
#[cfg(feature = "autotune")]
const CANDIDATES: [SpmmRoutine; 6] = [
    SpmmRoutine::RowBlock,
    SpmmRoutine::RowPlane,
    SpmmRoutine::RowVector,
    SpmmRoutine::RowScatter,
    SpmmRoutine::RowUnit,
    SpmmRoutine::Panel,
];

/// Whether the routine is worth measuring: the device can run it, and the batch is not one at which
/// it is known to be many times slower than another.
#[cfg(feature = "autotune")]
fn competes(problem: &SpmmProblem, routine: SpmmRoutine) -> bool {
    let largest_batch = match routine {
        SpmmRoutine::RowScatter => 16,
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
        SpmmRoutine::RowVector => row_vector::plan(problem).is_ok(),
        SpmmRoutine::RowScatter => row_scatter::plan(problem).is_ok(),
        SpmmRoutine::Panel => {
            matches!(problem.x.dtype, DType::F16 | DType::BF16) && panel::spmm_fits(problem).is_ok()
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
    let large = problem.nnz() >= STAGED_FROM;
    let preferred: &[SpmmRoutine] = match (problem.batch() <= SMALL_BATCH, large) {
        (true, true) => &[
            SpmmRoutine::RowScatter,
            SpmmRoutine::RowBlock,
            SpmmRoutine::RowPlane,
        ],
        (true, false) => &[SpmmRoutine::RowPlane],
        (false, _) => &[SpmmRoutine::RowVector],
    };
    preferred
        .iter()
        .copied()
        .find(|&routine| fits(problem, routine))
        .unwrap_or(SpmmRoutine::RowUnit)
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
    use cubecl::tune::{LocalTuner, Tunable, TunableSet, local_tuner};

    use super::{CANDIDATES, SpmmProblem, competes, launch};
    use crate::backend::cube::tune::{Direction, SparseAutotuneKey};

    fn key(problem: &SpmmProblem) -> SparseAutotuneKey {
        let candidates = CANDIDATES.iter().enumerate();
        SparseAutotuneKey::new(
            match problem.slots {
                None => Direction::Forward,
                Some(_) => Direction::Transposed,
            },
            problem.x.dtype,
            problem.outputs(),
            problem.x.meta.shape()[1],
            problem.nnz(),
            problem.batch(),
            problem.packed,
            candidates
                .filter(|&(_, &routine)| competes(problem, routine))
                .map(|(bit, _)| 1 << bit)
                .sum(),
        )
    }

    pub(super) fn run(problem: &SpmmProblem) -> CubeTensor {
        static TUNER: LocalTuner<SparseAutotuneKey, CubeTuneId> = local_tuner!();

        let id = CubeTuneId::new(&problem.x.client, &problem.x.device);
        let tunables = TUNER.init(&id, || {
            let set: TunableSet<SparseAutotuneKey, SpmmProblem, CubeTensor> =
                TunableSet::new_cloning_inputs(key);
            CANDIDATES.into_iter().fold(set, |set, routine| {
                let name = routine.name();
                let run = move |problem: SpmmProblem| {
                    if !competes(&problem, routine) {
                        return Err(format!("routine `{name}` does not fit"));
                    }
                    launch(&problem, routine).map_err(|error| error.to_string())
                };
                set.with(Tunable::new(name, run))
            })
        });
        TUNER.execute(&id, &problem.x.client, tunables, problem.clone())
    }
}
