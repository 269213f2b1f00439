//! The largest entries of a dense gradient outside a pattern.
//!
//! A panel of scores is computed tile by tile, each score as a *word*; then the exact threshold is
//! found on the device by counting digits of the words, and only what is above it is written.

mod plain;
mod rows;
mod scores;
mod select;
mod word;

use burn::backend::ops::IntTensorOps;
use burn::tensor::{DType, IntDType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::client::Client;
use cubecl::features::AtomicUsage;
use cubecl::ir::{ElemType, Type, UIntKind};

use crate::ops::{GradientPanel, composed};

/// Units per cube of the kernels that search.
const UNITS: u32 = 256;

/// A panel of a gradient, all tensors contiguous on one device.
pub(super) struct GrowthProblem {
    /// `[batch, m]`.
    g: CubeTensor,
    /// `[batch, k]`.
    x: CubeTensor,
    /// `[rows, ceil(cols / 32)]`.
    mask: CubeTensor,
    panel: GradientPanel,
}

impl GrowthProblem {
    pub fn new(g: CubeTensor, x: CubeTensor, mask: CubeTensor, panel: GradientPanel) -> Self {
        Self {
            g: into_contiguous(g),
            x: into_contiguous(x),
            mask: into_contiguous(mask),
            panel,
        }
    }

    fn batch(&self) -> usize {
        self.g.meta.shape()[0]
    }

    fn empty<const D: usize>(&self, dims: [usize; D], dtype: DType) -> CubeTensor {
        let (client, device) = (self.g.client.clone(), self.g.device.clone());
        empty_device_contiguous_dtype(client, device, Shape::new(dims), dtype)
    }

    /// Positions that say "none", and room for as many gradients.
    fn outputs(&self, count: usize) -> (CubeTensor, CubeTensor) {
        let shape = Shape::new([count]);
        let positions = CubeBackend::int_full(shape, (-1).into(), &self.g.device, IntDType::I32);
        (positions, self.empty([count], DType::F32))
    }
}

/// Whether the device runs the kernels of tiles and of the search. If not, [`plain`] and the host
/// take their place.
fn has_cubes(client: &Client) -> bool {
    let hardware = &client.properties().hardware;
    hardware.max_units_per_cube >= UNITS
        && hardware.max_shared_memory_size >= scores::SHARED_BYTES
        && counts_atomically(client)
}

fn counts_atomically(client: &Client) -> bool {
    let usage = client
        .properties()
        .atomic_type_usage(Type::atomic(ElemType::UInt(UIntKind::U32)));
    usage.contains(AtomicUsage::Add) && usage.contains(AtomicUsage::LoadStore)
}

/// The `count` largest of the panel from `floor` on: positions and gradients.
pub(super) fn top(problem: GrowthProblem, count: usize, floor: f32) -> (CubeTensor, CubeTensor) {
    if !has_cubes(&problem.g.client) {
        let gradients = plain::launch(&problem);
        let GrowthProblem { mask, panel, .. } = problem;
        return composed::search::<CubeBackend>(gradients, mask, &panel, count, floor);
    }
    let words = scores::launch(&problem);
    select::launch(&problem, &words, count, floor)
}

/// The largest of each row of the panel.
pub(super) fn top_per_row(
    problem: GrowthProblem,
    starts: CubeTensor,
    total: usize,
) -> (CubeTensor, CubeTensor) {
    if !has_cubes(&problem.g.client) {
        let gradients = plain::launch(&problem);
        let GrowthProblem { mask, panel, .. } = problem;
        return composed::search_rows::<CubeBackend>(gradients, mask, starts, &panel);
    }
    let words = scores::launch(&problem);
    rows::launch(&problem, &words, into_contiguous(starts), total)
}
