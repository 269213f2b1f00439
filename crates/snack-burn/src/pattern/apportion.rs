use std::ops::RangeInclusive;

/// Integers in proportion to weights, as far as bounds allow, with an exact sum: the real numbers
/// `clamp(c w_i)` of the one factor `c` that gives the sum, rounded by largest remainder, where
/// equal remainders go to lower indices first.
///
/// # Arguments
///
/// * `weights` - finite and at least 0.
/// * `bounds` - smallest and largest number for each weight.
/// * `total` - the sum.
///
/// Returns `None` if the bounds do not allow the sum.
pub(crate) fn apportion(
    weights: &[f64],
    bounds: &[RangeInclusive<u64>],
    total: u64,
) -> Option<Vec<u64>> {
    debug_assert_eq!(weights.len(), bounds.len());
    let sum = |of: fn(&RangeInclusive<u64>) -> u64| bounds.iter().map(of).sum::<u64>();
    if total < sum(|range| *range.start()) || total > sum(|range| *range.end()) {
        return None;
    }
    let clamped = |index: usize, factor: f64| {
        let range = &bounds[index];
        (factor * weights[index]).clamp(*range.start() as f64, *range.end() as f64)
    };
    let factor = factor(total as f64, |factor| {
        (0..weights.len()).map(|index| clamped(index, factor)).sum()
    });
    let shares: Vec<f64> = (0..weights.len())
        .map(|index| clamped(index, factor))
        .collect();
    // Above 2^53 a bound may have been rounded up.
    let rounded = |(share, range): (&f64, &RangeInclusive<u64>)| {
        (*share as u64).clamp(*range.start(), *range.end())
    };
    let mut counts: Vec<u64> = shares.iter().zip(bounds).map(rounded).collect();
    settle(&mut counts, &shares, bounds, total);
    Some(counts)
}

/// The smallest factor, to the last bit, with which a sum that climbs with it reaches `total`; or
/// a very large one, if it never does.
fn factor(total: f64, sum: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while sum(high) < total && high < f64::MAX / 2.0 {
        low = high;
        high *= 2.0;
    }
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return high;
        }
        if sum(middle) < total {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// Adds ones where most was rounded off, or takes ones where least was, until the sum is `total`.
/// The bounds must allow it.
fn settle(counts: &mut [u64], shares: &[f64], bounds: &[RangeInclusive<u64>], total: u64) {
    let mut sum: u64 = counts.iter().sum();
    let mut order: Vec<usize> = (0..counts.len()).collect();
    let remainder = |index: usize| shares[index] - shares[index].floor();
    order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)).then(a.cmp(&b)));
    while sum < total {
        for &index in &order {
            if sum < total && counts[index] < *bounds[index].end() {
                counts[index] += 1;
                sum += 1;
            }
        }
    }
    while sum > total {
        for &index in order.iter().rev() {
            if sum > total && counts[index] > *bounds[index].start() {
                counts[index] -= 1;
                sum -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn largest_remainders_win_and_ties_go_to_the_front() {
        let free = vec![0..=100; 3];
        let split = |weights: &[f64], total| apportion(weights, &free, total).unwrap();
        assert_eq!(split(&[1.0, 1.0, 1.0], 4), [2, 1, 1]);
        assert_eq!(split(&[1.0, 1.0, 1.0], 5), [2, 2, 1]);
        assert_eq!(split(&[5.0, 3.0, 2.0], 10), [5, 3, 2]);
        assert_eq!(split(&[6.0, 3.0, 1.0], 5), [3, 2, 0]);
    }

    #[test]
    fn what_a_bound_takes_the_others_share() {
        let counts = apportion(&[8.0, 1.0, 1.0], &[0..=4, 0..=9, 3..=9], 10);
        assert_eq!(counts, Some(vec![4, 3, 3]));
        let counts = apportion(&[1.0, 0.0], &[0..=2, 0..=9], 5);
        assert_eq!(counts, Some(vec![2, 3]));
    }

    #[test]
    fn sums_out_of_bounds_are_refused() {
        let bounds = [1..=2, 1..=3];
        for (total, possible) in [(1, false), (2, true), (5, true), (6, false)] {
            assert_eq!(
                apportion(&[1.0, 1.0], &bounds, total).is_some(),
                possible,
                "{total}"
            );
        }
        assert_eq!(apportion(&[], &[], 0), Some(vec![]));
        assert_eq!(apportion(&[], &[], 1), None);
    }

    proptest! {
        #[test]
        fn sums_are_exact_and_bounds_hold(
            parts in prop::collection::vec((0.0f64..1e6, 0u64..50, 0u64..5000), 1..30),
            share in 0.0f64..=1.0,
        ) {
            let weights: Vec<f64> = parts.iter().map(|part| part.0).collect();
            let bounds: Vec<_> = parts.iter().map(|part| part.1..=part.1 + part.2).collect();
            let low: u64 = parts.iter().map(|part| part.1).sum();
            let room: u64 = parts.iter().map(|part| part.2).sum();
            let total = low + (share * room as f64) as u64;
            let counts = apportion(&weights, &bounds, total).unwrap();
            prop_assert_eq!(counts.iter().sum::<u64>(), total);
            for (count, range) in counts.iter().zip(&bounds) {
                prop_assert!(range.contains(count));
            }
        }
    }
}
