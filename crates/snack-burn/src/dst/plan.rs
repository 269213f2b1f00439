//! One layer's update, decided on the host.

use std::iter::repeat;

use super::{Remap, Source};
use crate::error::SparseError;
use crate::pattern::Pattern;

/// The outcome of a topology update of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The coordinates after the update.
    pub pattern: Pattern,
    /// Where each slot of it comes from.
    pub remap: Remap,
    /// Connections that left.
    pub dropped: usize,
    /// Connections that entered.
    pub grown: usize,
    /// Connections that were chosen to leave and returned at once, with value and state; neither
    /// dropped nor grown.
    pub returned: usize,
    /// Values of the connections that entered, ascending by slot, `[grown]`.
    pub values: Vec<f32>,
    /// Gradient of the loss there, if it was measured, `[grown]`.
    pub gradients: Option<Vec<f32>>,
}

impl Plan {
    /// Replaces slots by coordinates; the values of those that enter are zero.
    ///
    /// A coordinate of a dropped slot may be among the grown ones: the connection then stays, with
    /// value and state.
    ///
    /// # Arguments
    ///
    /// - `pattern` - the coordinates before the update.
    /// - `dropped` - increasing slots.
    /// - `grown` - increasing flat indices `row * k + col`.
    ///
    /// # Errors
    ///
    /// The first grown coordinate that is out of range, out of order, a repetition, or there already
    /// and not dropped.
    pub fn new(pattern: &Pattern, dropped: &[u32], grown: &[u64]) -> Result<Self, SparseError> {
        check_grown(pattern, grown)?;
        let width = pattern.columns() as u64;
        let room = (pattern.nnz() + grown.len()).saturating_sub(dropped.len());
        let mut cols = Vec::with_capacity(room);
        let mut source = Vec::with_capacity(room);
        let mut offsets = Vec::with_capacity(pattern.rows() + 1);
        offsets.push(0);
        // No coordinate and no slot is so large.
        let mut entering = grown.iter().copied().chain(repeat(u64::MAX));
        let mut leaving = dropped.iter().copied().chain(repeat(u32::MAX));
        let (mut enters, mut leaves) = (next(&mut entering), next(&mut leaving));
        let (mut slot, mut left, mut returned) = (0u32, 0, 0);
        for row in 0..pattern.rows() {
            let (begin, end) = (row as u64 * width, (row as u64 + 1) * width);
            for &col in pattern.row(row) {
                let flat = begin + u64::from(col);
                while enters < flat {
                    cols.push((enters - begin) as u32);
                    source.push(Source::Fresh);
                    enters = next(&mut entering);
                }
                let again = enters == flat;
                if again {
                    enters = next(&mut entering);
                }
                let goes = leaves == slot;
                if goes {
                    leaves = next(&mut leaving);
                }
                match (goes, again) {
                    (true, false) => left += 1,
                    (false, true) => return Err(there_already(pattern, grown, flat)),
                    _ => {
                        returned += usize::from(again);
                        cols.push(col);
                        source.push(Source::Old(slot));
                    }
                }
                slot += 1;
            }
            while enters < end {
                cols.push((enters - begin) as u32);
                source.push(Source::Fresh);
                enters = next(&mut entering);
            }
            offsets.push(cols.len());
        }
        let entered = grown.len() - returned;
        Ok(Self {
            pattern: Pattern::from_trusted_offsets(pattern.shape(), offsets, cols)?,
            remap: Remap {
                old_len: pattern.nnz(),
                source,
            },
            dropped: left,
            grown: entered,
            returned,
            values: vec![0.0; entered],
            gradients: None,
        })
    }

    /// Whether nothing changes.
    pub fn is_noop(&self) -> bool {
        self.dropped + self.grown == 0
    }

    /// Flat indices of the connections that entered, ascending, `[grown]`.
    pub fn fresh_flats(&self) -> Vec<u64> {
        let flats = self.pattern.flats().zip(&self.remap.source);
        flats
            .filter(|(_, source)| **source == Source::Fresh)
            .map(|(flat, _)| flat)
            .collect()
    }
}

/// The next of a list without an end.
fn next<T>(list: &mut impl Iterator<Item = T>) -> T {
    list.next().expect("the list has no end")
}

/// The grown coordinates must be in range and increasing.
fn check_grown(pattern: &Pattern, grown: &[u64]) -> Result<(), SparseError> {
    let inside = grown.last().is_none_or(|&last| last < pattern.size());
    match inside && grown.is_sorted_by(|a, b| a < b) {
        true => Ok(()),
        // Finds the first that is not.
        false => Pattern::from_sorted_flats(pattern.shape(), grown.iter().copied()).map(drop),
    }
}

fn there_already(pattern: &Pattern, grown: &[u64], flat: u64) -> SparseError {
    let width = pattern.columns() as u64;
    SparseError::NotInactive {
        position: grown.iter().position(|&at| at == flat).unwrap_or(0),
        row: (flat / width) as usize,
        col: (flat % width) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Source::{Fresh, Old};

    fn pattern() -> Pattern {
        Pattern::from_sorted_flats([3, 4], [1, 4, 5, 10]).unwrap()
    }

    #[test]
    fn slots_leave_and_coordinates_enter_in_order() {
        let plan = Plan::new(&pattern(), &[0, 2], &[0, 6, 11]).unwrap();
        assert_eq!(plan.pattern.flats().collect::<Vec<_>>(), [0, 4, 6, 10, 11]);
        assert_eq!(plan.remap.source, [Fresh, Old(1), Fresh, Old(3), Fresh]);
        assert_eq!((plan.dropped, plan.grown, plan.returned), (2, 3, 0));
        assert_eq!(plan.fresh_flats(), [0, 6, 11]);
        assert_eq!(plan.values, [0.0; 3]);
    }

    #[test]
    fn a_dropped_connection_may_return_as_itself() {
        let plan = Plan::new(&pattern(), &[0, 2], &[5, 8]).unwrap();
        assert_eq!(plan.pattern.flats().collect::<Vec<_>>(), [4, 5, 8, 10]);
        assert_eq!(plan.remap.source, [Old(1), Old(2), Fresh, Old(3)]);
        assert_eq!((plan.dropped, plan.grown, plan.returned), (1, 1, 1));
    }

    #[test]
    fn nothing_at_all() {
        let plan = Plan::new(&pattern(), &[], &[]).unwrap();
        assert!(plan.is_noop());
        assert_eq!(plan.pattern, pattern());
        let plan = Plan::new(&pattern(), &[3], &[10]).unwrap();
        assert!(plan.is_noop() && plan.returned == 1);
    }

    #[test]
    fn bad_coordinates_are_refused() {
        let build = |grown: &[u64]| Plan::new(&pattern(), &[0], grown).unwrap_err();
        let present = SparseError::NotInactive {
            position: 1,
            row: 1,
            col: 0,
        };
        assert_eq!(build(&[3, 4]), present);
        assert!(matches!(build(&[7, 6]), SparseError::Unsorted { .. }));
        assert!(matches!(build(&[2, 2]), SparseError::Duplicate { .. }));
        assert!(matches!(build(&[12]), SparseError::FlatOutOfRange { .. }));
    }
}
