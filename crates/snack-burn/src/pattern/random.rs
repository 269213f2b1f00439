use super::Pattern;
use super::distinct::{draw_distinct, sorted};
use super::shape::check_count;
use crate::error::SparseError;
use hashbrown::HashSet;
use rand::{Rng, RngExt};

impl Pattern {
    /// A pattern of `nnz` non-zeros, every such pattern equally likely.
    ///
    /// Draws the ranks of the non-zeros among all `m * k` coordinates without retries, or those of
    /// the zeros if there are fewer of them. The law is that of [`Pattern::random_by_rejection`],
    /// the cost does not depend on the sparsity: time `O(m + nnz log nnz)` and memory `O(m + nnz)`.
    ///
    /// # Arguments
    ///
    /// * `shape` - `[m, k]`.
    /// * `nnz` - number of non-zeros, see [`nnz_for_sparsity`](super::nnz_for_sparsity).
    /// * `rng` - its state determines the pattern.
    ///
    /// # Errors
    ///
    /// [`SparseError::ShapeTooLarge`], [`SparseError::TooManyNonZeros`] if `nnz > m * k`, or
    /// [`SparseError::TooManySlots`].
    pub fn random<R: Rng + ?Sized>(
        shape: [usize; 2],
        nnz: usize,
        rng: &mut R,
    ) -> Result<Self, SparseError> {
        let size = check_count(shape, nnz)?;
        let flats = draw_distinct(nnz, size, rng);
        Self::from_trusted_flats(shape, flats.into_iter())
    }

    /// A pattern of `nnz` non-zeros drawn by Algorithm 2 (uniform connection initializer) of the
    /// SNACK paper.
    ///
    /// A random row and then a random column are drawn again and again until the pair is a new one.
    /// The expected number of pairs is `-m k ln(sparsity)`: close to `nnz` in a very sparse matrix,
    /// but about `m k ln(m k)` in a full one.
    ///
    /// # Arguments
    ///
    /// * `shape` - `[m, k]`.
    /// * `nnz` - number of non-zeros, `(1 - sparsity) m k` in the paper.
    /// * `rng` - its state determines the pattern.
    ///
    /// # Errors
    ///
    /// Those of [`Pattern::random`].
    pub fn random_by_rejection<R: Rng + ?Sized>(
        shape: [usize; 2],
        nnz: usize,
        rng: &mut R,
    ) -> Result<Self, SparseError> {
        check_count(shape, nnz)?;
        let [rows, cols] = shape.map(|size| size as u64);
        let mut seen = HashSet::with_capacity(nnz);
        while seen.len() < nnz {
            let row = rng.random_range(0..rows);
            let col = rng.random_range(0..cols);
            seen.insert(row * cols + col);
        }
        Self::from_trusted_flats(shape, sorted(seen).into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    type Sampler = fn([usize; 2], usize, &mut ChaCha8Rng) -> Result<Pattern, SparseError>;
    const SAMPLERS: [Sampler; 2] = [Pattern::random, Pattern::random_by_rejection];

    fn rng(seed: u64) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(seed)
    }

    #[test]
    fn every_subset_is_equally_likely() {
        for sampler in SAMPLERS {
            for nnz in [3, 6] {
                let mut rng = rng(7);
                let mut counts = vec![0u32; 1 << 9];
                for _ in 0..8400 {
                    let pattern = sampler([3, 3], nnz, &mut rng).unwrap();
                    counts[pattern.flats().map(|flat| 1 << flat).sum::<usize>()] += 1;
                }
                // 84 subsets, 100 draws each: mean 83 and standard deviation 12.9 of chi-square.
                let of_size = |subset: usize| subset.count_ones() as usize == nnz;
                let statistic: f64 = (0..512)
                    .filter(|&subset| of_size(subset))
                    .map(|subset| (f64::from(counts[subset]) - 100.0).powi(2) / 100.0)
                    .sum();
                assert!((40.0..130.0).contains(&statistic), "chi-square {statistic}");
            }
        }
    }

    #[test]
    fn same_seed_same_pattern() {
        for sampler in SAMPLERS {
            let first = sampler([70, 90], 900, &mut rng(1)).unwrap();
            assert_eq!(first, sampler([70, 90], 900, &mut rng(1)).unwrap());
            assert_ne!(first, sampler([70, 90], 900, &mut rng(2)).unwrap());
        }
    }

    #[test]
    fn extreme_counts() {
        for sampler in SAMPLERS {
            let mut rng = rng(3);
            assert_eq!(sampler([6, 5], 30, &mut rng), Pattern::full([6, 5]));
            assert_eq!(sampler([6, 5], 0, &mut rng), Pattern::empty([6, 5]));
            assert_eq!(sampler([0, 5], 0, &mut rng), Pattern::empty([0, 5]));
            let error = SparseError::TooManyNonZeros {
                nnz: 31,
                rows: 6,
                cols: 5,
            };
            assert_eq!(sampler([6, 5], 31, &mut rng), Err(error));
            let error = SparseError::TooManySlots { nnz: 1 << 31 };
            assert_eq!(sampler([1 << 16; 2], 1 << 31, &mut rng), Err(error));
        }
    }

    #[test]
    fn beyond_32_bit_sizes() {
        for sampler in SAMPLERS {
            let pattern = sampler([65_537; 2], 10_000, &mut rng(4)).unwrap();
            assert_eq!(pattern.nnz(), 10_000);
            assert_eq!(
                pattern,
                Pattern::from_sorted_flats([65_537; 2], pattern.flats()).unwrap()
            );
            assert!(
                pattern.flat(0) < 1 << 24 && pattern.flat(9_999) > u64::from(u32::MAX) - (1 << 24)
            );
        }
    }

    #[test]
    fn two_hundred_thousand_squared() {
        let shape = [200_000; 2];
        let pattern = Pattern::random(shape, 4_000_000, &mut rng(5)).unwrap();
        assert_eq!(pattern.nnz(), 4_000_000);
        assert_eq!(pattern.memory(), 200_001 * size_of::<usize>() + 16_000_000);
        assert!(pattern.flats().is_sorted_by(|a, b| a < b));
        assert!(
            pattern
                .fan_in()
                .iter()
                .chain(&pattern.fan_out())
                .all(|&count| count < 60)
        );
    }
}
