//! Uniform samples of the inactive coordinates in some rows and some columns.

use super::Pattern;
use crate::error::SparseError;
use rand::Rng;

/// The coordinates of a pattern whose rows and columns belong to given sets, renumbered without
/// gaps: sampling in them is sampling in a smaller pattern.
#[derive(Debug, Clone)]
pub struct Region {
    /// Number of columns of the whole pattern, `k`.
    width: usize,
    rows: Vec<u32>,
    cols: Vec<u32>,
    /// The active coordinates of the region, `rows.len() x cols.len()`.
    inner: Pattern,
    /// Forbidden flat indices within `inner`, increasing.
    forbidden: Vec<u64>,
}

impl Pattern {
    /// The coordinates in the given rows and columns, without those of a list.
    ///
    /// Time and memory `O(m + k + nnz)`.
    ///
    /// # Arguments
    ///
    /// * `rows`, `cols` - the sets, each increasing.
    /// * `forbidden` - increasing flat indices `row * k + col` of inactive coordinates that must
    ///   not be drawn, in the region or outside.
    ///
    /// # Errors
    ///
    /// The first row or column that is out of range or not above the one before, or the first
    /// index of `forbidden` that [`Pattern::sample_inactive_except`] would refuse.
    pub fn region(
        &self,
        rows: Vec<u32>,
        cols: Vec<u32>,
        forbidden: &[u64],
    ) -> Result<Region, SparseError> {
        check_axis("row", &rows, self.rows())?;
        check_axis("column", &cols, self.columns())?;
        self.inactive_ranks(forbidden)?;
        let mut places = vec![None; self.columns()];
        for (place, &col) in (0u32..).zip(&cols) {
            places[col as usize] = Some(place);
        }
        let place = |col: u32| places[col as usize];

        let mut row_offsets = Vec::with_capacity(rows.len() + 1);
        let mut active = Vec::new();
        row_offsets.push(0);
        for &row in &rows {
            active.extend(self.row(row as usize).iter().filter_map(|&col| place(col)));
            row_offsets.push(active.len());
        }
        let width = self.columns() as u64;
        let forbidden = forbidden.iter().filter_map(|&flat| {
            let row = rows.binary_search(&((flat / width) as u32)).ok()? as u64;
            let col = place((flat % width) as u32)?;
            Some(row * cols.len() as u64 + u64::from(col))
        });
        let forbidden = forbidden.collect();
        let inner = Self {
            shape: [rows.len(), cols.len()],
            row_offsets,
            cols: active,
        };
        Ok(Region {
            width: self.columns(),
            rows,
            cols,
            inner,
            forbidden,
        })
    }
}

impl Region {
    /// Number of coordinates that may be drawn.
    pub fn available(&self) -> u64 {
        self.inner.size() - self.inner.nnz() as u64 - self.forbidden.len() as u64
    }

    /// Draws `count` distinct inactive coordinates of the region, every subset equally likely.
    ///
    /// # Returns
    ///
    /// Increasing flat indices `row * k + col` of the whole pattern, `[count]`.
    ///
    /// # Errors
    ///
    /// [`SparseError::NotEnoughInactive`] if `count` exceeds [`available`](Self::available).
    pub fn sample<R: Rng + ?Sized>(
        &self,
        count: usize,
        rng: &mut R,
    ) -> Result<Vec<u64>, SparseError> {
        let mut drawn = self
            .inner
            .sample_inactive_except(count, &self.forbidden, rng)?;
        let cols = self.cols.len() as u64;
        for flat in &mut drawn {
            let row = self.rows[(*flat / cols) as usize];
            let col = self.cols[(*flat % cols) as usize];
            *flat = u64::from(row) * self.width as u64 + u64::from(col);
        }
        Ok(drawn)
    }
}

