//! Which coordinates were ever active (in-time over-parameterization; Liu et al., 2021).

use std::fmt;

use rand::Rng;

use super::DstError;
use super::bits::Bits;
use crate::error::SparseError;
use crate::pattern::{Pattern, draw_distinct};

/// The coordinates of a layer that were non-zeros at some time, one bit each: `m k / 8` bytes on
/// the host, a 32nd of a dense layer. [`expected_exploration`] estimates the share without them.
///
/// # Example
///
/// ```
/// use snack_burn::dst::History;
/// use snack_burn::pattern::Pattern;
///
/// let mut history = History::new(&Pattern::from_sorted_flats([2, 4], [0, 5])?);
/// assert_eq!(history.record(&Pattern::from_sorted_flats([2, 4], [0, 7])?)?, 1);
/// assert_eq!(history.explored(), 3.0 / 8.0);
/// # Ok::<(), snack_burn::SparseError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct History {
    shape: [usize; 2],
    active: Bits,
    count: u64,
}

impl History {
    /// A history that begins with a pattern.
    ///
    /// # Panics
    ///
    /// Panics if one bit per coordinate does not fit in memory.
    pub fn new(pattern: &Pattern) -> Self {
        let mut history = Self {
            shape: pattern.shape(),
            active: Bits::none(pattern.size()),
            count: 0,
        };
        history.insert(pattern);
        history
    }

    /// Adds the non-zeros of a pattern, after every topology update.
    ///
    /// # Returns
    ///
    /// How many of them were never active before.
    ///
    /// # Errors
    ///
    /// [`SparseError::ShapeMismatch`].
    pub fn record(&mut self, pattern: &Pattern) -> Result<u64, SparseError> {
        if pattern.shape() != self.shape {
            return Err(SparseError::ShapeMismatch {
                what: "pattern",
                expected: self.shape.to_vec(),
                found: pattern.shape().to_vec(),
            });
        }
        Ok(self.insert(pattern))
    }

    fn insert(&mut self, pattern: &Pattern) -> u64 {
        let new = pattern.flats().filter(|&flat| self.active.insert(flat));
        let new = new.count() as u64;
        self.count += new;
        new
    }

    /// `[m, k]`.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Number of coordinates that were ever active.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Share of coordinates that were ever active, `R_s` of the paper; 0 if there are none.
    pub fn explored(&self) -> f64 {
        match self.active.len() {
            0 => 0.0,
            len => self.count as f64 / len as f64,
        }
    }

    /// Whether the coordinate of a flat index `row * k + col` was ever active.
    pub fn contains(&self, flat: u64) -> bool {
        self.active.contains(flat)
    }

    /// Number of coordinates that were never active.
    pub fn unexplored(&self) -> u64 {
        self.active.len() - self.count
    }

    /// Draws `count` distinct coordinates that were never active, every subset equally likely.
    ///
    /// Time `O(m k / 64 + count log count)`.
    ///
    /// # Returns
    ///
    /// Increasing flat indices `row * k + col`, `[count]`. They are inactive if the present pattern
    /// was recorded.
    ///
    /// # Errors
    ///
    /// [`SparseError::NotEnoughInactive`] if `count` exceeds [`unexplored`](Self::unexplored).
    pub fn sample_unexplored<R: Rng + ?Sized>(
        &self,
        count: usize,
        rng: &mut R,
    ) -> Result<Vec<u64>, SparseError> {
        let available = self.unexplored();
        if count as u64 > available {
            return Err(SparseError::NotEnoughInactive {
                asked: count,
                available,
            });
        }
        Ok(self.active.absent(&draw_distinct(count, available, rng)))
    }

    /// Size in bytes.
    pub fn memory(&self) -> usize {
        size_of_val(self.active.words())
    }

