//! The gradient panel by panel, with the best candidates so far.

use core::ops::Range;

use burn::backend::Dispatch;
use burn::tensor::{DType, Int, Tensor, TensorData, Transaction};

use super::candidates::{Best, Candidate};
use crate::error::SparseError;
use crate::ops::{GradientPanel, SparseOps};
use crate::pattern::Pattern;

/// Entries of a panel at most, so that positions fit 32 bits.
const LARGEST: usize = 1 << 30;

/// One pass over a gradient.
pub(super) struct Scan<'a> {
    g: &'a Tensor<2>,
    x: &'a Tensor<2>,
    excluded: &'a Pattern,
    /// Rows and columns of a panel.
    panel: [usize; 2],
    reversed: bool,
}

impl<'a> Scan<'a> {
    pub fn new(
        g: &'a Tensor<2>,
        x: &'a Tensor<2>,
        excluded: &'a Pattern,
        scratch: usize,
        reversed: bool,
    ) -> Self {
        Self {
            g,
            x,
            excluded,
            panel: panel(excluded.shape(), scratch),
            reversed,
        }
    }

    /// The best of all.
    pub fn top_k(&self, count: usize) -> Result<Best, SparseError> {
        let mut best = Best::new(count);
        if count == 0 {
            return Ok(best);
        }
        if self.is_zero() {
            best.extend(self.first_inactive(count));
            return Ok(best);
        }
        for panel in self.panels() {
            let mask = Mask::new(self.excluded, &panel);
            let count = count.min(panel.len() - mask.excluded);
            if count == 0 {
                continue;
            }
            let (positions, gradients) = Dispatch::top_gradients(
                self.g.clone().into_dispatch(),
                self.x.clone().into_dispatch(),
                mask.upload(&panel, self.g).into_dispatch(),
                panel.clone(),
                count,
                best.floor(),
            );
            let positions = Tensor::<1, Int>::from_dispatch(positions);
            let gradients = Tensor::<1>::from_dispatch(gradients);
            best.extend(self.candidates(&panel, positions, gradients)?);
        }
        Ok(best)
    }

    /// The best of each row, sorted within it.
    pub fn top_k_per_row(&self, quotas: &[usize]) -> Result<Vec<Candidate>, SparseError> {
        let width = self.excluded.columns() as u64;
        let mut best: Vec<_> = quotas.iter().map(|&quota| Best::new(quota)).collect();
        if self.is_zero() {
            for (row, best) in best.iter_mut().enumerate() {
                best.extend(self.first_of_row(row, quotas[row]));
            }
        } else if quotas.iter().any(|&quota| quota > 0) {
            for panel in self.panels() {
                let mask = Mask::new(self.excluded, &panel);
                let starts = mask.starts(&panel, quotas);
                let total = starts[panel.rows.len()] as usize;
                if total == 0 {
                    continue;
                }
                let length = starts.len();
                let starts = Tensor::<1, Int>::from_data(
                    TensorData::new(starts, [length]),
                    (&self.g.device(), DType::I32),
                );
                let (positions, gradients) = Dispatch::top_gradients_per_row(
                    self.g.clone().into_dispatch(),
                    self.x.clone().into_dispatch(),
                    mask.upload(&panel, self.g).into_dispatch(),
                    starts.into_dispatch(),
                    panel.clone(),
                    total,
                );
                let positions = Tensor::<1, Int>::from_dispatch(positions);
                let gradients = Tensor::<1>::from_dispatch(gradients);
                let found = self.candidates(&panel, positions, gradients)?;
                for row in found.chunk_by(|a, b| a.flat / width == b.flat / width) {
                    best[(row[0].flat / width) as usize].extend(row.to_vec());
                }
            }
        }
        Ok(best.into_iter().flat_map(Best::sorted).collect())
    }

    /// Whether all gradients are empty sums, which no device needs to compute.
    fn is_zero(&self) -> bool {
        self.g.dims()[0] == 0
    }

    /// The lowest inactive coordinates, whose gradients are zero.
    fn first_inactive(&self, count: usize) -> Vec<Candidate> {
        (0..self.excluded.rows())
            .flat_map(|row| self.inactive_of_row(row))
            .take(count)
            .collect()
    }

    fn first_of_row(&self, row: usize, count: usize) -> Vec<Candidate> {
        self.inactive_of_row(row).take(count).collect()
    }

    fn inactive_of_row(&self, row: usize) -> impl Iterator<Item = Candidate> {
        let width = self.excluded.columns() as u64;
        let mut active = self.excluded.row(row).iter().peekable();
        (0..width)
            .filter(move |&col| {
                let taken = active.next_if(|&&active| u64::from(active) == col);
                taken.is_none()
            })
            .map(move |col| Candidate {
                flat: row as u64 * width + col,
                gradient: 0.0,
            })
    }

    fn panels(&self) -> Vec<GradientPanel> {
        let [rows, cols] = self.excluded.shape();
        let ranges = |size: usize, step: usize| {
            (0..size)
                .step_by(step)
                .map(move |first| first..(first + step).min(size))
        };
        let mut panels: Vec<_> = ranges(rows, self.panel[0])
            .flat_map(|rows| {
                ranges(cols, self.panel[1]).map(move |cols| GradientPanel {
                    rows: rows.clone(),
                    cols,
                })
            })
            .collect();
        if self.reversed {
            panels.reverse();
        }
        panels
    }

