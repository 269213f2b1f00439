//! The largest of some scores on the host, exactly, ties by lower position.
//!
//! A score is the magnitude of a gradient. Compared as the bits of non-negative floats, an infinite
//! score is above all finite ones and an undefined one above that, so that neither is overlooked.

/// Which coordinates of a panel are excluded: one bit per coordinate, rows of whole words.
#[derive(Clone, Copy)]
pub(crate) struct Mask<'a> {
    pub bits: &'a [i32],
    pub stride: usize,
}

/// A panel of gradients, row-major, without what is excluded.
#[derive(Clone, Copy)]
struct Panel<'a> {
    gradients: &'a [f32],
    cols: usize,
    mask: Mask<'a>,
}

impl Panel<'_> {
    /// Calls `visit(column, score)` for what counts in a row, in order.
    #[inline]
    fn scan_row(&self, row: usize, mut visit: impl FnMut(usize, u32)) {
        let gradients = &self.gradients[row * self.cols..][..self.cols];
        let words = &self.mask.bits[row * self.mask.stride..][..self.mask.stride];
        for (word, (&bits, chunk)) in words.iter().zip(gradients.chunks(32)).enumerate() {
            for (bit, gradient) in chunk.iter().enumerate() {
                if bits >> bit & 1 == 0 {
                    visit(word * 32 + bit, score(*gradient));
                }
            }
        }
    }

    /// Calls `visit(position, score)` for what counts, in order.
    #[inline]
    fn scan(&self, mut visit: impl FnMut(usize, u32)) {
        for row in 0..self.gradients.len() / self.cols {
            self.scan_row(row, |col, score| visit(row * self.cols + col, score));
        }
    }

    /// The score from which on elements are taken, and how many of exactly that score.
    fn threshold(&self, count: usize, floor: u32) -> (u32, usize) {
        const LOW: u32 = 15;
        let mut bins = vec![0usize; 1 << 16];
        self.scan(|_, score| {
            if score >= floor {
                bins[(score >> LOW) as usize] += 1;
            }
        });
        let Some((high, rest)) = bin_of(&bins, count) else {
            return (floor, usize::MAX);
        };
        bins.truncate(1 << LOW);
        bins.fill(0);
        self.scan(|_, score| {
            if score >= floor && score >> LOW == high {
                bins[(score & ((1 << LOW) - 1)) as usize] += 1;
            }
        });
        let (low, ties) = bin_of(&bins, rest).expect("the bin holds the rest");
        (high << LOW | low, ties)
    }
}

/// The bits of the magnitude.
fn score(gradient: f32) -> u32 {
    gradient.to_bits() & 0x7fff_ffff
}

/// Positions and gradients of candidates; what no candidate fills has the position -1.
pub(crate) struct Selected {
    pub positions: Vec<i32>,
    pub gradients: Vec<f32>,
}

impl Selected {
    fn empty(count: usize) -> Self {
        Self {
            positions: vec![-1; count],
            gradients: vec![0.0; count],
        }
    }
}

/// The `count` largest of a panel of `cols` columns whose scores are at least `floor`.
pub(crate) fn select_panel(
    gradients: &[f32],
    cols: usize,
    mask: Mask<'_>,
    count: usize,
    floor: f32,
) -> Selected {
    let mut selected = Selected::empty(count);
    if count == 0 || gradients.is_empty() {
        return selected;
    }
    let panel = Panel {
        gradients,
        cols,
        mask,
    };
    let (threshold, mut ties) = panel.threshold(count, floor.to_bits());
    let mut place = 0;
    panel.scan(|position, score| {
        let taken = score > threshold || score == threshold && ties > 0;
        if taken {
            ties -= usize::from(score == threshold);
            selected.positions[place] = position as i32;
            selected.gradients[place] = gradients[position];
            place += 1;
        }
    });
    selected
}

/// The bin of the element of rank `count` from the top, and its rank in the bin.
fn bin_of(bins: &[usize], mut count: usize) -> Option<(u32, usize)> {
    for (bin, &members) in bins.iter().enumerate().rev() {
        if count <= members {
            return Some((bin as u32, count));
        }
        count -= members;
    }
    None
}

