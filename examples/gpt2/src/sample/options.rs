use crate::ConfigError;
use serde::Serialize;

/// How the next token is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SamplingOptions {
    /// Divides the logits: below 1 likely tokens become likelier. At 0 the most probable token is
    /// taken, and everything else has no effect.
    pub temperature: f64,
    /// Only so many of the most probable tokens are left; all if absent or above their number.
    pub top_k: Option<usize>,
    /// Of those, the fewest most probable ones are left that have this share of the probability
    /// together; all at 1.
    pub top_p: f64,
    /// Where the random numbers begin.
    pub seed: u64,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: None,
            top_p: 1.0,
            seed: 42,
        }
    }
}

impl SamplingOptions {
    /// Whether the most probable token is always taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    /// Checks every option against its allowed range.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for a temperature that is negative or not finite, for a `top_k` of 0 and for a
    /// `top_p` outside `(0, 1]`.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            let allowed = "finite and at least 0";
            return Err(ConfigError::new("--temperature", self.temperature, allowed));
        }
        if self.top_k == Some(0) {
            return Err(ConfigError::new("--top-k", 0, "at least 1"));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            let allowed = "above 0 and at most 1";
            return Err(ConfigError::new("--top-p", self.top_p, allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_range_options_are_named() {
        let message = |options: SamplingOptions| options.validate().unwrap_err().to_string();
        let base = SamplingOptions::default();

        for (temperature, text) in [(-0.5, "-0.5"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
            let options = SamplingOptions {
                temperature,
                ..base
            };
            assert_eq!(
                message(options),
                format!("--temperature is {text}, but must be finite and at least 0")
            );
        }
        let none = SamplingOptions {
            top_k: Some(0),
            ..base
        };
        assert_eq!(message(none), "--top-k is 0, but must be at least 1");
        for top_p in [0.0, -0.1, 1.0001, f64::NAN] {
            let options = SamplingOptions { top_p, ..base };
            assert_eq!(
                message(options),
                format!("--top-p is {top_p}, but must be above 0 and at most 1")
            );
        }
        assert_eq!(base.validate(), Ok(()));
        let least = SamplingOptions {
            temperature: 0.0,
            top_k: Some(1),
            top_p: f64::MIN_POSITIVE,
            seed: 0,
        };
        assert_eq!(least.validate(), Ok(()));
    }
}
