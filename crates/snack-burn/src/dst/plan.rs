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
    /// The first coordinate that is out of range, out of order or there already.
    pub fn new(pattern: &Pattern, dropped: &[u32], grown: &[u64]) -> Result<Self, SparseError> {
        let mut flats = Vec::with_capacity(pattern.nnz() + grown.len());
        let mut source = Vec::with_capacity(flats.capacity());
        let mut dropped_slots = dropped.iter().copied().peekable();
        let mut grown_flats = grown.iter().copied().peekable();
        let (mut left, mut returned) = (0, 0);
        for (slot, flat) in (0u32..).zip(pattern.flats()) {
            while let Some(fresh) = grown_flats.next_if(|&fresh| fresh < flat) {
                flats.push(fresh);
                source.push(Source::Fresh);
            }
            if dropped_slots.next_if_eq(&slot).is_some() {
                if grown_flats.next_if_eq(&flat).is_none() {
                    left += 1;
                    continue;
                }
                returned += 1;
            }
            flats.push(flat);
            source.push(Source::Old(slot));
        }
        for fresh in grown_flats {
            flats.push(fresh);
            source.push(Source::Fresh);
        }
        let entered = grown.len() - returned;
        Ok(Self {
            pattern: Pattern::from_sorted_flats(pattern.shape(), flats)?,
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
        assert!(matches!(build(&[4]), SparseError::Duplicate { .. }));
        assert!(matches!(build(&[7, 6]), SparseError::Unsorted { .. }));
        assert!(matches!(build(&[2, 2]), SparseError::Duplicate { .. }));
        assert!(matches!(build(&[12]), SparseError::FlatOutOfRange { .. }));
    }
}
