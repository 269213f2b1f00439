//! RigL with a constant fan-in, and the removal of neurons that are not worth it.

use std::cmp::Reverse;

use super::scope::lowest;
use super::{
    DstError, LayerView, Magnitude, Method, NetView, Plan, Prune, Signals, Turnover, UpdateRandom,
};
use crate::pattern::Pattern;

/// Structured RigL (Lasby et al., 2024): all neurons of a layer have the same number of inputs, and
/// neurons with few salient connections lose all of theirs to the others.
///
/// A connection is salient if it is among the `nnz - drop` largest magnitudes, or the coordinate
/// among the `drop` largest gradients outside those. A neuron with fewer salient connections than
/// the ablation share of the present fan-in is removed, except in the last layer of the group; it
/// comes back once it has enough. The connections are then spread evenly over the remaining
/// neurons: each keeps its largest weights that were not dropped and grows where its gradient is
/// largest. Where the number of connections is no multiple of that of neurons, some have one more.
///
/// A connection that was dropped may return with value and state; others start at zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SRigL {
    ablation: Option<f64>,
}

impl SRigL {
    /// `ablation` is the salient share of the fan-in below which a neuron is removed: 0.3 for
    /// convolutional networks and 0.95 for transformers in the paper; `None` removes none.
    ///
    /// # Errors
    ///
    /// [`DstError::InvalidParameter`] for a share outside `[0, 1]`.
    pub fn new(ablation: Option<f64>) -> Result<Self, DstError> {
        match ablation {
            Some(value) if !(0.0..=1.0).contains(&value) => Err(DstError::InvalidParameter {
                what: "ablation share",
                value,
                expected: "a number in [0, 1]",
            }),
            ablation => Ok(Self { ablation }),
        }
    }

    fn layer(
        &self,
        layer: &LayerView<'_>,
        turnover: Turnover,
        last: bool,
    ) -> Result<Plan, DstError> {
        let (pattern, source) = (layer.pattern, layer.factors()?);
        let magnitudes = Magnitude.scores(layer)?;
        let drop = layer.quotas(turnover).drop;
        let dropped = lowest(&magnitudes, drop);
        let kept = Plan::new(pattern, &dropped, &[])?.pattern;

        let mut salient = kept.fan_in();
        for candidate in source.top_k(&kept, drop)? {
            salient[(candidate.flat / pattern.columns() as u64) as usize] += 1;
        }
        let rows = match self.ablation {
            Some(share) if !last => surviving_rows(pattern, &salient, share),
            _ => vec![true; pattern.rows()],
        };
        let fan_in = even_fan_in(pattern, &rows);

        let slots = slots_to_keep(pattern, &magnitudes, &dropped, &fan_in);
        let dropped: Vec<u32> = (0..pattern.nnz() as u32)
            .filter(|slot| slots.binary_search(slot).is_err())
            .collect();
        let kept = Plan::new(pattern, &dropped, &[])?.pattern;
        let quotas: Vec<usize> = kept
            .fan_in()
            .into_iter()
            .zip(&fan_in)
            .map(|(found, wanted)| wanted - found)
            .collect();
        let grown = source.top_k_per_row(&kept, &quotas)?;
        let mut flats: Vec<u64> = grown.iter().map(|candidate| candidate.flat).collect();
        flats.sort_unstable();
        Ok(Plan::new(pattern, &dropped, &flats)?)
    }
}

/// Neurons with enough salient connections, and at least as many as the connections need.
fn surviving_rows(pattern: &Pattern, salient: &[usize], share: f64) -> Vec<bool> {
    let active = pattern.fan_in().iter().filter(|&&count| count > 0).count();
    let fan_in = pattern.nnz() as f64 / active.max(1) as f64;
    let mut rows: Vec<bool> = salient
        .iter()
        .map(|&count| count > 0 && count as f64 >= share * fan_in)
        .collect();
    let needed = pattern.nnz().div_ceil(pattern.columns().max(1));
    let mut order: Vec<usize> = (0..rows.len()).filter(|&row| !rows[row]).collect();
    order.sort_by_key(|&row| Reverse(salient[row]));
    let missing = needed.saturating_sub(rows.len() - order.len());
    order
        .into_iter()
        .take(missing)
        .for_each(|row| rows[row] = true);
    rows
}

/// The connections spread evenly over the given rows; one more for those that have most now.
fn even_fan_in(pattern: &Pattern, rows: &[bool]) -> Vec<usize> {
    let now = pattern.fan_in();
    let mut chosen: Vec<usize> = (0..rows.len()).filter(|&row| rows[row]).collect();
    let mut fan_in = vec![0; rows.len()];
    if chosen.is_empty() {
        return fan_in;
    }
    let (each, more) = (pattern.nnz() / chosen.len(), pattern.nnz() % chosen.len());
    chosen.sort_by_key(|&row| (Reverse(now[row]), row));
    for (place, row) in chosen.into_iter().enumerate() {
        fan_in[row] = each + usize::from(place < more);
    }
    fan_in
}

