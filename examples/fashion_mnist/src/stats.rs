use serde::{Deserialize, Serialize};

/// Mean and spread of a measurement over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Number of values.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the population that the values are a sample of; absent for one value.
    pub deviation: Option<f64>,
    /// Standard error of the mean; absent for one value.
    pub error: Option<f64>,
}

impl Stats {
    /// Sums up values.
    ///
    /// # Panics
    ///
    /// Panics if there are none.
    pub fn of(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "statistics need at least one value");
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        Self {
            count: values.len(),
            mean,
            deviation,
            error: deviation.map(|deviation| deviation / count.sqrt()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let stats = Stats::of(&[1.0, 2.0, 6.0]);
        // Squared deviations 4, 1, 9.
        assert_eq!((stats.count, stats.mean), (3, 3.0));
        assert_eq!(stats.deviation, Some(7.0_f64.sqrt()));
        assert_eq!(stats.error, Some(7.0_f64.sqrt() / 3.0_f64.sqrt()));
    }

    #[test]
    fn one_value_has_no_spread() {
        let stats = Stats::of(&[0.8]);
        assert_eq!(
            (stats.mean, stats.deviation, stats.error),
            (0.8, None, None)
        );
    }
}
