//! Sparsity patterns that have broken sparse kernels before, and plain random ones.

use std::collections::BTreeSet;

use burn::tensor::Device;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use super::host::{tensor1, uniform};
use super::reference::Coo;

/// A named matrix; the same numbers for the library and for the reference.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub shape: [usize; 2],
    pub coordinates: Vec<(usize, usize)>,
    pub values: Vec<f32>,
}

impl Case {
    pub fn new(
        name: impl Into<String>,
        shape: [usize; 2],
        coordinates: impl IntoIterator<Item = (usize, usize)>,
        rng: &mut ChaCha8Rng,
    ) -> Self {
        let coordinates: BTreeSet<_> = coordinates.into_iter().collect();
        Self {
            name: name.into(),
            shape,
            values: uniform(coordinates.len(), rng),
            coordinates: coordinates.into_iter().collect(),
        }
    }

    /// `nnz` distinct coordinates, all subsets equally likely.
    pub fn random(shape: [usize; 2], nnz: usize, rng: &mut ChaCha8Rng) -> Self {
        let [m, k] = shape;
        let flats = rand::seq::index::sample(rng, m * k, nnz);
        let name = format!("{m}x{k} with {nnz} non-zeros");
        Self::new(
            name,
            shape,
            flats.into_iter().map(|flat| (flat / k, flat % k)),
            rng,
        )
    }

    pub fn nnz(&self) -> usize {
        self.coordinates.len()
    }

    /// The same coordinates with other values.
    pub fn with_values(&self, values: &[f32]) -> Self {
        assert_eq!(values.len(), self.nnz());
        Self {
            values: values.to_vec(),
            ..self.clone()
        }
    }

    pub fn pattern(&self) -> Pattern {
        let rows: Vec<i64> = self
            .coordinates
            .iter()
            .map(|&(row, _)| row as i64)
            .collect();
        let cols: Vec<i64> = self
            .coordinates
            .iter()
            .map(|&(_, col)| col as i64)
            .collect();
        Pattern::from_coordinates(self.shape, &rows, &cols).unwrap()
    }

    pub fn sparse(&self, device: &Device) -> SparseTensor {
        let pattern = DevicePattern::new(self.pattern(), device);
        SparseTensor::new(tensor1(&self.values, device), pattern)
    }

    pub fn reference(&self) -> Coo {
        Coo {
            shape: self.shape,
            rows: self.coordinates.iter().map(|&(row, _)| row).collect(),
            cols: self.coordinates.iter().map(|&(_, col)| col).collect(),
            values: self.values.iter().map(|&value| f64::from(value)).collect(),
        }
    }
}

/// Uniform patterns from full to almost empty, and the adversarial ones.
pub fn all() -> Vec<Case> {
    let mut rng = ChaCha8Rng::seed_from_u64(0x5eed);
    let rng = &mut rng;
    let mut cases = Vec::new();
    for (sparsity, shape) in [
        (0.0, [17, 33]),
        (0.5, [33, 17]),
        (0.9, [70, 130]),
        (0.99, [130, 70]),
    ] {
        let [m, k] = shape;
        let nnz = ((1.0 - sparsity) * (m * k) as f64).round() as usize;
        let mut case = Case::random(shape, nnz, rng);
        case.name = format!("uniform at sparsity {sparsity}");
        cases.push(case);
    }
    cases.push(Case::new("no non-zeros", [9, 5], [], rng));
    cases.push(Case::new("one non-zero", [9, 5], [(6, 3)], rng));
    cases.push(Case::new(
        "one dense row",
        [40, 301],
        (0..301).map(|col| (23, col)),
        rng,
    ));
    let one_in_three = (0..30)
        .step_by(3)
        .flat_map(|row| (0..4).map(move |col| (row, 7 * col)));
    cases.push(Case::new("empty rows between", [31, 29], one_in_three, rng));
    cases.push(Case::new(
        "first and last row empty",
        [3, 8],
        [(1, 0), (1, 7)],
        rng,
    ));
    cases.push(Case::new(
        "one column",
        [64, 50],
        (0..64).map(|row| (row, 49)),
        rng,
    ));
    let band = (0..65usize)
        .flat_map(|row| (row.saturating_sub(2)..(row + 3).min(65)).map(move |col| (row, col)));
    cases.push(Case::new("banded", [65, 65], band, rng));
    let skewed: Vec<_> = (0..48usize)
        .flat_map(|row| (0..200 / (row + 1)).map(move |col| (row, col)))
        .chain((0..300).map(|_| (rng.random_range(0..48), rng.random_range(0..200))))
        .collect();
    cases.push(Case::new("power law", [48, 200], skewed, rng));
    cases.push(Case::random([1, 77], 40, rng));
    cases.push(Case::random([77, 1], 40, rng));
    cases.push(Case::new("1x1", [1, 1], [(0, 0)], rng));
    cases.push(Case::new("no rows", [0, 6], [], rng));
    cases.push(Case::new("no columns", [6, 0], [], rng));
    cases
}
