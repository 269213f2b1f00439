//! Which connections leave.

/// Ranks the connections of a layer for removal.
pub trait Prune: Send + Sync {
    /// One score per slot; the lowest scores leave first, equal ones by lower slot. NaN is kept
    /// longest.
    ///
    /// `values` are the layer's non-zeros in slot order.
    fn scores(&self, values: &[f32]) -> Vec<f32>;
}

/// The absolute value: connections that contribute least leave first (SET, RigL).
#[derive(Debug, Clone, Copy, Default)]
pub struct Magnitude;

impl Prune for Magnitude {
    fn scores(&self, values: &[f32]) -> Vec<f32> {
        values.iter().map(|value| value.abs()).collect()
    }
}

/// The `count` slots with the lowest scores, ascending by slot.
pub(super) fn lowest(scores: &[f32], count: usize) -> Vec<u32> {
    let mut slots: Vec<u32> = (0..scores.len() as u32).collect();
    if count < slots.len() {
        slots.select_nth_unstable_by(count, |&a, &b| {
            scores[a as usize]
                .total_cmp(&scores[b as usize])
                .then(a.cmp(&b))
        });
        slots.truncate(count);
    }
    slots.sort_unstable();
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_magnitudes_leave_first_and_ties_go_by_slot() {
        let scores = Magnitude.scores(&[-3.0, 0.5, -0.5, f32::NAN, 0.0, 0.5]);
        assert!(lowest(&scores, 0).is_empty());
        assert_eq!(lowest(&scores, 1), [4]);
        assert_eq!(lowest(&scores, 3), [1, 2, 4]);
        assert_eq!(lowest(&scores, 5), [0, 1, 2, 4, 5]);
        assert_eq!(lowest(&scores, 6), [0, 1, 2, 3, 4, 5]);
    }
}
