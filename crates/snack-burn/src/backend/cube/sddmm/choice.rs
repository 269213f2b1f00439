//! Which routine computes a sampled product, by rule or by measurement.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;

use super::{SddmmProblem, launch, panel, row_block, row_vector};
use crate::backend::cube::launch::is_cpu;
use crate::ops::{RoutineError, SddmmRoutine};

/// Non-zeros from which it pays to stage `X`: until then one unit per non-zero is done sooner.
const STAGED_FROM: usize = 500_000;

/// Largest batch for which `X` is staged as it is.
const SMALL_BATCH: usize = 4;

/// The routines that are measured against each other; not `panel` in full precision, where it has
/// only that of the dense product.
#[cfg(feature = "autotune")]
const CANDIDATES: [SddmmRoutine; 4] = [
    SddmmRoutine::RowBlock,
    SddmmRoutine::RowVector,
    SddmmRoutine::OuterProduct,
    SddmmRoutine::Panel,
];

/// Whether the routine is worth measuring: the device can run it, and the batch is not one at which
/// it is known to be many times slower than another.
#[cfg(feature = "autotune")]
fn competes(problem: &SddmmProblem, routine: SddmmRoutine) -> bool {
    let largest_batch = match routine {
        SddmmRoutine::RowBlock => 64,
        SddmmRoutine::OuterProduct if row_vector::plan(problem).is_ok() => 16,
        _ => usize::MAX,
    };
    problem.batch() <= largest_batch && fits(problem, routine)
}

/// Whether the device can run the routine on the problem.
fn fits(problem: &SddmmProblem, routine: SddmmRoutine) -> bool {
    match routine {
        SddmmRoutine::RowBlock => row_block::plan(problem).is_ok(),
        SddmmRoutine::RowVector => row_vector::plan(problem).is_ok(),
        SddmmRoutine::Panel => {
            matches!(problem.x.dtype, DType::F16 | DType::BF16)
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
    let preferred = match problem.batch() <= SMALL_BATCH {
        true if problem.nnz < STAGED_FROM => SddmmRoutine::OuterProduct,
        true => SddmmRoutine::RowBlock,
        false => SddmmRoutine::RowVector,
    };
    match fits(problem, preferred) {
        true => preferred,
        false => SddmmRoutine::OuterProduct,
    }
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
    use cubecl::tune::{LocalTuner, Tunable, TunableSet, local_tuner};

    use super::{CANDIDATES, SddmmProblem, competes, launch};
    use crate::backend::cube::tune::{Direction, SparseAutotuneKey};

    fn key(problem: &SddmmProblem) -> SparseAutotuneKey {
        let candidates = CANDIDATES.iter().enumerate();
        SparseAutotuneKey::new(
            Direction::Sampled,
            problem.x.dtype,
            problem.y.meta.shape()[1],
            problem.x.meta.shape()[1],
            problem.nnz,
            problem.batch(),
            problem.packed,
            candidates
                .filter(|&(_, &routine)| competes(problem, routine))
                .map(|(bit, _)| 1 << bit)
                .sum(),
        )
    }

    pub(super) fn run(problem: &SddmmProblem) -> CubeTensor {
        static TUNER: LocalTuner<SparseAutotuneKey, CubeTuneId> = local_tuner!();

        let id = CubeTuneId::new(&problem.x.client, &problem.x.device);
        let tunables = TUNER.init(&id, || {
            let set: TunableSet<SparseAutotuneKey, SddmmProblem, CubeTensor> =
                TunableSet::new_cloning_inputs(key);
            CANDIDATES.into_iter().fold(set, |set, routine| {
                let name = routine.name();
                let run = move |problem: SddmmProblem| {
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
