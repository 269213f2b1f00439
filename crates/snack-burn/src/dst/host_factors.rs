//! Factors of a gradient on the host.

use super::GradientSource;
use crate::error::SparseError;
use crate::pattern::Pattern;
use crate::tensor::Candidate;

/// The factors of a dense gradient on the host, summed in double precision: a reference, and a way
/// to try criteria without a device.
#[derive(Debug, Clone, PartialEq)]
pub struct HostFactors {
    shape: [usize; 2],
    batch: usize,
    g: Vec<f32>,
    x: Vec<f32>,
}

impl HostFactors {
    /// Factors `g` `[batch, m]` and `x` `[batch, k]`, row-major, of a gradient `[m, k]`.
    ///
    /// # Panics
    ///
    /// Panics if a list does not have the length that shape and batch imply.
    pub fn new(shape: [usize; 2], batch: usize, g: Vec<f32>, x: Vec<f32>) -> Self {
        assert_eq!(
            [g.len(), x.len()],
            shape.map(|size| batch * size),
            "HostFactors::new: expected factors [{batch}, {}] and [{batch}, {}]",
            shape[0],
            shape[1]
        );
        Self { shape, batch, g, x }
    }

    /// The gradients of a row outside the increasing list `excluded`.
    fn row(&self, row: usize, excluded: &[u32]) -> Vec<Candidate> {
        let [rows, cols] = self.shape;
        let mut sums = vec![0f64; cols];
        for sample in 0..self.batch {
            let factor = f64::from(self.g[sample * rows + row]);
            let inputs = &self.x[sample * cols..(sample + 1) * cols];
            for (sum, &input) in sums.iter_mut().zip(inputs) {
                *sum += factor * f64::from(input);
            }
        }
        let all = sums.into_iter().enumerate();
        all.filter(|(col, _)| excluded.binary_search(&(*col as u32)).is_err())
            .map(|(col, sum)| Candidate {
                flat: (row * cols + col) as u64,
                gradient: sum as f32,
            })
            .collect()
    }
}

fn keep_best(candidates: &mut Vec<Candidate>, count: usize) {
    candidates.sort_unstable_by(Candidate::rank);
    candidates.truncate(count);
}

impl GradientSource for HostFactors {
    fn shape(&self) -> [usize; 2] {
        self.shape
    }

    fn top_k(&self, excluded: &Pattern, count: usize) -> Result<Vec<Candidate>, SparseError> {
        let available = excluded.size() - excluded.nnz() as u64;
        if count as u64 > available {
            return Err(SparseError::NotEnoughInactive {
                asked: count,
                available,
            });
        }
        let mut best = Vec::new();
        for row in 0..self.shape[0] {
            best.extend(self.row(row, excluded.row(row)));
            keep_best(&mut best, count);
        }
        Ok(best)
    }

    fn top_k_per_row(
        &self,
        excluded: &Pattern,
        quotas: &[usize],
    ) -> Result<Vec<Candidate>, SparseError> {
        let mut all = Vec::new();
        for (row, &quota) in quotas.iter().enumerate() {
            let mut best = self.row(row, excluded.row(row));
            if quota > best.len() {
                return Err(SparseError::NotEnoughInactiveInRow {
                    row,
                    asked: quota,
                    available: best.len(),
                });
            }
            keep_best(&mut best, quota);
            all.extend(best);
        }
        Ok(all)
    }

    fn gradients(&self, flats: &[u64]) -> Result<Vec<f32>, SparseError> {
        let [rows, cols] = self.shape;
        let pattern = Pattern::from_sorted_flats(self.shape, flats.iter().copied())?;
        let at = |(row, col): (usize, usize)| {
            (0..self.batch)
                .map(|b| f64::from(self.g[b * rows + row]) * f64::from(self.x[b * cols + col]))
                .sum::<f64>() as f32
        };
        Ok(pattern.iter().map(at).collect())
    }

    fn marginals(&self) -> (Vec<f32>, Vec<f32>) {
        let [rows, cols] = self.shape;
        let ones = vec![1.0; self.batch];
        let sum = |list: &[f32], width| weighted(list, width, &ones, f32::abs);
        (sum(&self.g, rows), sum(&self.x, cols))
    }

    fn sketch(&self, signs: &[f32]) -> Result<(Vec<f32>, Vec<f32>), SparseError> {
        if signs.len() != self.batch {
            return Err(SparseError::LengthMismatch {
                what: "list of signs",
                expected: self.batch,
                found: signs.len(),
            });
        }
        let [rows, cols] = self.shape;
        let sum = |list: &[f32], width| weighted(list, width, signs, |number| number);
        Ok((sum(&self.g, rows), sum(&self.x, cols)))
    }

    fn batch(&self) -> usize {
        self.batch
    }