    /// The record as bytes: `m` and `k`, then the bits, all as 64-bit little-endian words.
    pub fn to_bytes(&self) -> Vec<u8> {
        let shape = self.shape.map(|size| size as u64);
        let words = shape.iter().chain(self.active.words());
        words.flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// [`DstError::DamagedHistory`] if the length does not fit the shape, or if a bit is set that
    /// belongs to no coordinate.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DstError> {
        let damaged = |reason: String| DstError::DamagedHistory { reason };
        let (words, rest) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let (Some(rows), Some(cols), []) = (words.next(), words.next(), rest) else {
            return Err(damaged(format!(
                "{} bytes are no list of words",
                bytes.len()
            )));
        };
        let pattern =
            Pattern::empty([rows, cols].map(|size| usize::try_from(size).unwrap_or(usize::MAX)))?;
        let words: Vec<u64> = words.collect();
        let found = words.len();
        let active = Bits::from_words(words, pattern.size()).ok_or_else(|| {
            damaged(format!(
                "{found} words do not hold {rows}x{cols} coordinates"
            ))
        })?;
        Ok(Self {
            shape: pattern.shape(),
            count: active.count(),
            active,
        })
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History")
            .field("shape", &self.shape)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// The share of coordinates that were ever active after a number of updates with uniform growth:
/// `1 - (1 - d) (1 - K / (N - n))^q`.
///
/// # Arguments
///
/// * `size` - number of coordinates `N`.
/// * `nnz` - number of non-zeros `n`, the same at all times; `d = n / N`.
/// * `grown` - connections that enter at each update, `K`.
/// * `updates` - number of updates, `q`.
pub fn expected_exploration(size: u64, nnz: u64, grown: u64, updates: u64) -> f64 {
    let inactive = size.saturating_sub(nnz);
    match (size, inactive) {
        (0, _) => return 0.0,
        (_, 0) => return 1.0,
        _ => {}
    }
    let missed = 1.0 - grown.min(inactive) as f64 / inactive as f64;
    let explored = inactive as f64 * (1.0 - missed.powf(updates as f64));
    (nnz as f64 + explored) / size as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use std::collections::BTreeSet;

    fn rng() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(1)
    }

    #[test]
    fn counts_what_was_ever_active() {
        let mut rng = rng();
        let first = Pattern::random([13, 17], 40, &mut rng).unwrap();
        let mut history = History::new(&first);
        let mut seen: BTreeSet<u64> = first.flats().collect();
        for _ in 0..5 {
            let pattern = Pattern::random([13, 17], 40, &mut rng).unwrap();
            let before = seen.len();
            seen.extend(pattern.flats());
            let new = history.record(&pattern).unwrap();
            assert_eq!(new as usize, seen.len() - before);
            assert_eq!(history.count() as usize, seen.len());
            assert_eq!(history.explored(), seen.len() as f64 / 221.0);
            assert!((0..230).all(|flat| history.contains(flat) == seen.contains(&flat)));
            assert_eq!(history.record(&pattern), Ok(0));
        }
        assert_eq!(history.memory(), 32);
        let other = Pattern::empty([17, 13]).unwrap();
        assert!(matches!(
            history.record(&other),
            Err(SparseError::ShapeMismatch { .. })
        ));
    }

    #[test]
    fn draws_from_all_that_was_never_active() {
        let mut rng = rng();
        let pattern = Pattern::random([20, 20], 150, &mut rng).unwrap();
        let history = History::new(&pattern);
        let expected: Vec<u64> = (0..400).filter(|&flat| !history.contains(flat)).collect();
        assert_eq!(history.sample_unexplored(250, &mut rng).unwrap(), expected);
        let some = history.sample_unexplored(70, &mut rng).unwrap();
        assert_eq!(some.len(), 70);
        assert!(some.is_sorted_by(|a, b| a < b));
        assert!(some.iter().all(|flat| expected.contains(flat)));
        assert_eq!(
            history.sample_unexplored(251, &mut rng),
            Err(SparseError::NotEnoughInactive {
                asked: 251,
                available: 250
            })
        );
    }

    #[test]
    fn every_unexplored_pair_is_equally_likely() {
        let mut rng = rng();
        let history = History::new(&Pattern::from_sorted_flats([3, 3], [0, 4, 5, 7]).unwrap());
        let mut counts = [0u32; 1 << 9];
        for _ in 0..1000 {
            let drawn = history.sample_unexplored(2, &mut rng).unwrap();
            counts[drawn.iter().map(|flat| 1 << flat).sum::<usize>()] += 1;
        }
        // 10 pairs, 100 draws each: 99.9 % of chi-square with 9 degrees of freedom are below 27.9.
        let seen = counts.iter().filter(|&&count| count > 0);
        assert_eq!(seen.clone().count(), 10);
        let statistic: f64 = seen.map(|&n| (f64::from(n) - 100.0).powi(2) / 100.0).sum();
        assert!(statistic < 27.9, "chi-square {statistic}");
    }

    /// 30 updates that replace 300 of 2000 connections among 20 000 coordinates.
    #[test]
    fn the_formula_describes_uniform_growth() {
        let mut rng = rng();
        let mut pattern = Pattern::random([100, 200], 2000, &mut rng).unwrap();
        let mut history = History::new(&pattern);
        for _ in 0..30 {
            let grown = pattern.sample_inactive(300, &mut rng).unwrap();
            let dropped = Pattern::random([2000, 1], 300, &mut rng).unwrap();
            let kept = pattern.flats().enumerate();
            let kept = kept.filter(|(slot, _)| !dropped.contains(*slot, 0));
            let flats: BTreeSet<u64> = kept.map(|(_, flat)| flat).chain(grown).collect();
            pattern = Pattern::from_sorted_flats([100, 200], flats).unwrap();
            history.record(&pattern).unwrap();
        }
        let expected = expected_exploration(20_000, 2000, 300, 30);
        assert!((expected - 0.4569).abs() < 1e-3, "{expected}");
        assert!((history.explored() - expected).abs() < 0.01, "{history:?}");
    }

    #[test]
    fn formula_at_its_limits() {
        assert_eq!(expected_exploration(100, 10, 5, 0), 0.1);
        assert_eq!(expected_exploration(100, 10, 0, 7), 0.1);
        assert_eq!(expected_exploration(100, 10, 90, 1), 1.0);
        assert_eq!(expected_exploration(100, 100, 5, 3), 1.0);
        assert_eq!(expected_exploration(0, 0, 0, 3), 0.0);
    }

    #[test]
    fn survives_bytes() {
        let mut rng = rng();
        for shape in [[13, 17], [8, 8], [0, 5], [1, 1]] {
            let pattern = Pattern::random(shape, shape[0] * shape[1] / 3, &mut rng).unwrap();
            let history = History::new(&pattern);
            assert_eq!(History::from_bytes(&history.to_bytes()), Ok(history));
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let history = History::new(&Pattern::full([3, 3]).unwrap());
        let bytes = history.to_bytes();
        let mut bit_too_many = bytes.clone();
        bit_too_many[17] |= 2;
        let mut other_shape = bytes.clone();
        other_shape[0] = 100;
        for bytes in [
            &bytes[..23],
            &bytes[..16],
            &bytes[..8],
            &[],
            &bit_too_many,
            &other_shape,
        ] {
            assert!(matches!(
                History::from_bytes(bytes),
                Err(DstError::DamagedHistory { .. })
            ));
        }
        let mut too_large = bytes;
        too_large[..8].fill(255);
        assert!(matches!(
            History::from_bytes(&too_large),
            Err(DstError::Sparse(SparseError::ShapeTooLarge { .. }))
        ));
    }
}
