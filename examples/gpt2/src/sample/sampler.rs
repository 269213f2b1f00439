use super::{Candidate, SampleError, SamplingOptions, distribution};
use crate::ConfigError;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Draws tokens. The same seed and logits give the same tokens on every machine.
#[derive(Debug, Clone)]
pub struct Sampler {
    options: SamplingOptions,
    rng: ChaCha8Rng,
}

impl Sampler {
    /// Starts the random numbers at the seed of the options.
    ///
    /// # Errors
    ///
    /// As [`SamplingOptions::validate`].
    pub fn new(options: SamplingOptions) -> Result<Self, ConfigError> {
        options.validate()?;
        Ok(Self {
            rng: ChaCha8Rng::seed_from_u64(options.seed),
            options,
        })
    }

    /// How tokens are chosen.
    pub fn options(&self) -> &SamplingOptions {
        &self.options
    }

    /// Draws the token after those that led to these logits.
    ///
    /// # Errors
    ///
    /// Any [`SampleError`].
    pub fn sample(&mut self, logits: &[f32]) -> Result<usize, SampleError> {
        let candidates = distribution(logits, &self.options)?;
        let number = match self.options.is_greedy() {
            true => 0.0,
            false => self.rng.random(),
        };
        Ok(pick(&candidates, number))
    }
}

/// The candidate in whose stretch of `[0, 1)` the number lies.
fn pick(candidates: &[Candidate], number: f64) -> usize {
    let mut end = 0.0;
    let mut possible = candidates.iter().filter(|one| one.probability > 0.0);
    let hit = possible.clone().find(|one| {
        end += one.probability;
        number < end
    });
    // The sum may end a rounding below 1.
    let hit = hit.or_else(|| possible.next_back());
    hit.expect("the largest probability is positive").token
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(probabilities: &[f64]) -> Vec<Candidate> {
        let numbered = probabilities.iter().enumerate();
        numbered
            .map(|(token, &probability)| Candidate { token, probability })
            .collect()
    }

    #[test]
    fn every_number_picks_a_possible_token() {
        let candidates = candidates(&[0.5, 0.25, 0.25, 0.0]);
        let cases = [
            (0.0, 0),
            (0.499, 0),
            (0.5, 1),
            (0.749, 1),
            (0.75, 2),
            (1.0 - f64::EPSILON / 2.0, 2),
        ];
        for (number, token) in cases {
            assert_eq!(pick(&candidates, number), token, "{number}");
        }
        // A sum that ends early.
        assert_eq!(pick(&self::candidates(&[0.3, 0.3, 0.0]), 0.9), 1);
    }

    /// Pearson's statistic of 50 000 draws stays below the 99.9th percentile.
    #[test]
    fn tokens_come_as_often_as_their_probability_says() {
        const DRAWS: usize = 50_000;
        let logits = [0.3f32, -1.0, 2.0, 0.0, 1.1, -3.0];
        let cases = [
            (1.0, None, 1.0, 20.52),
            (0.7, None, 1.0, 20.52),
            (1.5, Some(4), 1.0, 16.27),
            (1.0, Some(5), 0.9, 16.27),
        ];
        for (temperature, top_k, top_p, bound) in cases {
            let options = SamplingOptions {
                temperature,
                top_k,
                top_p,
                seed: 5,
            };
            let mut counts = [0usize; 6];
            let mut sampler = Sampler::new(options).unwrap();
            for _ in 0..DRAWS {
                counts[sampler.sample(&logits).unwrap()] += 1;
            }
            let candidates = distribution(&logits, &options).unwrap();
            let statistic: f64 = candidates
                .iter()
                .map(|one| {
                    let expected = one.probability * DRAWS as f64;
                    (counts[one.token] as f64 - expected).powi(2) / expected
                })
                .sum();
            assert!(statistic < bound, "{options:?}: {statistic}, {counts:?}");
            let drawn: usize = candidates.iter().map(|one| counts[one.token]).sum();
            assert_eq!(drawn, DRAWS, "{options:?}: others were drawn");
        }
    }

    #[test]
    fn the_seed_decides() {
        let draw = |seed| {
            let options = SamplingOptions {
                seed,
                ..Default::default()
            };
            let mut sampler = Sampler::new(options).unwrap();
            let draws = (0..50).map(|_| sampler.sample(&[0.0; 9]).unwrap());
            draws.collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn temperature_zero_takes_the_first_of_the_largest() {
        let options = SamplingOptions {
            temperature: 0.0,
            ..Default::default()
        };
        let mut sampler = Sampler::new(options).unwrap();
        for _ in 0..20 {
            assert_eq!(sampler.sample(&[0.0, 2.0, 2.0, -0.0]), Ok(1));
            assert_eq!(sampler.sample(&[-0.0, 0.0]), Ok(0));
        }
    }
}
