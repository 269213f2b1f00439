//! How many connections every layer gets.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::DstError;
use crate::pattern::apportion;

/// Distributes connections over the layers of a network.
///
/// Totals are exact: the real numbers that a rule gives are rounded by largest remainder, so that
/// their sum is the rounded sum. Every layer gets at least one connection.
///
/// # Example
///
/// ```
/// use snack_burn::dst::{Allocation, LayerShape};
///
/// let layers = [
///     LayerShape::new("fc1", [300, 784]),
///     LayerShape::new("fc2", [100, 300]),
///     LayerShape::new("fc3", [10, 100]),
/// ];
/// let slots = Allocation::erk(0.1).slots(&layers)?;
/// assert_eq!(slots, [18_717, 6_903, 1_000]);
/// # Ok::<(), snack_burn::dst::DstError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Allocation {
    /// The same density in every layer.
    Uniform {
        /// Share of connections, in `(0, 1]`.
        density: f64,
        /// What this is the density of, if layers are kept dense.
        budget: Budget,
    },
    /// `epsilon (m + k)` connections in a layer of `m x k`, at most all of them; with further
    /// dimensions `epsilon` times the sum of all (SET; Mocanu et al., 2018, `epsilon` 11 to 20).
    ErdosRenyi {
        /// Connections per input and output, above 0.
        epsilon: f64,
    },
    /// Densities in proportion to `(sum of dimensions / product of dimensions)^power`, layers that
    /// this would overfill being dense, with a given density over all layers (RigL; Evci et al.,
    /// 2020).
    Erk {
        /// Share of connections over all layers, those kept dense included, in `(0, 1]`.
        density: f64,
        /// 1 is the published rule, 0 makes densities equal.
        power: f64,
    },
    /// A density for every layer by its name, each in `(0, 1]`.
    Explicit(BTreeMap<String, f64>),
}

/// What the density of [`Allocation::Uniform`] refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Budget {
    /// Each layer that is not kept dense; the network as a whole is denser.
    #[default]
    Layer,
    /// All layers together; those that are not kept dense are thinned out until it holds.
    Network,
}

/// What an allocation needs to know about a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerShape {
    /// Name, for [`Allocation::Explicit`].
    pub name: String,
    /// Dimensions of the weight: `[m, k]` for a linear layer, kernel dimensions after these for a
    /// convolution. The order does not matter.
    pub dims: Vec<usize>,
    /// Whether all connections are kept.
    pub dense: bool,
}

impl LayerShape {
    /// A layer that is thinned out.
    pub fn new(name: impl Into<String>, dims: impl Into<Vec<usize>>) -> Self {
        Self {
            name: name.into(),
            dims: dims.into(),
            dense: false,
        }
    }

    /// The same layer with all its connections.
    pub fn kept_dense(mut self) -> Self {
        self.dense = true;
        self
    }

    /// Number of coordinates: the product of the dimensions.
    pub fn size(&self) -> u64 {
        self.dims.iter().map(|&dim| dim as u64).product()
    }

    /// `sum of dimensions / product of dimensions`; 0 for a layer without coordinates.
    fn ratio(&self) -> f64 {
        let sum: f64 = self.dims.iter().map(|&dim| dim as f64).sum();
        match self.size() {
            0 => 0.0,
            size => sum / size as f64,
        }
    }

    /// Smallest and largest number of connections.
    fn bounds(&self) -> RangeInclusive<u64> {
        match (self.size(), self.dense) {
            (size, true) => size..=size,
            (size, false) => size.min(1)..=size,
        }
    }
}

impl Allocation {
    /// The same density in every layer that is not kept dense.
    pub fn uniform(density: f64) -> Self {
        Self::Uniform {
            density,
            budget: Budget::Layer,
        }
    }

    /// Erdos-Renyi-Kernel densities with their published power.
    pub fn erk(density: f64) -> Self {
        Self::Erk {
            density,
            power: 1.0,
        }
    }

