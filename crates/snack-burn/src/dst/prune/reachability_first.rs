//! Connections that no path from input to output uses leave before all others.

/// Lowers the scores of non-functional connections.
///
/// With a guidance of 1 every non-functional connection comes before every functional one, each
/// kind in the order of its scores. Less guidance scales the scores of the non-functional ones by
/// `1 - guidance`. Scores that are negative or NaN count as they are.
pub(crate) fn lower_non_functional(
    scores: &mut [f32],
    functional: impl Fn(usize) -> bool,
    guidance: f64,
) {
    for (slot, score) in scores.iter_mut().enumerate() {
        if functional(slot) || score.is_nan() || *score < 0.0 {
            continue;
        }
        *score = match guidance < 1.0 {
            true => (f64::from(*score) * (1.0 - guidance)) as f32,
            false => below_zero(*score),
        };
    }
}

/// An increasing one-to-one map of the non-negative numbers below zero.
fn below_zero(score: f32) -> f32 {
    let largest = f32::MAX.to_bits();
    -f32::from_bits(largest - score.abs().to_bits().min(largest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dst::scope::lowest;

    #[test]
    fn non_functional_first_in_their_own_order() {
        let mut scores = [0.1, 5.0, 0.0, 7.0, f32::MAX, f32::NAN];
        lower_non_functional(&mut scores, |slot| [0, 2].contains(&slot), 1.0);
        let order: Vec<u32> = (1..=6)
            .map(|count| {
                let taken = lowest(&scores, count);
                let before = lowest(&scores, count - 1);
                *taken.iter().find(|slot| !before.contains(slot)).unwrap()
            })
            .collect();
        assert_eq!(order, [1, 3, 4, 2, 0, 5]);
    }

    #[test]
    fn less_guidance_lowers_less() {
        let mut scores = [1.0, 4.0, 0.5];
        lower_non_functional(&mut scores, |slot| slot != 1, 0.0);
        assert_eq!(scores, [1.0, 4.0, 0.5]);
        lower_non_functional(&mut scores, |slot| slot != 1, 0.8);
        assert!((scores[1] - 0.8).abs() < 1e-6);
    }
}
