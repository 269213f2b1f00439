//! How many inputs every output has.

use rand::Rng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::Pattern;
use super::apportion::apportion;
use super::normal::quantiles;
use super::shape::check_count;
use crate::error::SparseError;

/// The law of the fan-ins of a random pattern (Tomczak, "Profiled sparse networks", 2026).
///
/// Whatever the profile, the number of non-zeros is exact, and the columns of a row are uniform
/// without replacement.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub enum Profile {
    /// Whatever uniform coordinates give: an Erdos-Renyi graph.
    #[default]
    Free,
    /// Equal fan-ins. If `m` does not divide `nnz`, some rows have one more than others.
    Constant,
    /// The fan-ins are quantiles of a log-normal law with this coefficient of variation.
    ///
    /// A fan-in cannot exceed `k`, so that the realised coefficient may be far smaller.
    LogNormal {
        /// Standard deviation over mean, at least 0.
        cv: f64,
    },
    /// The `i`-th largest fan-in, counted from 1, is proportional to `i^-gamma`.
    PowerLaw {
        /// The exponent, at least 0.
        gamma: f64,
    },
}

/// Fan-ins, and how much they vary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FanIn {
    /// Number of non-zeros of every row, `[m]`.
    pub counts: Vec<usize>,
    /// Their standard deviation over their mean: what the bounds left of the one asked for.
    pub cv: f64,
}

impl Profile {
    /// Draws the fan-ins of an `m x k` pattern. They are fixed numbers in random order, except for
    /// [`Profile::Free`].
    ///
    /// Every fan-in is between 1 and `k`, or between 0 and 1 if `nnz < m`.
    ///
    /// # Arguments
    ///
    /// * `shape` - `[m, k]`.
    /// * `nnz` - sum of the fan-ins.
    /// * `rng` - its state determines the order.
    ///
    /// # Errors
    ///
    /// [`SparseError::InvalidProfile`], or those of [`Pattern::random`].
    pub fn fan_in<R: Rng + ?Sized>(
        &self,
        shape: [usize; 2],
        nnz: usize,
        rng: &mut R,
    ) -> Result<FanIn, SparseError> {
        check_count(shape, nnz)?;
        let counts = match self.weights(shape[0])? {
            None => Pattern::random(shape, nnz, rng)?.fan_in(),
            Some(weights) => {
                let mut counts = fit(&weights, shape, nnz);
                counts.shuffle(rng);
                counts
            }
        };
        Ok(FanIn {
            cv: coefficient_of_variation(&counts),
            counts,
        })
    }

    /// Draws a pattern with this profile. [`Profile::Free`] is [`Pattern::random`].
    ///
    /// # Arguments
    ///
    /// * `shape` - `[m, k]`.
    /// * `nnz` - number of non-zeros.
    /// * `rng` - its state determines the pattern.
    ///
    /// # Errors
    ///
    /// As [`fan_in`](Self::fan_in).
    pub fn pattern<R: Rng + ?Sized>(
        &self,
        shape: [usize; 2],
        nnz: usize,
        rng: &mut R,
    ) -> Result<Pattern, SparseError> {
        if let Self::Free = self {
            return Pattern::random(shape, nnz, rng);
        }
        let fan_in = self.fan_in(shape, nnz, rng)?;
        Pattern::random_with_fan_in(shape, &fan_in.counts, rng)
    }

    /// The log-normal profile whose logarithms vary as those of the fan-ins found, so that a run
    /// can start from the profile at which another one arrived. Rows without non-zeros do not count.
    pub fn log_normal_of(fan_in: &[usize]) -> Self {
        let present = fan_in.iter().filter(|&&count| count > 0);
        let logs: Vec<f64> = present.map(|&count| (count as f64).ln()).collect();
        let (_, variance) = moments(&logs);
        Self::LogNormal {
            cv: variance.exp_m1().sqrt(),
        }
    }

    /// Relative fan-ins, decreasing, and `None` where they are random.
    fn weights(&self, rows: usize) -> Result<Option<Vec<f64>>, SparseError> {
        let check = |what, value: f64| match value >= 0.0 && value.is_finite() {
            true => Ok(value),
            false => Err(SparseError::InvalidProfile { what, value }),
        };
        Ok(match *self {
            Self::Free => None,
            Self::Constant => Some(vec![1.0; rows]),
            Self::LogNormal { cv } => {
                let cv = check("coefficient of variation", cv)?;
                let sigma = (cv * cv).ln_1p().sqrt();
                let mut weights = quantiles(rows);
                for weight in &mut weights {
                    // Largest first.
                    *weight = (-sigma * *weight).exp();
                }
                Some(weights)
            }
            Self::PowerLaw { gamma } => {
                let gamma = check("exponent", gamma)?;
                Some((0..rows).map(|i| (i as f64 + 1.0).powf(-gamma)).collect())
            }
        })
    }
}

/// Fan-ins as proportional to the weights as their bounds allow. The shape must have room for
/// `nnz`.
fn fit(weights: &[f64], [rows, width]: [usize; 2], nnz: usize) -> Vec<usize> {
    let range = match nnz >= rows {
        true => 1..=width as u64,
        false => 0..=1,
    };
    let counts = apportion(weights, &vec![range; rows], nnz as u64);
    let counts = counts.expect("the shape has room for the non-zeros");
    counts.into_iter().map(|count| count as usize).collect()
}