    /// Reads what an operation found in a panel.
    fn candidates(
        &self,
        panel: &GradientPanel,
        positions: Tensor<1, Int>,
        gradients: Tensor<1>,
    ) -> Result<Vec<Candidate>, SparseError> {
        let data = Transaction::default()
            .register(positions)
            .register(gradients)
            .execute();
        let (positions, gradients): (Vec<i32>, Vec<f32>) =
            match (data[0].as_slice(), data[1].as_slice()) {
                (Ok(positions), Ok(gradients)) => (positions.to_vec(), gradients.to_vec()),
                _ => (data[0].iter().collect(), data[1].iter().collect()),
            };
        let width = panel.cols.len() as u32;
        let mut found = Vec::with_capacity(positions.len());
        for (position, gradient) in positions.into_iter().zip(gradients) {
            let Ok(position) = u32::try_from(position) else {
                continue;
            };
            let [row, col] = [position / width, position % width].map(|index| index as usize);
            let (row, col) = (panel.rows.start + row, panel.cols.start + col);
            if !gradient.is_finite() {
                return Err(SparseError::NonFiniteGradient { row, col, gradient });
            }
            found.push(Candidate {
                flat: row as u64 * self.excluded.columns() as u64 + col as u64,
                // Both zeros become the positive one.
                gradient: gradient + 0.0,
            });
        }
        Ok(found)
    }
}

/// Rows and columns of the panels of a gradient, for so many bytes of scratch.
fn panel([rows, cols]: [usize; 2], scratch: usize) -> [usize; 2] {
    let entries = (scratch / size_of::<f32>()).clamp(1, LARGEST);
    match entries / cols.max(1) {
        0 => [1, entries],
        height => [height.min(rows.max(1)), cols.max(1)],
    }
}

/// The excluded coordinates of a panel, one bit each, rows of whole words.
struct Mask {
    words: Vec<i32>,
    excluded: usize,
    /// Excluded coordinates of each row.
    per_row: Vec<usize>,
}

impl Mask {
    fn new(pattern: &Pattern, panel: &GradientPanel) -> Self {
        let stride = panel.mask_stride();
        let mut words = vec![0; panel.rows.len() * stride];
        let mut per_row = Vec::with_capacity(panel.rows.len());
        for (row, words) in panel.rows.clone().zip(words.chunks_mut(stride)) {
            let active = within(pattern.row(row), &panel.cols);
            for &col in active {
                let col = col as usize - panel.cols.start;
                words[col / 32] |= 1 << (col % 32);
            }
            per_row.push(active.len());
        }
        Self {
            words,
            excluded: per_row.iter().sum(),
            per_row,
        }
    }

    fn upload(self, panel: &GradientPanel, like: &Tensor<2>) -> Tensor<2, Int> {
        let shape = [panel.rows.len(), panel.mask_stride()];
        Tensor::from_data(
            TensorData::new(self.words, shape),
            (&like.device(), DType::I32),
        )
    }

    /// Where the candidates of each row begin: its quota, or as many as there are.
    fn starts(&self, panel: &GradientPanel, quotas: &[usize]) -> Vec<i32> {
        let quotas = &quotas[panel.rows.clone()];
        let mut starts = Vec::with_capacity(quotas.len() + 1);
        let mut end = 0;
        starts.push(end);
        for (quota, excluded) in quotas.iter().zip(&self.per_row) {
            end += (*quota).min(panel.cols.len() - excluded) as i32;
            starts.push(end);
        }
        starts
    }
}

/// The columns of a sorted row that lie in a range.
fn within<'a>(row: &'a [u32], cols: &Range<usize>) -> &'a [u32] {
    let below = |limit: usize| row.partition_point(|&col| (col as usize) < limit);
    &row[below(cols.start)..below(cols.end)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_keep_to_the_scratch() {
        assert_eq!(panel([768, 3072], 16 << 20), [768, 3072]);
        assert_eq!(panel([4096, 4096], 16 << 20), [1024, 4096]);
        assert_eq!(panel([100, 10], 4 * 10 * 7), [7, 10]);
        assert_eq!(panel([100, 10], 4 * 10 * 7 - 1), [6, 10]);
        assert_eq!(panel([100, 10], 39), [1, 9]);
        assert_eq!(panel([100, 10], 0), [1, 1]);
        assert_eq!(panel([1 << 20, 1 << 20], usize::MAX), [1 << 10, 1 << 20]);
        assert_eq!(panel([0, 0], 8), [1, 1]);
    }

    #[test]
    fn masks_of_panels() {
        let pattern =
            Pattern::from_coordinates([3, 70], &[0, 1, 1, 1, 2], &[0, 2, 33, 69, 5]).unwrap();
        let panel = GradientPanel {
            rows: 1..3,
            cols: 2..70,
        };
        let mask = Mask::new(&pattern, &panel);
        assert_eq!(mask.words, [1 | 1 << 31, 0, 1 << 3, 1 << 3, 0, 0]);
        assert_eq!((mask.excluded, mask.per_row.as_slice()), (4, &[3, 1][..]));
        assert_eq!(mask.starts(&panel, &[9, 2, 80]), [0, 2, 69]);
    }
}
