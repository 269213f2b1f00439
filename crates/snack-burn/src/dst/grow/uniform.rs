use rand::Rng;

use super::{Grow, Quota, Request, free_in_row, row_pattern};
use crate::dst::{DstError, LayerView};
use crate::pattern::Pattern;

/// Every allowed coordinate with equal probability (SET; Mocanu et al., 2018).
#[derive(Debug, Clone, Copy, Default)]
pub struct Uniform;

impl Grow for Uniform {
    fn propose(
        &self,
        _layer: &LayerView<'_>,
        request: &Request<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, DstError> {
        match request.quota {
            Quota::Layer(count) => sample(request, count, rng),
            Quota::Rows(quotas) => sample_rows(request.taken, quotas, rng),
        }
    }
}

/// Up to `count` coordinates that the request allows, anywhere in its rectangle.
pub(super) fn sample(
    request: &Request<'_>,
    count: usize,
    rng: &mut dyn Rng,
) -> Result<Vec<u64>, DstError> {
    let taken = request.taken;
    match request.within {
        None => {
            let free = taken.size() - taken.nnz() as u64;
            let count = count.min(usize::try_from(free).unwrap_or(usize::MAX));
            Ok(taken.sample_inactive(count, rng)?)
        }
        Some(within) => {
            let region = taken.region(within.rows.clone(), within.cols.clone(), &[])?;
            let count = count.min(usize::try_from(region.available()).unwrap_or(usize::MAX));
            Ok(region.sample(count, rng)?)
        }
    }
}

fn sample_rows(taken: &Pattern, quotas: &[usize], rng: &mut dyn Rng) -> Result<Vec<u64>, DstError> {
    let cols = taken.columns();
    let mut flats = Vec::with_capacity(quotas.iter().sum());
    for (row, &quota) in quotas.iter().enumerate() {
        let active = row_pattern(taken, row);
        let quota = quota.min(free_in_row(taken, row));
        let drawn = active.sample_inactive(quota, rng)?;
        flats.extend(drawn.into_iter().map(|col| (row * cols) as u64 + col));
    }
    Ok(flats)
}