/// The largest of every row, `starts[row]..starts[row + 1]` of them.
pub(crate) fn select_rows(
    gradients: &[f32],
    cols: usize,
    mask: Mask<'_>,
    starts: &[i32],
) -> Selected {
    let total = starts.last().map_or(0, |&end| end as usize);
    let mut selected = Selected::empty(total);
    let panel = Panel {
        gradients,
        cols,
        mask,
    };
    let mut keys = Vec::new();
    for (row, range) in starts.windows(2).enumerate() {
        let (start, quota) = (range[0] as usize, (range[1] - range[0]) as usize);
        if quota == 0 {
            continue;
        }
        keys.clear();
        panel.scan_row(row, |col, score| {
            keys.push(u64::from(score) << 32 | u64::from(!(col as u32)));
        });
        if quota < keys.len() {
            keys.select_nth_unstable_by(quota - 1, |a, b| b.cmp(a));
            keys.truncate(quota);
        }
        for (place, &key) in (start..).zip(&keys) {
            let position = row * cols + !(key as u32) as usize;
            selected.positions[place] = position as i32;
            selected.gradients[place] = gradients[position];
        }
    }
    selected
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn brute(
        gradients: &[f32],
        range: core::ops::Range<usize>,
        excluded: &[bool],
        count: usize,
        floor: f32,
    ) -> Vec<i32> {
        let mut all: Vec<_> = range
            .filter(|&p| !excluded[p] && gradients[p].abs() >= floor)
            .collect();
        all.sort_by(|&a, &b| {
            gradients[b]
                .abs()
                .total_cmp(&gradients[a].abs())
                .then(a.cmp(&b))
        });
        all.truncate(count);
        all.sort_unstable();
        all.into_iter().map(|p| p as i32).collect()
    }

    fn found(selected: &Selected, range: core::ops::Range<usize>, gradients: &[f32]) -> Vec<i32> {
        let mut list = Vec::new();
        for place in range {
            let position = selected.positions[place];
            if position >= 0 {
                assert_eq!(selected.gradients[place], gradients[position as usize]);
                list.push(position);
            }
        }
        list.sort_unstable();
        list
    }

    #[test]
    fn agrees_with_a_full_sort() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for case in 0..300 {
            let [rows, cols] = [rng.random_range(1..9), rng.random_range(1..80usize)];
            let size = rows * cols;
            let gradients: Vec<f32> = (0..size)
                .map(|_| match case % 2 {
                    0 => rng.random_range(-2..3) as f32,
                    _ => rng.random_range(-1.0..1.0),
                })
                .collect();
            let excluded: Vec<bool> = (0..size).map(|_| rng.random_bool(0.3)).collect();
            let stride = cols.div_ceil(32);
            let mut bits = vec![0; rows * stride];
            for position in (0..size).filter(|&p| excluded[p]) {
                let (row, col) = (position / cols, position % cols);
                bits[row * stride + col / 32] |= 1 << (col % 32);
            }
            let mask = Mask {
                bits: &bits,
                stride,
            };
            for count in [0, 1, size / 3, size] {
                for floor in [0.0, 1.0] {
                    let selected = select_panel(&gradients, cols, mask, count, floor);
                    assert_eq!(
                        found(&selected, 0..count, &gradients),
                        brute(&gradients, 0..size, &excluded, count, floor)
                    );
                }
            }
            let mut starts = vec![0];
            for _ in 0..rows {
                starts.push(starts[starts.len() - 1] + rng.random_range(0..=cols) as i32);
            }
            let selected = select_rows(&gradients, cols, mask, &starts);
            for row in 0..rows {
                let places = starts[row] as usize..starts[row + 1] as usize;
                assert_eq!(
                    found(&selected, places.clone(), &gradients),
                    brute(
                        &gradients,
                        row * cols..(row + 1) * cols,
                        &excluded,
                        places.len(),
                        0.0
                    )
                );
            }
        }
    }

    #[test]
    fn what_is_not_finite_comes_first() {
        let gradients = [1.0, f32::NAN, f32::NEG_INFINITY, f32::MAX];
        let mask = Mask {
            bits: &[0],
            stride: 1,
        };
        let selected = select_panel(&gradients, 4, mask, 2, 0.0);
        assert_eq!(selected.positions, [1, 2]);
        let selected = select_rows(&gradients, 4, mask, &[0, 1]);
        assert_eq!(selected.positions, [1]);
    }
}
