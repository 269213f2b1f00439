use serde::{Deserialize, Serialize};

/// How many connections the units on one side of a layer have.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Degrees {
    /// Number of units.
    pub units: usize,
    /// Units without any connection.
    pub dead: usize,
    /// Fewest connections of a unit; 0 if there are no units.
    pub min: usize,
    /// Most connections of a unit; 0 if there are no units.
    pub max: usize,
    /// Mean number of connections; 0 if there are no units.
    pub mean: f64,
    /// Coefficient of variation: standard deviation (of all units, not of a sample) over mean; 0 if
    /// there are no connections.
    pub cv: f64,
    /// `(connections, units that have so many)`, by number of connections, without empty entries.
    pub histogram: Vec<(usize, usize)>,
}

impl Degrees {
    /// Describes units with these numbers of connections.
    pub fn of(counts: &[usize]) -> Self {
        let mut sorted = counts.to_vec();
        sorted.sort_unstable();
        let mut histogram: Vec<(usize, usize)> = Vec::new();
        for &count in &sorted {
            match histogram.last_mut() {
                Some((degree, units)) if *degree == count => *units += 1,
                _ => histogram.push((count, 1)),
            }
        }
        let units = counts.len();
        let sum: f64 = counts.iter().map(|&count| count as f64).sum();
        let mean = if units == 0 { 0.0 } else { sum / units as f64 };
        let squares: f64 = counts
            .iter()
            .map(|&count| (count as f64 - mean).powi(2))
            .sum();
        Self {
            units,
            dead: sorted.partition_point(|&count| count == 0),
            min: sorted.first().copied().unwrap_or(0),
            max: sorted.last().copied().unwrap_or(0),
            mean,
            cv: if sum == 0.0 {
                0.0
            } else {
                (squares / units as f64).sqrt() / mean
            },
            histogram,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let degrees = Degrees::of(&[3, 0, 1, 0, 1]);
        assert_eq!(
            degrees,
            Degrees {
                units: 5,
                dead: 2,
                min: 0,
                max: 3,
                mean: 1.0,
                // Squared deviations 4, 1, 0, 1, 0.
                cv: (6.0_f64 / 5.0).sqrt(),
                histogram: vec![(0, 2), (1, 2), (3, 1)],
            }
        );
    }

    #[test]
    fn no_units_and_no_connections() {
        assert_eq!(Degrees::of(&[]), Degrees::default());
        let degrees = Degrees::of(&[0, 0]);
        assert_eq!((degrees.dead, degrees.mean, degrees.cv), (2, 0.0, 0.0));
        assert_eq!(degrees.histogram, [(0, 2)]);
    }

    #[test]
    fn equal_degrees_do_not_vary() {
        let degrees = Degrees::of(&[7; 10]);
        assert_eq!((degrees.min, degrees.max, degrees.cv), (7, 7, 0.0));
    }
}
