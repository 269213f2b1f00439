use super::Pattern;
use super::shape::{check_count, check_slots, checked_size};
use crate::error::SparseError;

/// Appends coordinates that the caller knows to be in range and in canonical order.
pub(super) struct Builder {
    shape: [usize; 2],
    row_offsets: Vec<usize>,
    cols: Vec<u32>,
}

impl Builder {
    /// Room for `capacity` non-zeros is reserved.
    pub(super) fn new(shape: [usize; 2], capacity: usize) -> Result<Self, SparseError> {
        checked_size(shape)?;
        check_slots(capacity as u64)?;
        Ok(Self {
            shape,
            row_offsets: Vec::with_capacity(shape[0] + 1),
            cols: Vec::with_capacity(capacity),
        })
    }

    pub(super) fn push(&mut self, row: usize, col: u32) -> Result<(), SparseError> {
        check_slots(self.cols.len() as u64 + 1)?;
        self.open_rows(row);
        self.cols.push(col);
        Ok(())
    }

    pub(super) fn push_flat(&mut self, flat: u64) -> Result<(), SparseError> {
        let width = self.shape[1] as u64;
        self.push((flat / width) as usize, (flat % width) as u32)
    }

    pub(super) fn finish(mut self) -> Pattern {
        self.open_rows(self.shape[0]);
        self.cols.shrink_to_fit();
        Pattern {
            shape: self.shape,
            row_offsets: self.row_offsets,
            cols: self.cols,
        }
    }

    /// Records where every row up to and including `row` starts.
    fn open_rows(&mut self, row: usize) {
        if self.row_offsets.len() <= row {
            self.row_offsets.resize(row + 1, self.cols.len());
        }
    }
}

impl Pattern {
    /// As [`from_offsets`](Self::from_offsets), of lists that are known to be in canonical order.
    pub(crate) fn from_trusted_offsets(
        shape: [usize; 2],
        row_offsets: Vec<usize>,
        cols: Vec<u32>,
    ) -> Result<Self, SparseError> {
        check_count(shape, cols.len())?;
        let pattern = Self {
            shape,
            row_offsets,
            cols,
        };
        debug_assert!(
            Self::from_offsets(shape, pattern.row_offsets.clone(), pattern.cols.clone()).is_ok()
        );
        Ok(pattern)
    }

    /// The pattern without the slots of an increasing list.
    pub(crate) fn without_slots(&self, slots: &[u32]) -> Self {
        let mut row_offsets = Vec::with_capacity(self.row_offsets.len());
        let mut cols = Vec::with_capacity(self.nnz());
        let mut begin = 0;
        row_offsets.push(0);
        let mut slots = slots.iter().map(|&slot| slot as usize).peekable();
        for &end in &self.row_offsets[1..] {
            while let Some(slot) = slots.next_if(|&slot| slot < end) {
                cols.extend_from_slice(&self.cols[begin..slot]);
                begin = slot + 1;
            }
            cols.extend_from_slice(&self.cols[begin..end]);
            begin = end;
            row_offsets.push(cols.len());
        }
        Self {
            shape: self.shape,
            row_offsets,
            cols,
        }
    }

    /// A pattern out of flat indices that are known to be in range and strictly increasing.
    pub(super) fn from_trusted_flats(
        shape: [usize; 2],
        flats: impl ExactSizeIterator<Item = u64>,
    ) -> Result<Self, SparseError> {
        let mut builder = Builder::new(shape, flats.len())?;
        for flat in flats {
            builder.push_flat(flat)?;
        }
        Ok(builder.finish())
    }
}
