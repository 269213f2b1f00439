//! Growth on paths through the network.

use rand_chacha::ChaCha8Rng;

use super::base::proposal;
use crate::dst::{DstError, Grow, LayerView, Quota, Rectangle, Request};
use crate::pattern::Pattern;

/// Coordinates of which a share lies where a connection is functional, or at least where the inputs
/// of the network reach, as far as there are such.
pub(super) fn guided(
    grow: &dyn Grow,
    layer: &LayerView<'_>,
    taken: &Pattern,
    count: usize,
    guidance: f64,
    rng: &mut ChaCha8Rng,
) -> Result<Vec<u64>, DstError> {
    let functional = layer.functional()?;
    let target = (guidance * count as f64).round() as usize;
    let forward = functional.inputs();
    let everywhere = (0..taken.rows() as u32).collect();
    let regions = [
        (functional.outputs(), forward.clone()),
        (everywhere, forward),
    ]
    .map(|(rows, cols)| Some(Rectangle { rows, cols }));
    let mut taken = taken.clone();
    let mut grown: Vec<u64> = Vec::new();
    for (within, target) in regions.iter().map(|r| (r, target)).chain([(&None, count)]) {
        if grown.len() >= target {
            continue;
        }
        let request = Request {
            within: within.as_ref(),
            ..Request::new(Quota::Layer(target - grown.len()), &taken)
        };
        let more = grow.propose(layer, &request, rng)?;
        let pattern = Pattern::from_sorted_flats(taken.shape(), more.iter().copied())
            .map_err(|source| proposal(layer, source))?;
        taken = taken.union(&pattern)?;
        grown.extend(more);
    }
    grown.sort_unstable();
    Ok(grown)
}
