use crate::{ConfigError, output::short};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use snack_burn::dst::{Allocation, DstError, LayerShape};

/// How the connections are distributed over the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocationChoice {
    /// epsilon (inputs + outputs) draws, of which some coincide, as in the published SET program
    Published,
    /// epsilon (inputs + outputs) connections, at most all
    Er,
    /// Erdos-Renyi-Kernel: such proportions for the given sparsity of the whole network
    Erk,
    /// The given sparsity in every layer
    Uniform,
    /// The given sparsity in every layer but the last, which is dense
    DenseHead,
}

impl core::fmt::Display for AllocationChoice {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Published => "published",
            Self::Er => "er",
            Self::Erk => "erk",
            Self::Uniform => "uniform",
            Self::DenseHead => "dense-head",
        })
    }
}

impl AllocationChoice {
    /// Whether it is told by `--epsilon` how many connections there are, or else by `--sparsity`.
    pub fn takes_epsilon(self) -> bool {
        matches!(self, Self::Published | Self::Er)
    }
}

/// How many connections there are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Connections {
    /// How they are distributed.
    pub allocation: AllocationChoice,
    /// Connections, or draws, per input and output; of [`Published`](AllocationChoice::Published)
    /// and [`Er`](AllocationChoice::Er).
    pub epsilon: f64,
    /// Share of the weights that does not exist; of the others.
    pub sparsity: f64,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            allocation: AllocationChoice::Published,
            epsilon: 13.0,
            sparsity: 0.9,
        }
    }
}

impl Connections {
    /// Number of connections of layers `[outputs, inputs]`.
    ///
    /// # Errors
    ///
    /// [`DstError`] if the layers cannot have so few.
    pub fn counts(&self, shapes: &[[usize; 2]]) -> Result<Vec<usize>, DstError> {
        let density = 1.0 - self.sparsity;
        let allocation = match self.allocation {
            AllocationChoice::Published => {
                let counts = shapes.iter().map(|&shape| distinct(self.epsilon, shape));
                return Ok(counts.collect());
            }
            AllocationChoice::Er => Allocation::ErdosRenyi {
                epsilon: self.epsilon,
            },
            AllocationChoice::Erk => Allocation::erk(density),
            AllocationChoice::Uniform | AllocationChoice::DenseHead => Allocation::uniform(density),
        };
        let mut layers: Vec<LayerShape> = (0..)
            .zip(shapes)
            .map(|(index, &shape)| LayerShape::new(format!("layers.{index}"), shape))
            .collect();
        if self.allocation == AllocationChoice::DenseHead
            && let Some(last) = layers.pop()
        {
            layers.push(last.kept_dense());
        }
        allocation.slots(&layers)
    }

    /// Checks the numbers against their ranges.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the option, its value and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.allocation.takes_epsilon() {
            return match self.epsilon.is_finite() && self.epsilon > 0.0 {
                true => Ok(()),
                false => {
                    let allowed = "a finite number above 0";
                    Err(ConfigError::new("--epsilon", short(self.epsilon), allowed))
                }
            };
        }
        match (0.0..1.0).contains(&self.sparsity) {
            true => Ok(()),
            false => {
                let allowed = "at least 0 and below 1";
                Err(ConfigError::new(
                    "--sparsity",
                    short(self.sparsity),
                    allowed,
                ))
            }
        }
    }
}

/// The number of different coordinates that `epsilon (m + k)` draws with replacement give on
/// average: `N (1 - (1 - 1/N)^T)` of `N = m k`, at least 1.
fn distinct(epsilon: f64, [outputs, inputs]: [usize; 2]) -> usize {
    let size = outputs as f64 * inputs as f64;
    let draws = (epsilon * (outputs + inputs) as f64).floor();
    let missed = (draws * (-1.0 / size).ln_1p()).exp();
    ((size * (1.0 - missed)).round() as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [[usize; 2]; 4] = [[1000, 784], [1000, 1000], [1000, 1000], [10, 1000]];

    fn counts(allocation: AllocationChoice, sparsity: f64) -> Vec<usize> {
        let connections = Connections {
            allocation,
            sparsity,
            ..Connections::default()
        };
        connections.counts(&SHAPES).unwrap()
    }

    #[test]
    fn draws_that_coincide_count_once() {
        let published = counts(AllocationChoice::Published, 0.0);
        assert_eq!(published, [22_852, 25_665, 25_665, 7_310]);
        assert_eq!(published.iter().sum::<usize>(), 81_492);
        assert_eq!(
            counts(AllocationChoice::Er, 0.0),
            [23_192, 26_000, 26_000, 10_000]
        );
    }

    #[test]
    fn few_draws_are_simulated_well() {
        // Two draws of four coordinates coincide in one of four cases.
        assert_eq!(distinct(0.5, [2, 2]), 2);
        assert_eq!(distinct(1e6, [2, 2]), 4);
        assert_eq!(distinct(1e-9, [2, 2]), 1);
    }

    #[test]
    fn sparsity_counts_over_all_layers_or_in_each() {
        let total = 2_794_000.0_f64;
        let erk: usize = counts(AllocationChoice::Erk, 0.99).iter().sum();
        assert_eq!(erk, (0.01 * total).round() as usize);
        let uniform = counts(AllocationChoice::Uniform, 0.99);
        assert_eq!(uniform, [7_840, 10_000, 10_000, 100]);
        let head = counts(AllocationChoice::DenseHead, 0.99);
        assert_eq!(head, [7_840, 10_000, 10_000, 10_000]);
        assert_eq!(
            counts(AllocationChoice::Uniform, 0.0),
            [784_000, 1_000_000, 1_000_000, 10_000]
        );
    }
}