/// Of the slots that are not dropped, the largest of every row, up to its fan-in; ascending.
fn slots_to_keep(
    pattern: &Pattern,
    magnitudes: &[f32],
    dropped: &[u32],
    fan_in: &[usize],
) -> Vec<u32> {
    let mut kept = Vec::with_capacity(pattern.nnz());
    for (row, bounds) in pattern.row_offsets().windows(2).enumerate() {
        let mut slots: Vec<u32> = (bounds[0] as u32..bounds[1] as u32)
            .filter(|slot| dropped.binary_search(slot).is_err())
            .collect();
        let magnitude = |slot: u32| magnitudes[slot as usize];
        slots.sort_by(|&a, &b| magnitude(b).total_cmp(&magnitude(a)).then(a.cmp(&b)));
        slots.truncate(fan_in[row]);
        slots.sort_unstable();
        kept.extend(slots);
    }
    kept
}

impl Method for SRigL {
    fn needs(&self) -> Signals {
        Signals::FACTORS
    }

    fn plan(
        &self,
        net: &NetView<'_>,
        turnover: Turnover,
        _random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        let last = net.layers.len().saturating_sub(1);
        let layers = net.layers.iter().enumerate();
        layers
            .map(|(index, layer)| self.layer(layer, turnover, index == last))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dst::HostFactors;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const RANDOM: UpdateRandom = UpdateRandom { seed: 0, step: 1 };

    fn list(len: usize, rng: &mut ChaCha8Rng) -> Vec<f32> {
        (0..len).map(|_| rng.random::<f32>() - 0.5).collect()
    }

    #[test]
    fn the_fan_in_is_constant_and_the_count_is_kept() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..40 {
            let shape = [rng.random_range(2..9), rng.random_range(3..12)];
            let nnz = rng.random_range(1..=shape[0] * shape[1]);
            let pattern = Pattern::random(shape, nnz, &mut rng).unwrap();
            let values = list(nnz, &mut rng);
            let (g, x) = (list(2 * shape[0], &mut rng), list(2 * shape[1], &mut rng));
            let factors = HostFactors::new(shape, 2, g, x);
            let mut layer = LayerView::new("fc", &pattern, &values);
            layer.factors = Some(&factors);
            let net = NetView::new(vec![layer, layer], 1);
            for ablation in [None, Some(0.3), Some(0.95)] {
                let method = SRigL::new(ablation).unwrap();
                let plans = method.plan(&net, Turnover::replace(0.3), RANDOM).unwrap();
                for (plan, last) in plans.iter().zip([false, true]) {
                    assert_eq!(plan.pattern.nnz(), nnz);
                    assert_eq!(plan.dropped, plan.grown);
                    let fan_in = plan.pattern.fan_in();
                    let active: Vec<_> = fan_in.iter().filter(|&&count| count > 0).collect();
                    let (low, high) = (active.iter().min(), active.iter().max());
                    assert!(**high.unwrap() - **low.unwrap() <= 1, "{fan_in:?}");
                    if (last || ablation.is_none()) && nnz >= shape[0] {
                        assert_eq!(active.len(), shape[0], "no neuron is removed");
                    }
                }
            }
        }
    }

    /// Step by step by hand: a row of tiny weights and gradients gives its places to the others.
    #[test]
    fn a_neuron_without_salient_connections_is_removed() {
        let pattern =
            Pattern::from_offsets([3, 4], vec![0, 2, 4, 6], vec![0, 1, 0, 1, 0, 1]).unwrap();
        let values = [3.0, -2.0, 0.1, 0.2, 4.0, -5.0];
        // The gradient is 1, 2, 3, 4 in the first row, zeros in the second, half of it in the last.
        let factors = HostFactors::new([3, 4], 1, vec![1.0, 0.0, 0.5], vec![1.0, 2.0, 3.0, 4.0]);
        let mut layer = LayerView::new("fc", &pattern, &values);
        layer.factors = Some(&factors);
        let net = NetView::new(vec![layer, layer], 1);
        let method = SRigL::new(Some(0.5)).unwrap();
        let plans = method
            .plan(&net, Turnover::replace(1.0 / 3.0), RANDOM)
            .unwrap();
        // Two leave, both of the middle row, which has nothing left: fan-in 3 for the others.
        assert_eq!(plans[0].pattern.fan_in(), [3, 0, 3]);
        assert_eq!(plans[0].pattern.row(0), [0, 1, 3]);
        assert_eq!(plans[0].pattern.row(2), [0, 1, 3]);
        assert_eq!((plans[0].dropped, plans[0].grown), (2, 2));
        // The last layer keeps its neurons: the middle row regrows among equal gradients.
        assert_eq!(plans[1].pattern.fan_in(), [2, 2, 2]);
        assert_eq!((plans[1].dropped, plans[1].returned), (0, 2));
        assert!(SRigL::new(Some(1.5)).is_err());
    }
}