/// Refuses a list that is no increasing list of indices of an axis.
fn check_axis(axis: &'static str, list: &[u32], size: usize) -> Result<(), SparseError> {
    let mut least = 0;
    for (position, &index) in list.iter().enumerate() {
        if (index as usize) < least || index as usize >= size {
            return Err(SparseError::InvalidSet {
                axis,
                position,
                index,
                low: least,
                size,
            });
        }
        least = index as usize + 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn subset(size: usize, rng: &mut ChaCha8Rng) -> Vec<u32> {
        (0..size as u32).filter(|_| rng.random_bool(0.6)).collect()
    }

    #[test]
    fn agrees_with_brute_force() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..300 {
            let shape = [rng.random_range(1..8), rng.random_range(1..9)];
            let nnz = rng.random_range(0..=shape[0] * shape[1]);
            let pattern = Pattern::random(shape, nnz, &mut rng).unwrap();
            let [rows, cols] = shape.map(|size| subset(size, &mut rng));
            let inactive = (0..pattern.size()).filter(|&flat| {
                let width = shape[1] as u64;
                !pattern.contains((flat / width) as usize, (flat % width) as usize)
            });
            let (forbidden, free): (Vec<u64>, Vec<u64>) =
                inactive.partition(|_| rng.random_bool(0.2));
            let expected: Vec<u64> = free
                .into_iter()
                .filter(|flat| {
                    let width = shape[1] as u64;
                    rows.contains(&((flat / width) as u32))
                        && cols.contains(&((flat % width) as u32))
                })
                .collect();
            let region = pattern.region(rows, cols, &forbidden).unwrap();
            assert_eq!(region.available(), expected.len() as u64);
            assert_eq!(region.sample(expected.len(), &mut rng).unwrap(), expected);
            let some = region.sample(expected.len() / 2, &mut rng).unwrap();
            assert!(some.is_sorted_by(|a, b| a < b));
            assert!(some.iter().all(|flat| expected.contains(flat)));
            assert_eq!(
                region.sample(99, &mut rng),
                Err(SparseError::NotEnoughInactive {
                    asked: 99,
                    available: expected.len() as u64
                })
            );
        }
    }

    #[test]
    fn every_pair_is_equally_likely() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let pattern = Pattern::from_sorted_flats([4, 4], [0, 5, 9]).unwrap();
        // Rows 0 and 2, columns 1 to 3: 6 coordinates, of which 9 is active and 3 forbidden.
        let region = pattern.region(vec![0, 2], vec![1, 2, 3], &[3, 4]).unwrap();
        let mut counts = [0u32; 1 << 16];
        for _ in 0..600 {
            let drawn = region.sample(2, &mut rng).unwrap();
            counts[drawn.iter().map(|flat| 1 << flat).sum::<usize>()] += 1;
        }
        // 6 pairs, 100 draws each: 99.9 % of chi-square with 5 degrees of freedom are below 20.5.
        let seen = counts.iter().filter(|&&count| count > 0);
        assert_eq!(seen.clone().count(), 6);
        let statistic: f64 = seen.map(|&n| (f64::from(n) - 100.0).powi(2) / 100.0).sum();
        assert!(statistic < 20.5, "chi-square {statistic}");
    }

    #[test]
    fn refuses_lists_that_are_no_sets() {
        let pattern = Pattern::empty([3, 5]).unwrap();
        for (rows, cols, axis, position, index, low, size) in [
            (vec![0, 3], vec![], "row", 1, 3, 1, 3),
            (vec![1, 1], vec![], "row", 1, 1, 2, 3),
            (vec![], vec![4, 2], "column", 1, 2, 5, 5),
        ] {
            let error = pattern.region(rows, cols, &[]).unwrap_err();
            let expected = SparseError::InvalidSet {
                axis,
                position,
                index,
                low,
                size,
            };
            assert_eq!(error, expected);
        }
        assert!(matches!(
            pattern.region(vec![0], vec![0], &[15]),
            Err(SparseError::FlatOutOfRange { position: 0, .. })
        ));
    }

    #[test]
    fn beyond_32_bit_sizes() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let pattern = Pattern::random([65_537; 2], 1000, &mut rng).unwrap();
        let region = pattern
            .region(vec![0, 65_536], vec![65_535, 65_536], &[])
            .unwrap();
        assert_eq!(
            region.sample(4, &mut rng).unwrap(),
            [
                65_535,
                65_536,
                65_536 * 65_537 + 65_535,
                65_536 * 65_537 + 65_536
            ]
        );
    }
}