/// Standard deviation over mean; 0 if there is no mean.
pub fn coefficient_of_variation(fan_in: &[usize]) -> f64 {
    let counts: Vec<f64> = fan_in.iter().map(|&count| count as f64).collect();
    match moments(&counts) {
        (0.0, _) => 0.0,
        (mean, variance) => variance.sqrt() / mean,
    }
}

/// Mean and variance of all numbers.
fn moments(numbers: &[f64]) -> (f64, f64) {
    let len = numbers.len().max(1) as f64;
    let mean = numbers.iter().sum::<f64>() / len;
    let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / len;
    (mean, variance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn rng() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(1)
    }

    /// The numbers of the specification: 784 inputs, density 0.1.
    #[test]
    fn the_bound_of_the_fan_in_limits_its_variation() {
        let shape = [1000, 784];
        for (asked, realised, tolerance) in [(0.0, 0.0, 0.01), (0.5, 0.5, 0.01), (2.5, 1.65, 0.02)]
        {
            let fan_in = Profile::LogNormal { cv: asked }
                .fan_in(shape, 78_400, &mut rng())
                .unwrap();
            assert!(
                (fan_in.cv - realised).abs() < tolerance,
                "asked {asked}, realised {}",
                fan_in.cv
            );
            assert_eq!(fan_in.counts.iter().sum::<usize>(), 78_400);
        }
    }

    #[test]
    fn constant_fan_ins_differ_by_one_at_most() {
        let fan_in = Profile::Constant.fan_in([10, 20], 43, &mut rng()).unwrap();
        let of = |count| {
            fan_in
                .counts
                .iter()
                .filter(|&&found| found == count)
                .count()
        };
        assert_eq!([of(4), of(5)], [7, 3]);
        assert_ne!(fan_in.counts[..3], [5, 5, 5], "the order is random");
        let fan_in = Profile::Constant.fan_in([10, 20], 40, &mut rng()).unwrap();
        assert_eq!((fan_in.counts, fan_in.cv), (vec![4; 10], 0.0));
    }

    #[test]
    fn a_power_law_falls_as_its_exponent_says() {
        let fan_in = Profile::PowerLaw { gamma: 1.0 }
            .fan_in([100, 1000], 5187, &mut rng())
            .unwrap();
        let mut counts = fan_in.counts;
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // 5187 is 1000 times the hundredth harmonic number.
        assert_eq!(counts[..5], [1000, 500, 333, 250, 200]);
        assert_eq!(counts[99], 10);
    }

    #[test]
    fn fewer_non_zeros_than_rows_give_rows_of_one() {
        for profile in [Profile::Constant, Profile::LogNormal { cv: 1.0 }] {
            let fan_in = profile.fan_in([10, 4], 3, &mut rng()).unwrap();
            assert_eq!(fan_in.counts.iter().sum::<usize>(), 3);
            assert!(fan_in.counts.iter().all(|&count| count <= 1));
        }
    }

    #[test]
    fn a_profile_is_recovered_from_its_fan_ins() {
        let fan_in = Profile::LogNormal { cv: 0.6 }
            .fan_in([2000, 5000], 400_000, &mut rng())
            .unwrap();
        let Profile::LogNormal { cv } = Profile::log_normal_of(&fan_in.counts) else {
            panic!("another profile");
        };
        assert!((cv - 0.6).abs() < 0.01, "{cv}");
        assert_eq!(
            Profile::log_normal_of(&[7, 7, 0]),
            Profile::LogNormal { cv: 0.0 }
        );
    }

    #[test]
    fn refuses_numbers_out_of_range() {
        for value in [f64::NAN, -0.1, f64::INFINITY] {
            for profile in [
                Profile::LogNormal { cv: value },
                Profile::PowerLaw { gamma: value },
            ] {
                let error = profile.pattern([4, 4], 8, &mut rng()).unwrap_err();
                assert!(
                    matches!(error, SparseError::InvalidProfile { .. }),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn a_free_profile_draws_as_if_there_were_none() {
        assert_eq!(
            Profile::Free.pattern([30, 40], 200, &mut rng()),
            Pattern::random([30, 40], 200, &mut rng())
        );
    }

    proptest! {
        #[test]
        fn totals_and_bounds_hold(
            shape in (0usize..40, 0usize..40),
            share in 0.0f64..=1.0,
            parameter in 0.0f64..5.0,
            kind in 0..4,
        ) {
            let (rows, width) = shape;
            let nnz = (share * (rows * width) as f64) as usize;
            let profile = match kind {
                0 => Profile::Free,
                1 => Profile::Constant,
                2 => Profile::LogNormal { cv: parameter },
                _ => Profile::PowerLaw { gamma: parameter },
            };
            let pattern = profile.pattern([rows, width], nnz, &mut rng()).unwrap();
            prop_assert_eq!(pattern.nnz(), nnz);
            if kind > 0 && nnz >= rows {
                prop_assert!(pattern.fan_in().iter().all(|&count| count >= 1));
            }
        }
    }
}
