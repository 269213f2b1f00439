//! One layer's update, decided on the host.

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
        let [rows, width] = pattern.shape();
        let coordinates = grown_coordinates(pattern, grown)?;
        let mut grown_in_rows = coordinates.iter().copied().peekable();
        let mut dropped_slots = dropped.iter().copied().peekable();
        let room = (pattern.nnz() + grown.len()).saturating_sub(dropped.len());
        let mut cols = Vec::with_capacity(room);
        let mut source = Vec::with_capacity(room);
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        let (mut slot, mut left, mut returned) = (0u32, 0, 0);
        for row in 0..rows as u32 {
            let mut fresh_before = |col: u32, cols: &mut Vec<u32>, source: &mut Vec<Source>| {
                while let Some((_, fresh)) = grown_in_rows.next_if(|&at| at < (row, col)) {
                    cols.push(fresh);
                    source.push(Source::Fresh);
                }
                grown_in_rows.next_if_eq(&(row, col)).is_some()
            };
            for &col in pattern.row(row as usize) {
                let again = fresh_before(col, &mut cols, &mut source);
                let leaves = dropped_slots.next_if_eq(&slot).is_some();
                match (leaves, again) {
                    (true, false) => left += 1,
                    (false, true) => return Err(there_already(pattern, grown, row, col)),
                    _ => {
                        returned += usize::from(again);
                        cols.push(col);
                        source.push(Source::Old(slot));
                    }
                }
                slot += 1;
            }
            fresh_before(width as u32, &mut cols, &mut source);
            offsets.push(cols.len());
        }
        let entered = grown.len() - returned;
        Ok(Self {
            pattern: Pattern::from_offsets(pattern.shape(), offsets, cols)?,
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

/// Rows and columns of the grown coordinates, which must be increasing.
fn grown_coordinates(pattern: &Pattern, grown: &[u64]) -> Result<Vec<(u32, u32)>, SparseError> {
    let checked = Pattern::from_sorted_flats(pattern.shape(), grown.iter().copied())?;
    let coordinates = checked.iter().map(|(row, col)| (row as u32, col as u32));
    Ok(coordinates.collect())
}

fn there_already(pattern: &Pattern, grown: &[u64], row: u32, col: u32) -> SparseError {
    let flat = u64::from(row) * pattern.columns() as u64 + u64::from(col);
    SparseError::NotInactive {
        position: grown.iter().position(|&at| at == flat).unwrap_or(0),
        row: row as usize,
        col: col as usize,
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
