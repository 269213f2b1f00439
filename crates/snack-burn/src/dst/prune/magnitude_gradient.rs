use super::Prune;
use crate::dst::{DstError, LayerView, Signals};

/// `|w| + lambda |g|`: what is small and would stay small leaves first (MEST; Yuan et al., 2021;
/// the released scripts use `lambda = 0`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MagnitudePlusGradient {
    /// Weight of the gradient's magnitude, at least 0; 0 measures no gradient.
    pub lambda: f32,
}

impl Prune for MagnitudePlusGradient {
    fn needs(&self) -> Signals {
        match self.lambda {
            0.0 => Signals::NONE,
            _ => Signals::GRADIENT,
        }
    }

    fn scores(&self, layer: &LayerView<'_>) -> Result<Vec<f32>, DstError> {
        let magnitudes = layer.values.iter().map(|value| value.abs());
        if self.lambda == 0.0 {
            return Ok(magnitudes.collect());
        }
        let gradient = layer.gradient()?;
        Ok(magnitudes
            .zip(gradient)
            .map(|(magnitude, gradient)| magnitude + self.lambda * gradient.abs())
            .collect())
    }

    fn validate(&self) -> Result<(), DstError> {
        match self.lambda >= 0.0 && self.lambda.is_finite() {
            true => Ok(()),
            false => Err(DstError::InvalidParameter {
                what: "weight of the gradient",
                value: f64::from(self.lambda),
                expected: "a finite number of at least 0",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;

    #[test]
    fn the_gradient_can_save_a_small_value() {
        let pattern = Pattern::full([1, 2]).unwrap();
        let mut layer = LayerView::new("fc", &pattern, &[0.5, -1.0]);
        let rule = MagnitudePlusGradient { lambda: 2.0 };
        let error = rule.scores(&layer).unwrap_err().to_string();
        assert!(error.contains("layer `fc`: the criterion uses gradients"));
        layer.gradient = Some(&[-0.5, 0.0]);
        assert_eq!(rule.scores(&layer).unwrap(), [1.5, 1.0]);
        let plain = MagnitudePlusGradient { lambda: 0.0 };
        assert_eq!(plain.scores(&layer).unwrap(), [0.5, 1.0]);
        assert!(!plain.needs().gradient && rule.needs().gradient);
    }
}