    fn within(&self, rows: &[bool], cols: &[bool]) -> Box<dyn GradientSource> {
        let keep = |list: &[f32], inside: &[bool]| -> Vec<f32> {
            let inside = inside.iter().cycle();
            list.iter()
                .zip(inside)
                .map(|(&number, &inside)| if inside { number } else { 0.0 })
                .collect()
        };
        let (g, x) = (keep(&self.g, rows), keep(&self.x, cols));
        Box::new(Self::new(self.shape, self.batch, g, x))
    }
}

/// `sum_b weights[b] f(list[b, i])` for every `i` below `width`.
fn weighted(list: &[f32], width: usize, weights: &[f32], f: impl Fn(f32) -> f32) -> Vec<f32> {
    let mut sums = vec![0f64; width];
    for (row, &weight) in list.chunks(width.max(1)).zip(weights) {
        for (sum, &number) in sums.iter_mut().zip(row) {
            *sum += f64::from(weight) * f64::from(f(number));
        }
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Small integers, so that ties are many and sums are exact.
    fn random(shape: [usize; 2], batch: usize, rng: &mut ChaCha8Rng) -> HostFactors {
        let mut list = |len: usize| -> Vec<f32> {
            (0..len).map(|_| rng.random_range(-2..=2) as f32).collect()
        };
        let (g, x) = (list(batch * shape[0]), list(batch * shape[1]));
        HostFactors::new(shape, batch, g, x)
    }

    fn all(factors: &HostFactors, excluded: &Pattern) -> Vec<Candidate> {
        let [rows, cols] = factors.shape;
        let mut all = Vec::new();
        for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
            if !excluded.contains(row, col) {
                let gradient = (0..factors.batch)
                    .map(|b| factors.g[b * rows + row] * factors.x[b * cols + col])
                    .sum();
                let flat = (row * cols + col) as u64;
                all.push(Candidate { flat, gradient });
            }
        }
        all
    }

    #[test]
    fn top_k_equals_sorting_everything() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for _ in 0..50 {
            let shape = [rng.random_range(1..9), rng.random_range(1..9)];
            let factors = random(shape, rng.random_range(0..4), &mut rng);
            let nnz = rng.random_range(0..=shape[0] * shape[1]);
            let excluded = Pattern::random(shape, nnz, &mut rng).unwrap();
            let mut expected = all(&factors, &excluded);
            expected.sort_by(Candidate::rank);
            for count in [0, 1, 5, 100] {
                let count = count.min(expected.len());
                let found = factors.top_k(&excluded, count).unwrap();
                assert_eq!(found, expected[..count]);
            }
            let available = |row| shape[1] - excluded.row(row).len();
            let quotas: Vec<usize> = (0..shape[0])
                .map(|row| rng.random_range(0..4).min(available(row)))
                .collect();
            let mut by_row = Vec::new();
            for (row, &quota) in quotas.iter().enumerate() {
                let in_row = |c: &&Candidate| c.flat as usize / shape[1] == row;
                by_row.extend(expected.iter().filter(in_row).take(quota).copied());
            }
            assert_eq!(factors.top_k_per_row(&excluded, &quotas).unwrap(), by_row);
            expected.sort_by_key(|c| c.flat);
            let flats: Vec<u64> = expected.iter().map(|c| c.flat).collect();
            let gradients: Vec<f32> = expected.iter().map(|c| c.gradient).collect();
            assert_eq!(factors.gradients(&flats).unwrap(), gradients);
        }
    }

    #[test]
    fn marginals_bound_and_sketches_estimate() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let factors = random([4, 5], 6, &mut rng);
        let empty = Pattern::empty([4, 5]).unwrap();
        let (rows, cols) = factors.marginals();
        let mut means = [0.0; 20];
        let draws = 4000;
        for _ in 0..draws {
            let sign = |_| if rng.random_bool(0.5) { 1.0 } else { -1.0 };
            let signs: Vec<f32> = (0..6).map(sign).collect();
            let (g, x) = factors.sketch(&signs).unwrap();
            for (flat, mean) in means.iter_mut().enumerate() {
                *mean += f64::from(g[flat / 5] * x[flat % 5]) / f64::from(draws);
            }
        }
        for Candidate { flat, gradient } in all(&factors, &empty) {
            let (row, col) = (flat as usize / 5, flat as usize % 5);
            assert!(gradient.abs() <= rows[row] * cols[col]);
            let deviation = (means[flat as usize] - f64::from(gradient)).abs();
            assert!(deviation < 1.5, "{deviation} at {flat}");
        }
    }

    #[test]
    fn restricted_gradients_are_zero_outside() {
        let factors = HostFactors::new([2, 2], 1, vec![1.0, 2.0], vec![3.0, 4.0]);
        let inside = factors.within(&[true, false], &[false, true]);
        let all = [0, 1, 2, 3];
        assert_eq!(inside.gradients(&all).unwrap(), [0.0, 4.0, 0.0, 0.0]);
        assert_eq!(factors.gradients(&all).unwrap(), [3.0, 4.0, 6.0, 8.0]);
    }
}