    /// Number of connections of every layer, in the order of the layers.
    ///
    /// # Errors
    ///
    /// A number of the rule is out of range; [`DstError::InfeasibleDensity`] if there are fewer
    /// connections than the layers kept dense have, plus one for each other layer;
    /// [`DstError::MissingLayer`] or [`DstError::UnknownLayer`] if the names of
    /// [`Allocation::Explicit`] are not those of the layers that are not kept dense.
    pub fn slots(&self, layers: &[LayerShape]) -> Result<Vec<usize>, DstError> {
        let targets = self.targets(layers)?;
        let thin = |layer: &&LayerShape| !layer.dense;
        let dense: u64 = layers
            .iter()
            .filter(|l| l.dense)
            .map(LayerShape::size)
            .sum();
        let size: u64 = layers.iter().map(LayerShape::size).sum();
        let least: u64 = layers.iter().map(|layer| *layer.bounds().start()).sum();
        let total = match *self {
            Self::Uniform {
                density,
                budget: Budget::Network,
            }
            | Self::Erk { density, .. } => {
                let total = rounded(density * size as f64, size);
                if total < least {
                    let smallest_density = least as f64 / size as f64;
                    return Err(DstError::InfeasibleDensity {
                        density,
                        smallest_density,
                        largest_sparsity: 1.0 - smallest_density,
                    });
                }
                total
            }
            Self::Uniform { .. } | Self::ErdosRenyi { .. } | Self::Explicit(_) => {
                let sum = layers.iter().zip(&targets).filter(|(layer, _)| thin(layer));
                let sum = sum.map(|(_, target)| target).sum();
                let least = layers.iter().filter(thin).filter(|l| l.size() > 0).count();
                dense + rounded(sum, size - dense).max(least as u64)
            }
        };
        let bounds: Vec<_> = layers.iter().map(LayerShape::bounds).collect();
        let slots = apportion(&targets, &bounds, total).expect("the total is within the bounds");
        Ok(slots.into_iter().map(|count| count as usize).collect())
    }

    /// Relative numbers of connections. Their clamped multiples are what the rule asks for; for
    /// rules without a total the numbers themselves are.
    fn targets(&self, layers: &[LayerShape]) -> Result<Vec<f64>, DstError> {
        let each = |of: &dyn Fn(&LayerShape) -> f64| layers.iter().map(of).collect();
        Ok(match self {
            Self::Uniform { density, .. } => {
                check_density(*density)?;
                each(&|layer| density * layer.size() as f64)
            }
            Self::ErdosRenyi { epsilon } => {
                check_range(
                    "epsilon",
                    *epsilon,
                    *epsilon > 0.0,
                    "a finite number above 0",
                )?;
                each(&|layer| {
                    let size = layer.size() as f64;
                    (epsilon * layer.ratio() * size).min(size)
                })
            }
            Self::Erk { density, power } => {
                check_density(*density)?;
                let expected = "a finite number of at least 0";
                check_range("power", *power, *power >= 0.0, expected)?;
                each(&|layer| layer.ratio().powf(*power) * layer.size() as f64)
            }
            Self::Explicit(densities) => explicit(densities, layers)?,
        })
    }
}

fn explicit(
    densities: &BTreeMap<String, f64>,
    layers: &[LayerShape],
) -> Result<Vec<f64>, DstError> {
    if let Some(name) = densities
        .keys()
        .find(|&name| layers.iter().all(|layer| layer.name != *name))
    {
        return Err(DstError::UnknownLayer { name: name.clone() });
    }
    let target = |layer: &LayerShape| match densities.get(&layer.name) {
        _ if layer.dense => Ok(layer.size() as f64),
        Some(&density) => check_density(density).map(|()| density * layer.size() as f64),
        None => Err(DstError::MissingLayer {
            name: layer.name.clone(),
        }),
    };
    layers.iter().map(target).collect()
}

/// The nearest number of connections, at most `size`.
fn rounded(connections: f64, size: u64) -> u64 {
    (connections.round() as u64).min(size)
}

fn check_density(density: f64) -> Result<(), DstError> {
    let within = density > 0.0 && density <= 1.0;
    check_range("density", density, within, "a number in (0, 1]")
}

fn check_range(
    what: &'static str,
    value: f64,
    within: bool,
    expected: &'static str,
) -> Result<(), DstError> {
    match within && value.is_finite() {
        true => Ok(()),
        false => Err(DstError::InvalidParameter {
            what,
            value,
            expected,
        }),
    }
}
