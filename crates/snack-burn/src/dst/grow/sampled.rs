use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use super::uniform::sample;
use super::{Grow, Quota, Request, flats_of};
use crate::dst::{DstError, GradientSource, LayerView, Signals};
use crate::tensor::Candidate;

/// How candidates of [`Sampled`] growth are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CandidateLaw {
    /// All coordinates alike.
    Uniform,
    /// Row `i` in proportion to `sum_b |G[b, i]|`, column `j` to `sum_b |X[b, j]|`: where a bound
    /// of the gradient is large.
    GraBo,
    /// Row `i` in proportion to `|sum_b e_b G[b, i]|`, column `j` to `|sum_b e_b X[b, j]|`, with
    /// random signs `e_b`: where an unbiased estimate of the gradient is large.
    GraEst,
}

/// The largest gradients among a random set of candidates (guided stochastic exploration; Heddes
/// et al., 2024): `O(m + k + candidates batch)` instead of the whole gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    /// How candidates are drawn.
    pub law: CandidateLaw,
    /// Candidates drawn, as a multiple of the layer's connections; at least as many as are asked
    /// for.
    pub candidates: f64,
}

impl Sampled {
    /// `law` with as many candidates as there are connections.
    pub fn new(law: CandidateLaw) -> Self {
        Self {
            law,
            candidates: 1.0,
        }
    }

