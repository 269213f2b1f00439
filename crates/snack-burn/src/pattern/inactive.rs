//! Uniform samples of the coordinates that are not non-zeros.
//!
//! With the active flat indices `a_0 < a_1 < ...`, the numbers `h_t = a_t - t` count the inactive
//! ones before `a_t` and never decrease, so the inactive coordinate of rank `r` is
//! `r + #{t : h_t <= r}`, found by binary search. Uniform distinct ranks therefore give uniform
//! distinct inactive coordinates, without retries and without a set of the active ones.

use super::Pattern;
use super::check::{check_flat, check_order};
use super::distinct::draw_distinct;
use crate::error::SparseError;
use rand::Rng;

/// From a share of one in so many slots on, one pass over them all beats a search for each
/// coordinate.
const SCAN_ABOVE: usize = 16;

impl Pattern {
    /// Draws `count` distinct inactive coordinates, every subset equally likely.
    ///
    /// Time `O(min(count log(m + nnz), count + m + nnz))` and memory `O(count)`, whatever the density.
    ///
    /// # Returns
    ///
    /// Increasing flat indices `row * k + col`, `[count]`.
    ///
    /// # Errors
    ///
    /// [`SparseError::NotEnoughInactive`] if `count > m * k - nnz`.
    pub fn sample_inactive<R: Rng + ?Sized>(
        &self,
        count: usize,
        rng: &mut R,
    ) -> Result<Vec<u64>, SparseError> {
        self.sample_inactive_except(count, &[], rng)
    }

    /// Draws `count` distinct inactive coordinates outside a list, every subset equally likely.
    ///
    /// # Arguments
    ///
    /// * `count` - number of coordinates.
    /// * `forbidden` - increasing flat indices of inactive coordinates that must not be drawn.
    /// * `rng` - its state determines the draw.
    ///
    /// # Returns
    ///
    /// Increasing flat indices `row * k + col`, `[count]`.
    ///
    /// # Errors
    ///
    /// The first index of `forbidden` that is out of range, out of order, a duplicate or a non-zero
    /// of the pattern; else [`SparseError::NotEnoughInactive`] if fewer than `count` are left.
    pub fn sample_inactive_except<R: Rng + ?Sized>(
        &self,
        count: usize,
        forbidden: &[u64],
        rng: &mut R,
    ) -> Result<Vec<u64>, SparseError> {
        let forbidden = self.inactive_ranks(forbidden)?;
        let available = self.size() - self.nnz() as u64 - forbidden.len() as u64;
        if count as u64 > available {
            return Err(SparseError::NotEnoughInactive {
                asked: count,
                available,
            });
        }
        let mut drawn = draw_distinct(count, available, rng);
        // The same formula twice: past the forbidden ranks, then past the active coordinates.
        if !forbidden.is_empty() {
            for rank in &mut drawn {
                *rank = skip(*rank, forbidden.len(), |t| forbidden[t]);
            }
        }
        match count > (self.nnz() + self.rows()) / SCAN_ABOVE {
            true => self.inactive_of_all(&mut drawn),
            false => drawn
                .iter_mut()
                .for_each(|rank| *rank = self.inactive_at(*rank)),
        }
        Ok(drawn)
    }

    /// As [`inactive_at`](Self::inactive_at) for increasing ranks, in one pass over the pattern.
    fn inactive_of_all(&self, ranks: &mut [u64]) {
        let width = self.columns() as u64;
        let mut ranks = ranks.iter_mut().peekable();
        for row in 0..self.rows() {
            let begin = row as u64 * width;
            // Active coordinates before the one of the rank.
            let mut before = self.row_offsets[row] as u64;
            for &col in self.row(row) {
                let active = begin + u64::from(col);
                while let Some(rank) = ranks.next_if(|rank| **rank + before < active) {
                    *rank += before;
                }
                before += 1;
            }
            while let Some(rank) = ranks.next_if(|rank| **rank + before < begin + width) {
                *rank += before;
            }
        }
    }

    /// Flat index of the inactive coordinate of a rank below `m * k - nnz`.
    fn inactive_at(&self, rank: u64) -> u64 {
        let width = self.columns() as u64;
        let before = |row: usize| row as u64 * width - self.row_offsets[row] as u64;
        let row = partition(self.rows(), |row| before(row) <= rank) - 1;
        let active = self.row(row);
        let col = skip(rank - before(row), active.len(), |t| u64::from(active[t]));
        row as u64 * width + col
    }

