//! How work is shared among threads.

use core::ops::Range;

use rayon::prelude::*;

/// Below this much work, see [`is_shared`], a product runs on the calling thread. It is worth 50 to
/// 80 microseconds of one core; waking another one costs about 30.
const SERIAL_BELOW: usize = 1 << 21;

/// What a non-zero costs beside its products, in products.
const COST_PER_ENTRY: usize = 16;

/// Parts of the work for each thread: enough to even out parts of unequal cost.
const PARTS_PER_THREAD: usize = 4;

/// The threads that a product of `nnz` non-zeros with `batch` samples is worth.
pub(super) fn threads(nnz: usize, batch: usize) -> usize {
    match is_shared(nnz, batch) {
        true => rayon::current_num_threads(),
        false => 1,
    }
}

pub(super) fn is_shared(nnz: usize, batch: usize) -> bool {
    nnz.saturating_mul(batch + COST_PER_ENTRY) >= SERIAL_BELOW
}

/// The parts into which each of `tiles` tiles is cut.
pub(super) fn parts(threads: usize, tiles: usize) -> usize {
    match threads {
        1 => 1,
        _ => (threads * PARTS_PER_THREAD).div_ceil(tiles),
    }
}

/// Rows in at most `parts` ranges of about equal numbers of non-zeros, none of them empty.
pub(super) fn rows(offsets: &[i32], parts: usize) -> Vec<Range<usize>> {
    let rows = offsets.len() - 1;
    let nnz = offsets[rows] as usize;
    let mut first = 0;
    let mut ranges = Vec::with_capacity(parts);
    for part in 1..=parts {
        let last = match part == parts {
            true => rows,
            false => {
                let target = nnz as u128 * part as u128 / parts as u128;
                offsets[first..rows].partition_point(|&offset| (offset as u128) < target) + first
            }
        };
        if first < last {
            ranges.push(first..last);
        }
        first = last;
    }
    ranges
}

/// `0 .. count` in at most `parts` ranges of about equal length, none of them empty.
pub(super) fn evenly(count: usize, parts: usize) -> Vec<Range<usize>> {
    let share = count.div_ceil(parts).max(1);
    (0..count)
        .step_by(share)
        .map(|first| first..(first + share).min(count))
        .collect()
}

/// The columns of a batch-major matrix in ranges that cover them in order: for each range, its
/// part of every sample.
pub(super) fn columns<'a, T>(
    y: &'a mut [T],
    features: usize,
    ranges: &[Range<usize>],
) -> Vec<Vec<&'a mut [T]>> {
    let mut rest: Vec<_> = y.chunks_mut(features).collect();
    ranges
        .iter()
        .map(|range| {
            rest.iter_mut()
                .map(|rest| {
                    rest.split_off_mut(..range.len())
                        .expect("ranges that do not exceed the features")
                })
                .collect()
        })
        .collect()
}

/// Runs the jobs, in any order, on at most `threads` threads.
pub(super) fn for_each<J: Send>(jobs: Vec<J>, threads: usize, run: impl Fn(J) + Send + Sync) {
    match threads {
        1 => jobs.into_iter().for_each(run),
        _ => jobs.into_par_iter().for_each(run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_covered_once_in_order() {
        for offsets in [
            &[0][..],
            &[0, 0, 0],
            &[0, 5],
            &[0, 0, 9, 9, 9, 10, 11],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8],
        ] {
            for parts in [1, 2, 3, 16] {
                let ranges = rows(offsets, parts);
                assert!(ranges.len() <= parts && ranges.iter().all(|range| !range.is_empty()));
                let covered: Vec<_> = ranges.into_iter().flatten().collect();
                assert!(covered.into_iter().eq(0..offsets.len() - 1));
            }
        }
    }

    #[test]
    fn parts_have_equal_numbers_of_non_zeros() {
        let offsets = [0, 100, 100, 150, 200, 201, 300];
        assert_eq!(rows(&offsets, 3), [0..1, 1..4, 4..6]);
    }

    #[test]
    fn columns_of_every_sample() {
        let mut y: Vec<_> = (0..10).collect();
        let parts = columns(&mut y, 5, &evenly(5, 2));
        assert_eq!(
            parts,
            [vec![&[0, 1, 2][..], &[5, 6, 7]], vec![&[3, 4], &[8, 9]]]
        );
    }
}
