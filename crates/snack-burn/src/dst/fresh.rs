//! The values of new connections.

use rand::Rng;
use rand_distr::{Distribution, Normal, Uniform};
use serde::{Deserialize, Serialize};

use super::DstError;
use crate::pattern::Pattern;

/// What value a new connection starts with.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum FreshValue {
    /// 0: the function of the layer does not change (RigL, ITOP, MEST, SMET).
    #[default]
    Zero,
    /// `N(0, std^2)` (SET; Mocanu et al., 2018, with 0.1).
    Normal {
        /// The standard deviation.
        std: f64,
    },
    /// `U(-a, a)` with `a = gain / sqrt(F_i)`, where `F_i` is the number of non-zeros in row `i`
    /// after the update.
    Uniform {
        /// 1 gives the bound of Burn's and PyTorch's `Linear`.
        gain: f64,
    },
    /// A connection that was dropped and regrown in the same update is as if it had stayed, with
    /// its value and its optimizer state (RigL; Evci et al., 2020). Others start with the inner
    /// value.
    KeepIfReturned(Box<FreshValue>),
}

impl FreshValue {
    /// Whether a connection that is dropped and regrown in one update counts as a survivor.
    pub fn keeps_returned(&self) -> bool {
        matches!(self, Self::KeepIfReturned(_))
    }

    /// Draws the values of new connections.
    ///
    /// # Arguments
    ///
    /// * `pattern` - the coordinates after the update.
    /// * `fresh` - the slots of the new ones, increasing. With
    ///   [`KeepIfReturned`](Self::KeepIfReturned) those that returned are not among them.
    /// * `rng` - its state determines the values.
    ///
    /// # Returns
    ///
    /// One value per fresh slot, `[fresh.len()]`.
    ///
    /// # Panics
    ///
    /// Panics if a slot is not below `nnz`, slots are not in order, or a setting does not pass
    /// [`validate`](Self::validate).
    pub fn draw<R: Rng + ?Sized>(&self, pattern: &Pattern, fresh: &[u32], rng: &mut R) -> Vec<f32> {
        assert!(
            fresh.is_sorted()
                && fresh
                    .last()
                    .is_none_or(|&slot| (slot as usize) < pattern.nnz()),
            "fresh slots must be increasing and below {}",
            pattern.nnz()
        );
        match *self {
            Self::Zero => vec![0.0; fresh.len()],
            Self::Normal { std } => {
                let law = Normal::new(0.0, std).expect("a finite standard deviation");
                fresh.iter().map(|_| law.sample(rng) as f32).collect()
            }
            Self::Uniform { gain } => {
                let unit = Uniform::new_inclusive(-gain, gain).expect("a finite gain");
                let offsets = pattern.row_offsets();
                let mut row = 0;
                let value = |&slot: &u32| {
                    while offsets[row + 1] <= slot as usize {
                        row += 1;
                    }
                    let fan_in = offsets[row + 1] - offsets[row];
                    (unit.sample(rng) / (fan_in as f64).sqrt()) as f32
                };
                fresh.iter().map(value).collect()
            }
            Self::KeepIfReturned(ref inner) => inner.draw(pattern, fresh, rng),
        }
    }

    /// Refuses numbers out of range.
    ///
    /// # Errors
    ///
    /// [`DstError::InvalidParameter`] if `std` or `gain` is negative or not finite.
    pub fn validate(&self) -> Result<(), DstError> {
        let (what, value) = match *self {
            Self::Zero => return Ok(()),
            Self::Normal { std } => ("standard deviation of fresh values", std),
            Self::Uniform { gain } => ("gain of fresh values", gain),
            Self::KeepIfReturned(ref inner) => return inner.validate(),
        };
        match value >= 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(DstError::InvalidParameter {
                what,
                value,
                expected: "a finite number of at least 0",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// Fan-ins 4, 0 and 100.
    fn pattern() -> Pattern {
        let cols = (0..4).chain(0..100).collect();
        Pattern::from_offsets([3, 200], vec![0, 4, 4, 104], cols).unwrap()
    }

    fn draw(value: &FreshValue, fresh: &[u32], seed: u64) -> Vec<f32> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        value.draw(&pattern(), fresh, &mut rng)
    }

    /// Root of the mean square of a slot's values.
    fn spread(value: &FreshValue, slot: u32) -> f64 {
        let draws = (0..4000).map(|seed| f64::from(draw(value, &[slot], seed)[0]));
        (draws.map(|x| x * x).sum::<f64>() / 4000.0).sqrt()
    }

    #[test]
    fn zero_is_zero() {
        assert_eq!(draw(&FreshValue::Zero, &[1, 50], 1), [0.0, 0.0]);
        assert!(!FreshValue::Zero.keeps_returned());
    }

    #[test]
    fn normal_has_its_standard_deviation() {
        let normal = FreshValue::Normal { std: 0.1 };
        for slot in [0, 60] {
            assert!((spread(&normal, slot) - 0.1).abs() < 0.004);
        }
        assert_eq!(draw(&FreshValue::Normal { std: 0.0 }, &[3], 1), [0.0]);
    }

    #[test]
    fn uniform_values_shrink_with_the_fan_in() {
        let uniform = FreshValue::Uniform { gain: 2.0 };
        for (slot, bound) in [(3, 1.0), (4, 0.2), (103, 0.2)] {
            let expected = bound / 3f64.sqrt();
            assert!((spread(&uniform, slot) - expected).abs() < 0.04 * expected);
            let largest = (0..1000).map(|seed| draw(&uniform, &[slot], seed)[0].abs());
            let largest = f64::from(largest.fold(0.0, f32::max));
            assert!(largest <= bound * (1.0 + 1e-6) && largest > 0.98 * bound);
        }
        // Slots of several rows in one call have the bounds of their own rows.
        let values = draw(&uniform, &[0, 3, 4, 50, 103], 1);
        assert!(values[2..].iter().all(|value| value.abs() <= 0.2));
    }

    #[test]
    fn what_does_not_return_starts_with_the_inner_value() {
        let inner = FreshValue::Normal { std: 0.3 };
        let keep = FreshValue::KeepIfReturned(Box::new(inner.clone()));
        assert!(keep.keeps_returned());
        assert_eq!(draw(&keep, &[2, 9], 5), draw(&inner, &[2, 9], 5));
    }

    #[test]
    fn refuses_numbers_out_of_range() {
        for value in [f64::NAN, -1.0, f64::INFINITY] {
            for fresh in [
                FreshValue::Normal { std: value },
                FreshValue::Uniform { gain: value },
            ] {
                assert!(fresh.validate().is_err());
                assert!(
                    FreshValue::KeepIfReturned(Box::new(fresh))
                        .validate()
                        .is_err()
                );
            }
        }
        assert_eq!(FreshValue::Uniform { gain: 0.0 }.validate(), Ok(()));
        assert_eq!(draw(&FreshValue::Uniform { gain: 0.0 }, &[1], 1), [0.0]);
    }

    #[test]
    #[should_panic(expected = "fresh slots must be increasing and below 104")]
    fn slots_outside_the_pattern_panic() {
        draw(&FreshValue::Zero, &[104], 1);
    }
}