    /// Increasing flat indices of candidates, at least `count` if there are so many.
    fn draw(
        &self,
        layer: &LayerView<'_>,
        source: &dyn GradientSource,
        request: &Request<'_>,
        count: usize,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, DstError> {
        let wanted = ((self.candidates * layer.pattern.nnz() as f64).ceil() as usize).max(count);
        let mut drawn = match self.law {
            CandidateLaw::Uniform => return sample(request, wanted, rng),
            CandidateLaw::GraBo => by_weight(source.marginals(), request, wanted, rng),
            CandidateLaw::GraEst => {
                let signs: Vec<f32> = (0..source.batch())
                    .map(|_| if rng.random_bool(0.5) { 1.0 } else { -1.0 })
                    .collect();
                by_weight(source.sketch(&signs)?, request, wanted, rng)
            }
        };
        if drawn.len() < count {
            // Few rows or columns carry all the weight: the rest comes from anywhere.
            let missing = count - drawn.len();
            let others = sample(request, count + missing, rng)?;
            let mut others: Vec<u64> = others
                .into_iter()
                .filter(|flat| drawn.binary_search(flat).is_err())
                .collect();
            // A uniform choice among them that does not favour low indices.
            while others.len() > missing {
                others.swap_remove(rng.random_range(0..others.len()));
            }
            drawn.extend(others);
            drawn.sort_unstable();
        }
        Ok(drawn)
    }

    fn best(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Vec<Candidate>, DstError> {
        let source = layer.factors()?;
        let count = request.quota.total();
        if count == 0 {
            return Ok(Vec::new());
        }
        let drawn = match request.quota {
            Quota::Layer(count) => self.draw(layer, source, request, count, rng)?,
            Quota::Rows(_) => {
                let what = "sampled growth has no quotas per row, use the whole gradient";
                return Err(DstError::Incompatible { what });
            }
        };
        let gradients = source.gradients(&drawn)?;
        let mut all: Vec<Candidate> = drawn
            .into_iter()
            .zip(gradients)
            .map(|(flat, gradient)| Candidate { flat, gradient })
            .collect();
        all.sort_unstable_by(Candidate::rank);
        all.truncate(count);
        Ok(all)
    }
}

impl Grow for Sampled {
    fn needs(&self) -> Signals {
        Signals::FACTORS
    }

    fn propose(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, DstError> {
        Ok(flats_of(
            &self.best(layer, request, rng)?,
            layer.pattern.size(),
        ))
    }

    fn ranked(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Option<Vec<Candidate>>, DstError> {
        Ok(Some(self.best(layer, request, rng)?))
    }

    fn validate(&self) -> Result<(), DstError> {
        match self.candidates >= 0.0 && self.candidates.is_finite() {
            true => Ok(()),
            false => Err(DstError::InvalidParameter {
                what: "number of candidates",
                value: self.candidates,
                expected: "a finite number of at least 0",
            }),
        }
    }
}

/// `draws` pairs of a row and a column, independent and in proportion to their weights, without
/// repetitions and without those that the request does not allow; ascending.
fn by_weight(
    (rows, cols): (Vec<f32>, Vec<f32>),
    request: &Request<'_>,
    draws: usize,
    rng: &mut dyn Rng,
) -> Vec<u64> {
    let width = cols.len() as u64;
    let allowed = request.within;
    let rows = Cumulative::new(&rows, allowed.map(|within| within.rows.as_slice()));
    let cols = Cumulative::new(&cols, allowed.map(|within| within.cols.as_slice()));
    if rows.total() <= 0.0 || cols.total() <= 0.0 {
        return Vec::new();
    }
    let mut drawn: Vec<u64> = (0..draws)
        .map(|_| (rows.draw(rng), cols.draw(rng)))
        .filter(|&(row, col)| !request.taken.contains(row, col))
        .map(|(row, col)| row as u64 * width + col as u64)
        .collect();
    drawn.sort_unstable();
    drawn.dedup();
    drawn
}

/// A law on indices by running sums of their weights.
struct Cumulative {
    sums: Vec<f64>,
}

impl Cumulative {
    fn new(weights: &[f32], allowed: Option<&[u32]>) -> Self {
        let mut sum = 0.0;
        let allowed = |index: usize| {
            allowed.is_none_or(|allowed| allowed.binary_search(&(index as u32)).is_ok())
        };
        let sums = weights
            .iter()
            .enumerate()
            .map(|(index, weight)| {
                sum += if allowed(index) {
                    f64::from(weight.abs())
                } else {
                    0.0
                };
                sum
            })
            .collect();
        Self { sums }
    }

    fn total(&self) -> f64 {
        self.sums.last().copied().unwrap_or(0.0)
    }

    fn draw(&self, rng: &mut dyn Rng) -> usize {
        let at = rng.random_range(0.0..self.total());
        self.sums.partition_point(|&sum| sum <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dst::{HostFactors, Rectangle};
    use crate::pattern::Pattern;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    const LAWS: [CandidateLaw; 3] = [
        CandidateLaw::Uniform,
        CandidateLaw::GraBo,
        CandidateLaw::GraEst,
    ];

    fn random(shape: [usize; 2], rng: &mut ChaCha8Rng) -> HostFactors {
        let mut list = |len| -> Vec<f32> { (0..len).map(|_| rng.random::<f32>() - 0.5).collect() };
        let (g, x) = (list(3 * shape[0]), list(3 * shape[1]));
        HostFactors::new(shape, 3, g, x)
    }

    /// With candidates enough every coordinate is one, and the choice is exact.
    #[test]
    fn all_candidates_give_the_whole_gradient() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let factors = random([6, 7], &mut rng);
        let pattern = Pattern::random([6, 7], 12, &mut rng).unwrap();
        let mut layer = LayerView::new("", &pattern, &[1.0; 12]);
        layer.factors = Some(&factors);
        let request = Request::new(Quota::Layer(8), &pattern);
        let expected = flats_of(&factors.top_k(&pattern, 8).unwrap(), pattern.size());
        for law in LAWS {
            let rule = Sampled {
                law,
                candidates: 1000.0,
            };
            let found = rule.propose(&layer, &request, &mut rng).unwrap();
            assert_eq!(found, expected, "{law:?}");
        }
    }

    #[test]
    fn the_quota_is_met_even_if_one_row_has_all_the_weight() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let factors = HostFactors::new([4, 5], 1, vec![0.0, 1.0, 0.0, 0.0], vec![1.0; 5]);
        let pattern = Pattern::from_sorted_flats([4, 5], [5, 6, 7]).unwrap();
        let mut layer = LayerView::new("", &pattern, &[1.0; 3]);
        layer.factors = Some(&factors);
        for law in LAWS {
            let rule = Sampled::new(law);
            for count in [0, 1, 5, 17, 40] {
                let request = Request::new(Quota::Layer(count), &pattern);
                let found = rule.propose(&layer, &request, &mut rng).unwrap();
                assert_eq!(found.len(), count.min(17), "{law:?}");
                assert!(found.is_sorted_by(|a, b| a < b));
                let allowed =
                    |flat: &u64| !pattern.contains(*flat as usize / 5, *flat as usize % 5);
                assert!(found.iter().all(allowed), "{law:?}");
            }
            let within = Rectangle {
                rows: vec![1, 2],
                cols: vec![3, 4],
            };
            let request = Request {
                within: Some(&within),
                ..Request::new(Quota::Layer(9), &pattern)
            };
            let found = rule.propose(&layer, &request, &mut rng).unwrap();
            assert_eq!(found, [8, 9, 13, 14], "{law:?}");
        }
    }

    /// GraBo draws a coordinate in proportion to the product of the two sums.
    #[test]
    fn candidates_follow_the_bound() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let taken = Pattern::empty([2, 2]).unwrap();
        let request = Request::new(Quota::Layer(1), &taken);
        let mut counts = [0u32; 4];
        for _ in 0..8000 {
            let weights = (vec![1.0, 3.0], vec![2.0, 2.0]);
            for flat in by_weight(weights, &request, 1, &mut rng) {
                counts[flat as usize] += 1;
            }
        }
        for (count, expected) in counts.into_iter().zip([1000, 1000, 3000, 3000]) {
            assert!(count.abs_diff(expected) < 200, "{counts:?}");
        }
    }
}
