//! Choosing a routine by measurement, and what the choice is remembered by.
#![cfg(feature = "autotune")]

use burn::tensor::DType;
use burn_cubecl::{CubeTuneId, tensor::CubeTensor};
use cubecl::AutotuneKey;
use cubecl::tune::{LocalTuner, Tunable, TunableSet, TuneGroup};
use serde::{Deserialize, Serialize};

use super::launch::is_cpu;
use crate::ops::RoutineError;

/// Multiplications from which a choice is measured: fewer take some tens of microseconds, most of
/// which is the launch, and single measurements do not resolve the differences.
const TUNED_FROM: usize = 1 << 25;

/// Which product a key is for.
#[derive(Hash, Eq, PartialEq, Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum Direction {
    /// `Y = X W^T`.
    Forward,
    /// `X = Y W`.
    Transposed,
    /// The sampled product.
    Sampled,
}

/// Problems with one key are taken to have one fastest routine: their sizes are alike on a
/// logarithmic scale, and the device can run the same routines on them.
#[derive(Hash, Eq, PartialEq, Debug, Clone, Serialize, Deserialize, AutotuneKey)]
pub(super) struct SparseAutotuneKey {
    direction: Direction,
    dtype: DType,
    #[autotune(anchor)]
    outputs: usize,
    #[autotune(anchor)]
    inputs: usize,
    #[autotune(anchor)]
    nnz: usize,
    #[autotune(anchor)]
    batch: usize,
    packed: bool,
    /// Which of operands and output are feature-major, one bit each.
    layouts: u32,
    /// One bit per routine that fits, so that none is remembered for a problem that it cannot run.
    candidates: u32,
}

/// Whether measuring is worth it.
pub(super) fn pays(x: &CubeTensor, nnz: usize) -> bool {
    !is_cpu(&x.client) && nnz.saturating_mul(x.meta.shape()[0]) >= TUNED_FROM
}

/// The routines that an operation chooses among.
pub(super) struct Contest<P: 'static, R: 'static> {
    /// Routines with the names that their measurements are kept under.
    pub candidates: &'static [(&'static str, R)],
    /// Whether a routine takes part in a problem.
    pub competes: fn(&P, R) -> bool,
    /// The routine that runs where none could be measured.
    pub estimated: fn(&P) -> R,
    pub launch: fn(&P, R) -> Result<CubeTensor, RoutineError>,
}

impl<P: Problem, R: Copy + Send + Sync + 'static> Contest<P, R> {
    /// Runs the fastest routine; the first problem of a kind runs them all.
    pub fn run(
        &'static self,
        tuner: &'static LocalTuner<SparseAutotuneKey, CubeTuneId>,
        problem: &P,
    ) -> CubeTensor {
        let x = problem.operand();
        let id = CubeTuneId::new(&x.client, &x.device);
        let tunables = tuner.init(&id, move || {
            let contest = TuneGroup::new("contest", |_: &SparseAutotuneKey| 1);
            let otherwise = TuneGroup::new("otherwise", |_: &SparseAutotuneKey| 0);
            let launch = move |problem: &P, routine| {
                (self.launch)(problem, routine).map_err(|error| error.to_string())
            };
            let estimated = move |problem: P| launch(&problem, (self.estimated)(&problem));
            let set: TunableSet<SparseAutotuneKey, P, CubeTensor> =
                TunableSet::new_cloning_inputs(|problem: &P| self.key(problem));
            // The first one is what the tuner runs when it has measured none.
            let set = set.with(Tunable::new("estimated", estimated).group(&otherwise, |_| 0));
            let candidates = self.candidates.iter().enumerate();
            candidates.fold(set, |set, (bit, &(name, routine))| {
                let run = move |problem: P| launch(&problem, routine);
                let competes = move |key: &SparseAutotuneKey| match key.candidates >> bit & 1 {
                    0 => -1,
                    _ => 0,
                };
                set.with(Tunable::new(name, run).group(&contest, competes))
            })
        });
        tuner.execute(&id, &x.client, tunables, problem.clone())
    }

    fn key(&self, problem: &P) -> SparseAutotuneKey {
        let x = problem.operand();
        let candidates = self.candidates.iter().enumerate();
        SparseAutotuneKey::new(
            problem.direction(),
            x.dtype,
            problem.outputs(),
            x.meta.shape()[1],
            problem.nnz(),
            x.meta.shape()[0],
            problem.packed(),
            problem.layouts(),
            candidates
                .filter(|&(_, &(_, routine))| (self.competes)(problem, routine))
                .map(|(bit, _)| 1 << bit)
                .sum(),
        )
    }
}

/// What a key is made of.
pub(super) trait Problem: Clone + Send + Sync + 'static {
    fn direction(&self) -> Direction;
    /// The dense operand, `[batch, inputs]`.
    fn operand(&self) -> &CubeTensor;
    fn outputs(&self) -> usize;
    fn nnz(&self) -> usize;
    fn packed(&self) -> bool;
    /// Which of operands and output are feature-major, one bit each.
    fn layouts(&self) -> u32;
}