    /// Ranks among the inactive coordinates of a checked list of flat indices.
    pub(super) fn inactive_ranks(&self, flats: &[u64]) -> Result<Vec<u64>, SparseError> {
        let size = self.size();
        let mut previous = None;
        let mut ranks = Vec::with_capacity(flats.len());
        for (position, &flat) in flats.iter().enumerate() {
            let (row, col) = check_flat(self.shape, size, position, flat)?;
            check_order(position, previous, (row, col))?;
            previous = Some((row, col));
            match self.row(row).binary_search(&(col as u32)) {
                Ok(_) => return Err(SparseError::NotInactive { position, row, col }),
                Err(place) => ranks.push(flat - (self.row_offsets[row] + place) as u64),
            }
        }
        Ok(ranks)
    }
}

/// The number of rank `rank` outside the increasing list `taken(0), ..., taken(len - 1)`.
fn skip(rank: u64, len: usize, taken: impl Fn(usize) -> u64) -> u64 {
    rank + partition(len, |t| taken(t) - t as u64 <= rank) as u64
}

/// Number of leading indices below `len` for which a monotone predicate holds.
fn partition(len: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn inactive(pattern: &Pattern) -> Vec<u64> {
        let width = pattern.columns() as u64;
        (0..pattern.size())
            .filter(|flat| !pattern.contains((flat / width) as usize, (flat % width) as usize))
            .collect()
    }

    #[test]
    fn agrees_with_brute_force_on_every_rank() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..300 {
            let shape = [rng.random_range(1..7), rng.random_range(1..9)];
            let nnz = rng.random_range(0..=shape[0] * shape[1]);
            let pattern = Pattern::random(shape, nnz, &mut rng).unwrap();
            let expected = inactive(&pattern);
            let all: Vec<_> = (0..expected.len() as u64)
                .map(|r| pattern.inactive_at(r))
                .collect();
            assert_eq!(all, expected);
            assert_eq!(
                pattern.sample_inactive(expected.len(), &mut rng).unwrap(),
                expected
            );

            let (forbidden, allowed): (Vec<_>, Vec<_>) =
                expected.iter().partition(|_| rng.random_bool(0.3));
            let draw = |count, rng: &mut _| pattern.sample_inactive_except(count, &forbidden, rng);
            assert_eq!(draw(allowed.len(), &mut rng).unwrap(), allowed);
            let some = draw(allowed.len() / 2, &mut rng).unwrap();
            assert!(some.is_sorted_by(|a, b| a < b));
            assert!(some.iter().all(|flat| allowed.contains(flat)));
            let error = SparseError::NotEnoughInactive {
                asked: 99,
                available: allowed.len() as u64,
            };
            assert_eq!(draw(99, &mut rng), Err(error));
        }
    }

    #[test]
    fn every_pair_is_equally_likely() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let pattern = Pattern::from_sorted_flats([3, 3], [1, 3, 4]).unwrap();
        let mut counts = [0u32; 1 << 9];
        for _ in 0..1000 {
            let drawn = pattern.sample_inactive_except(2, &[8], &mut rng).unwrap();
            counts[drawn.iter().map(|flat| 1 << flat).sum::<usize>()] += 1;
        }
        // 10 pairs, 100 draws each: 99.9 % of chi-square with 9 degrees of freedom are below 27.9.
        let seen = counts.iter().filter(|&&count| count > 0);
        assert_eq!(seen.clone().count(), 10);
        let statistic: f64 = seen.map(|&n| (f64::from(n) - 100.0).powi(2) / 100.0).sum();
        assert!(statistic < 27.9, "chi-square {statistic}");
    }

    #[test]
    fn refuses_bad_forbidden_lists() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let pattern = Pattern::from_sorted_flats([2, 3], [4]).unwrap();
        let mut draw = |forbidden: &[u64]| pattern.sample_inactive_except(1, forbidden, &mut rng);
        assert_eq!(
            draw(&[0, 4]),
            Err(SparseError::NotInactive {
                position: 1,
                row: 1,
                col: 1
            })
        );
        assert_eq!(
            draw(&[0, 0]),
            Err(SparseError::Duplicate {
                position: 1,
                row: 0,
                col: 0
            })
        );
        assert!(matches!(
            draw(&[1, 0]),
            Err(SparseError::Unsorted { position: 1, .. })
        ));
        assert!(matches!(
            draw(&[6]),
            Err(SparseError::FlatOutOfRange { position: 0, .. })
        ));
    }

    #[test]
    fn beyond_32_bit_sizes() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let pattern = Pattern::random([65_537; 2], 1000, &mut rng).unwrap();
        let drawn = pattern.sample_inactive(10_000, &mut rng).unwrap();
        let drawn = Pattern::from_sorted_flats([65_537; 2], drawn).unwrap();
        assert_eq!(pattern.overlap(&drawn), Ok(0));
        assert!(drawn.flat(9_999) > u64::from(u32::MAX) - (1 << 24));
    }
}
