//! What a measured choice of a routine is remembered by.
#![cfg(feature = "autotune")]

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::AutotuneKey;
use serde::{Deserialize, Serialize};

use super::launch::is_cpu;

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
    /// One bit per routine that fits, so that none is remembered for a problem that it cannot run.
    candidates: u32,
}

/// Whether measuring is worth it.
pub(super) fn pays(x: &CubeTensor, nnz: usize) -> bool {
    !is_cpu(&x.client) && nnz.saturating_mul(x.meta.shape()[0]) >= TUNED_FROM
}
