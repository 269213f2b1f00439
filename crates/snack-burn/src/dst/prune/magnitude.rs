use super::Prune;
use crate::dst::{DstError, LayerView};

/// The absolute value: connections that contribute least leave first (RigL; Evci et al., 2020; the
/// simplified form of SET).
#[derive(Debug, Clone, Copy, Default)]
pub struct Magnitude;

impl Prune for Magnitude {
    fn scores(&self, layer: &LayerView<'_>) -> Result<Vec<f32>, DstError> {
        Ok(layer.values.iter().map(|value| value.abs()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dst::scope::lowest;
    use crate::pattern::Pattern;

    #[test]
    fn smallest_magnitudes_leave_first_and_ties_go_by_slot() {
        let pattern = Pattern::full([2, 3]).unwrap();
        let values = [-3.0, 0.5, -0.5, f32::NAN, 0.0, 0.5];
        let layer = LayerView::new("", &pattern, &values);
        let scores = Magnitude.scores(&layer).unwrap();
        assert!(lowest(&scores, 0).is_empty());
        assert_eq!(lowest(&scores, 1), [4]);
        assert_eq!(lowest(&scores, 3), [1, 2, 4]);
        assert_eq!(lowest(&scores, 5), [0, 1, 2, 4, 5]);
        assert_eq!(lowest(&scores, 6), [0, 1, 2, 3, 4, 5]);
    }
}
