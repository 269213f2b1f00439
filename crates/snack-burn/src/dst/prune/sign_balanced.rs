use super::Prune;
use crate::dst::{DstError, LayerView};

/// The connections closest to zero among the positive ones and, with a quota of their own, among
/// the negative ones (SET in its original form; Mocanu et al., 2018).
///
/// A quota of `q` takes the same share of both signs, to within one connection. The score is the
/// rank of a connection among those of its sign, as a share of their number, so that the criterion
/// suits layer and row scopes; zeros leave before everything else.
#[derive(Debug, Clone, Copy, Default)]
pub struct SignBalanced;

impl Prune for SignBalanced {
    fn scores(&self, layer: &LayerView<'_>) -> Result<Vec<f32>, DstError> {
        let values = layer.values;
        let mut scores: Vec<f32> = values
            .iter()
            .map(|value| if value.is_nan() { f32::NAN } else { -1.0 })
            .collect();
        for positive in [true, false] {
            let mut slots: Vec<usize> = (0..values.len())
                .filter(|&slot| match positive {
                    true => values[slot] > 0.0,
                    false => values[slot] < 0.0,
                })
                .collect();
            slots.sort_by(|&a, &b| values[a].abs().total_cmp(&values[b].abs()));
            let count = slots.len() as f64;
            for (rank, slot) in slots.into_iter().enumerate() {
                scores[slot] = ((rank as f64 + 0.5) / count) as f32;
            }
        }
        Ok(scores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dst::scope::lowest;
    use crate::pattern::Pattern;

    #[test]
    fn both_signs_lose_the_same_share() {
        // Six positive numbers far from zero, three negative ones close to it.
        let values = [9.0, 8.0, -0.3, 7.0, 6.0, -0.1, 5.0, 4.0, -0.2];
        let pattern = Pattern::full([3, 3]).unwrap();
        let layer = LayerView::new("", &pattern, &values);
        let scores = SignBalanced.scores(&layer).unwrap();
        assert_eq!(lowest(&scores, 3), [5, 6, 7]);
        assert_eq!(lowest(&scores, 6), [3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn zeros_leave_first() {
        let values = [0.5, -0.0, -0.5, 0.0];
        let pattern = Pattern::full([2, 2]).unwrap();
        let layer = LayerView::new("", &pattern, &values);
        let scores = SignBalanced.scores(&layer).unwrap();
        assert_eq!(lowest(&scores, 2), [1, 3]);
    }
}
