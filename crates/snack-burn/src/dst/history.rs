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
    if inactive == 0 {
        return if size == 0 { 0.0 } else { 1.0 };
    }
    let missed = 1.0 - grown.min(inactive) as f64 / inactive as f64;
    1.0 - inactive as f64 / size as f64 * missed.powf(updates as f64)
}
