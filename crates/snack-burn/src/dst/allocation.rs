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
/// assert_eq!(slots, [18_714, 6_906, 1_000]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The layers of a multi-layer perceptron.
    fn layers(widths: &[usize]) -> Vec<LayerShape> {
        let layer = |pair: &[usize]| LayerShape::new(format!("{}", pair[1]), [pair[1], pair[0]]);
        widths.windows(2).map(layer).collect()
    }

    fn densities(allocation: &Allocation, layers: &[LayerShape]) -> Vec<f64> {
        let slots = allocation.slots(layers).unwrap();
        let density = |(slots, layer): (&usize, &LayerShape)| *slots as f64 / layer.size() as f64;
        slots.iter().zip(layers).map(density).collect()
    }

    fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= tolerance, "{found} {expected}");
        }
    }

    #[test]
    fn erk_gives_the_published_densities() {
        let wide = layers(&[784, 1000, 1000, 1000, 10]);
        for (density, expected) in [
            (0.1, [0.106, 0.093, 0.093, 1.0]),
            (0.05, [0.051, 0.045, 0.045, 1.0]),
            (0.01, [0.0094, 0.0082, 0.0082, 0.415]),
        ] {
            assert_close(
                &densities(&Allocation::erk(density), &wide),
                &expected,
                5e-4,
            );
        }
        let lenet = layers(&[784, 300, 100, 10]);
        for (density, expected) in [
            (0.1, [0.080, 0.230, 1.0]),
            (0.02, [0.015, 0.045, 0.367]),
            (0.01, [0.008, 0.022, 0.184]),
        ] {
            assert_close(
                &densities(&Allocation::erk(density), &lenet),
                &expected,
                5e-4,
            );
        }
    }

    /// The loop of the RigL authors, which fills up one layer at a time.
    fn erk_by_saturation(layers: &[LayerShape], density: f64, power: f64) -> Vec<f64> {
        let mut full: Vec<bool> = layers.iter().map(|layer| layer.dense).collect();
        loop {
            let (mut slots, mut weight) = (0.0, 0.0);
            for (layer, &full) in layers.iter().zip(&full) {
                let size = layer.size() as f64;
                match full {
                    true => slots -= (1.0 - density) * size,
                    false => {
                        slots += density * size;
                        weight += layer.ratio().powf(power) * size;
                    }
                }
            }
            let density_of = |index: usize| slots / weight * layers[index].ratio().powf(power);
            let thin = (0..layers.len()).filter(|&index| !full[index]);
            let most = thin.max_by(|&a, &b| density_of(a).total_cmp(&density_of(b)));
            match most {
                Some(index) if density_of(index) > 1.0 => full[index] = true,
                _ => {
                    let density = |index| if full[index] { 1.0 } else { density_of(index) };
                    return (0..layers.len()).map(density).collect();
                }
            }
        }
    }

    #[test]
    fn erk_with_kernels_powers_and_dense_layers_agrees_with_the_authors_loop() {
        let mut layers = vec![
            LayerShape::new("stem", [16, 3, 3, 3]).kept_dense(),
            LayerShape::new("conv1", [32, 16, 3, 3]),
            LayerShape::new("conv2", [64, 32, 3, 3]),
            LayerShape::new("point", [256, 64, 1, 1]),
            LayerShape::new("fc", [512, 4096]),
            LayerShape::new("head", [10, 512]),
        ];
        for density in [0.01, 0.05, 0.1, 0.3, 0.7] {
            for power in [0.0, 0.5, 1.0, 2.0] {
                let found = densities(&Allocation::Erk { density, power }, &layers);
                let expected = erk_by_saturation(&layers, density, power);
                // Rounding is at most one of 288 connections or more in the thinned layers.
                assert_close(&found, &expected, 1.0 / 4608.0);
            }
        }
        layers[0].dense = false;
        assert!(densities(&Allocation::erk(0.1), &layers)[0] == 1.0);
    }

    #[test]
    fn erdos_renyi_counts_inputs_and_outputs() {
        let allocation = Allocation::ErdosRenyi { epsilon: 13.0 };
        let slots = allocation.slots(&layers(&[784, 1000, 1000, 1000, 10]));
        // 13 * 1010 exceeds 10 000.
        assert_eq!(slots.unwrap(), [23_192, 26_000, 26_000, 10_000]);
    }

    #[test]
    fn both_budgets_of_a_dense_layer() {
        let mut layers = layers(&[100, 50, 40, 10]);
        layers[2].dense = true;
        let uniform = |density, budget| Allocation::Uniform { density, budget }.slots(&layers);
        assert_eq!(uniform(0.1, Budget::Layer).unwrap(), [500, 200, 400]);
        // 740 in all, of which 340 are left for 7000 coordinates.
        assert_eq!(uniform(0.1, Budget::Network).unwrap(), [243, 97, 400]);
        assert_eq!(uniform(1.0, Budget::Network).unwrap(), [5000, 2000, 400]);
    }

    #[test]
    fn explicit_densities_need_a_name_each() {
        let mut layers = layers(&[100, 50, 40, 10]);
        layers[2].dense = true;
        let slots = |densities: &[(&str, f64)]| {
            let named = densities.iter().map(|&(name, d)| (name.to_owned(), d));
            Allocation::Explicit(named.collect()).slots(&layers)
        };
        assert_eq!(slots(&[("50", 0.2), ("40", 0.01)]), Ok(vec![1000, 20, 400]));
        let name = |name: &str| name.to_owned();
        assert_eq!(
            slots(&[("50", 0.2)]),
            Err(DstError::MissingLayer { name: name("40") })
        );
        assert_eq!(
            slots(&[("50", 0.2), ("40", 0.01), ("4O", 0.1)]),
            Err(DstError::UnknownLayer { name: name("4O") })
        );
        assert!(slots(&[("50", 0.2), ("40", 1.01)]).is_err());
    }

    #[test]
    fn infeasible_densities_say_what_is_feasible() {
        let mut layers = layers(&[100, 100, 100]);
        layers[0].dense = true;
        for allocation in [
            Allocation::erk(0.3),
            Allocation::Uniform {
                density: 0.3,
                budget: Budget::Network,
            },
        ] {
            let error = allocation.slots(&layers).unwrap_err();
            let text = "a sparsity of 70 % is infeasible for these layers, expected at most \
                        49.99 % (a density of 0.3, expected at least 0.5001)";
            assert_eq!(error.to_string(), text);
        }
        assert_eq!(Allocation::erk(0.50005).slots(&layers), Ok(vec![10_000, 1]));
        layers[1].dense = true;
        assert!(Allocation::erk(0.99).slots(&layers).is_err());
        assert_eq!(Allocation::erk(1.0).slots(&layers), Ok(vec![10_000; 2]));
    }

    #[test]
    fn refuses_numbers_out_of_range() {
        let layers = layers(&[10, 10]);
        for value in [f64::NAN, f64::INFINITY, -0.5, 0.0] {
            for allocation in [
                Allocation::uniform(value),
                Allocation::erk(value),
                Allocation::ErdosRenyi { epsilon: value },
            ] {
                let error = allocation.slots(&layers).unwrap_err();
                assert!(
                    matches!(error, DstError::InvalidParameter { .. }),
                    "{error}"
                );
            }
        }
        assert!(Allocation::uniform(1.1).slots(&layers).is_err());
        let power = -1.0;
        assert!(
            Allocation::Erk {
                density: 0.5,
                power
            }
            .slots(&layers)
            .is_err()
        );
    }

    #[test]
    fn nothing_to_distribute() {
        assert_eq!(Allocation::erk(0.1).slots(&[]), Ok(vec![]));
        let empty = [
            LayerShape::new("none", [0, 5]),
            LayerShape::new("one", [1, 1]),
        ];
        assert_eq!(Allocation::erk(0.5).slots(&empty), Ok(vec![0, 1]));
        assert_eq!(Allocation::uniform(0.5).slots(&empty), Ok(vec![0, 1]));
    }

    proptest! {
        #[test]
        fn totals_are_exact(
            shapes in prop::collection::vec((1usize..60, 1usize..60, 0u8..4), 1..8),
            density in 0.001f64..=1.0,
            power in 0.0f64..2.0,
            kind in 0..4,
        ) {
            let layers: Vec<LayerShape> = shapes
                .iter()
                .enumerate()
                .map(|(index, &(rows, cols, dense))| LayerShape {
                    dense: dense == 0,
                    ..LayerShape::new(index.to_string(), [rows, cols])
                })
                .collect();
            let size: u64 = layers.iter().map(LayerShape::size).sum();
            let thin: Vec<&LayerShape> = layers.iter().filter(|layer| !layer.dense).collect();
            let thin_size: u64 = thin.iter().map(|layer| layer.size()).sum();
            let dense = size - thin_size;
            let (allocation, total) = match kind {
                0 => (Allocation::Erk { density, power }, density * size as f64),
                1 => (
                    Allocation::Uniform { density, budget: Budget::Network },
                    density * size as f64,
                ),
                2 => {
                    let thin = (density * thin_size as f64).round().max(thin.len() as f64);
                    (Allocation::uniform(density), dense as f64 + thin)
                }
                _ => {
                    let epsilon = 5.0 * density;
                    let slots = |layer: &&LayerShape| {
                        let sum: usize = layer.dims.iter().sum();
                        (epsilon * sum as f64).min(layer.size() as f64)
                    };
                    let thin = thin.iter().map(slots).sum::<f64>().round().max(thin.len() as f64);
                    (Allocation::ErdosRenyi { epsilon }, dense as f64 + thin)
                }
            };
            let total = total.round() as usize;
            match allocation.slots(&layers) {
                Ok(slots) => {
                    prop_assert_eq!(slots.iter().sum::<usize>(), total);
                    for (&count, layer) in slots.iter().zip(&layers) {
                        prop_assert!(count >= 1 && count as u64 <= layer.size());
                        prop_assert!(!layer.dense || count as u64 == layer.size());
                    }
                }
                Err(DstError::InfeasibleDensity { smallest_density, .. }) => {
                    let least = dense as usize + thin.len();
                    prop_assert!(total < least);
                    let slots = Allocation::Erk { density: smallest_density, power }.slots(&layers);
                    prop_assert_eq!(slots.unwrap().iter().sum::<usize>(), least);
                }
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }
}
