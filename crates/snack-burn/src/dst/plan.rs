//! One layer's update, decided on the host.

use rand::Rng;

use super::prune::lowest;
use super::{Grow, Prune, Remap, Source};
use crate::error::SparseError;
use crate::pattern::Pattern;

/// The outcome of a topology update of one layer.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The coordinates after the update.
    pub pattern: Pattern,
    /// Where each slot of it comes from.
    pub remap: Remap,
    /// Connections that left; as many entered.
    pub replaced: usize,
}

/// Replaces `round(fraction nnz)` connections of a layer, limited so that one connection stays
/// and that enough coordinates are free. The number of non-zeros does not change.
///
/// `values` are the non-zeros in slot order.
///
/// # Errors
///
/// Returns an error if the grow criterion proposes coordinates that are not inactive.
pub fn plan(
    pattern: &Pattern,
    values: &[f32],
    fraction: f64,
    prune: &dyn Prune,
    grow: &dyn Grow,
    rng: &mut dyn Rng,
) -> Result<Plan, SparseError> {
    let nnz = pattern.nnz();
    let free = usize::try_from(pattern.size() - nnz as u64).unwrap_or(usize::MAX);
    let count = ((fraction * nnz as f64).round() as usize)
        .min(nnz.saturating_sub(1))
        .min(free);
    let dropped = match count {
        0 => Vec::new(),
        _ => lowest(&prune.scores(values), count),
    };
    let grown = grow.propose(pattern, count, rng)?;
    merge(pattern, &dropped, &grown)
}

/// The pattern without the dropped slots and with the grown coordinates, both ascending.
fn merge(pattern: &Pattern, dropped: &[u32], grown: &[u64]) -> Result<Plan, SparseError> {
    let mut flats = Vec::with_capacity(pattern.nnz() + grown.len() - dropped.len());
    let mut source = Vec::with_capacity(flats.capacity());
    let mut dropped_slots = dropped.iter().copied().peekable();
    let mut grown_flats = grown.iter().copied().peekable();
    for (slot, flat) in (0u32..).zip(pattern.flats()) {
        while let Some(fresh) = grown_flats.next_if(|&fresh| fresh < flat) {
            flats.push(fresh);
            source.push(Source::Fresh);
        }
        if dropped_slots.next_if_eq(&slot).is_none() {
            flats.push(flat);
            source.push(Source::Old(slot));
        }
    }
    for fresh in grown_flats {
        flats.push(fresh);
        source.push(Source::Fresh);
    }
    Ok(Plan {
        pattern: Pattern::from_sorted_flats(pattern.shape(), flats)?,
        remap: Remap {
            old_len: pattern.nnz(),
            source,
        },
        replaced: dropped.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dst::{Magnitude, Uniform};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn check(pattern: &Pattern, fraction: f64, expected: usize, rng: &mut ChaCha8Rng) {
        let values: Vec<f32> = (0..pattern.nnz())
            .map(|_| rng.random::<f32>() - 0.5)
            .collect();
        let plan = plan(pattern, &values, fraction, &Magnitude, &Uniform, rng).unwrap();
        assert_eq!(plan.pattern.nnz(), pattern.nnz());
        assert_eq!(plan.replaced, expected);
        assert_eq!(plan.remap.source.len(), pattern.nnz());
        assert_eq!(
            plan.pattern.overlap(pattern).unwrap(),
            pattern.nnz() - expected
        );
        let kept: Vec<f32> = plan
            .remap
            .source
            .iter()
            .enumerate()
            .filter_map(|(new, source)| match source {
                Source::Old(old) => {
                    assert_eq!(plan.pattern.flat(new), pattern.flat(*old as usize));
                    Some(values[*old as usize].abs())
                }
                Source::Fresh => None,
            })
            .collect();
        let mut sorted: Vec<f32> = values.iter().map(|v| v.abs()).collect();
        sorted.sort_by(f32::total_cmp);
        let threshold = sorted.get(expected).copied().unwrap_or(0.0);
        assert!(kept.iter().all(|&value| value >= threshold));
    }

    #[test]
    fn exactly_the_smallest_are_replaced_by_inactive_coordinates() {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let pattern = Pattern::random([40, 60], 240, &mut rng).unwrap();
        for (fraction, expected) in [(0.0, 0), (0.001, 0), (0.3, 72), (1.0, 239)] {
            check(&pattern, fraction, expected, &mut rng);
        }
    }

    #[test]
    fn dense_and_tiny_patterns_replace_what_they_can() {
        let mut rng = ChaCha8Rng::seed_from_u64(12);
        check(&Pattern::full([5, 7]).unwrap(), 0.5, 0, &mut rng);
        check(&Pattern::empty([5, 7]).unwrap(), 0.5, 0, &mut rng);
        check(
            &Pattern::random([5, 7], 33, &mut rng).unwrap(),
            0.5,
            2,
            &mut rng,
        );
        check(
            &Pattern::random([5, 7], 1, &mut rng).unwrap(),
            1.0,
            0,
            &mut rng,
        );
    }
}
