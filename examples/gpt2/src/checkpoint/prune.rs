use super::MlpMatrix;
use crate::ConfigError;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Which weights compete with each other when a model is pruned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum PruneScope {
    /// Those of the same matrix: every matrix gets the sparsity.
    #[default]
    Layer,
    /// Those of all MLP matrices: together they get the sparsity, each on its own may differ.
    Global,
}

impl core::fmt::Display for PruneScope {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Layer => "layer",
            Self::Global => "global",
        })
    }
}

/// Pruning by magnitude: the largest absolute values stay.
///
/// Of `n` weights exactly `round((1 - sparsity) n)` stay. Among equal ones those stay that come first:
/// by matrix in the order of the model, then by row-major index of `[d_output, d_input]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MagnitudePruning {
    /// The share of the weights that shall not exist, in `[0, 1)`.
    pub sparsity: f64,
    /// Which weights compete.
    pub scope: PruneScope,
}

impl MagnitudePruning {
    /// Prunes the matrices of a model.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the sparsity is out of range or if fewer weights exist than should stay.
    pub fn apply(self, matrices: Vec<MlpMatrix>) -> Result<Vec<MlpMatrix>, ConfigError> {
        let Self { sparsity, scope } = self;
        let invalid = |allowed| ConfigError::new("--sparsity", sparsity, allowed);
        if !(0.0..1.0).contains(&sparsity) {
            return Err(invalid("at least 0 and below 1".to_string()));
        }
        let lacks = |what: &str, stored: usize, size: usize| {
            let least = 1.0 - stored as f64 / size as f64;
            let allowed = format!("at least {least}: only {stored} weights of {what} exist");
            Err(invalid(allowed))
        };
        let lists: Vec<Vec<f32>> = matrices.iter().map(MlpMatrix::slot_values).collect();
        let slots = match scope {
            PruneScope::Layer => {
                let mut slots = Vec::with_capacity(lists.len());
                for (matrix, list) in matrices.iter().zip(&lists) {
                    let kept = kept_of(matrix.size(), sparsity);
                    if kept > list.len() {
                        return lacks(matrix.name(), list.len(), matrix.size());
                    }
                    slots.extend(largest(std::slice::from_ref(list), kept));
                }
                slots
            }
            PruneScope::Global => {
                let size = matrices.iter().map(MlpMatrix::size).sum();
                let stored = lists.iter().map(Vec::len).sum();
                let kept = kept_of(size, sparsity);
                if kept > stored {
                    return lacks("the MLP matrices", stored, size);
                }
                largest(&lists, kept)
            }
        };
        let pruned = matrices.into_iter().zip(lists).zip(slots);
        Ok(pruned
            .map(|((matrix, values), slots)| matrix.keep(values, &slots))
            .collect())
    }
}

/// As [`nnz_for_sparsity`](snack_burn::pattern::nnz_for_sparsity), without its limit of one matrix.
fn kept_of(size: usize, sparsity: f64) -> usize {
    (((1.0 - sparsity) * size as f64).round() as usize).min(size)
}

/// Places of the `count` largest magnitudes in several lists, ascending. NaN is the largest of all.
fn largest(lists: &[Vec<f32>], count: usize) -> Vec<Vec<usize>> {
    // The bits of floats without sign have the order of the magnitudes.
    let magnitude = |value: &f32| value.abs().to_bits();
    if count == 0 {
        return vec![Vec::new(); lists.len()];
    }
    let mut order: Vec<u32> = lists.iter().flatten().map(magnitude).collect();
    let (above, &mut threshold, _) = order.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
    let mut ties = count - above.iter().filter(|&&bits| bits > threshold).count();

    let mut keep = |value: &f32| match magnitude(value).cmp(&threshold) {
        Ordering::Greater => true,
        Ordering::Less => false,
        Ordering::Equal if ties > 0 => {
            ties -= 1;
            true
        }
        Ordering::Equal => false,
    };
    let mut places = |list: &Vec<f32>| {
        let kept = list.iter().enumerate().filter(|(_, value)| keep(value));
        kept.map(|(place, _)| place).collect()
    };
    lists.iter().map(&mut places).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_stay_and_ties_go_to_the_first() {
        let lists = [vec![1.0, -3.0, 2.0], vec![-2.0, 0.0, 2.0, -2.0]];

        assert_eq!(largest(&lists, 0), [[0usize; 0]; 2]);
        assert_eq!(largest(&lists, 1), [vec![1], vec![]]);
        assert_eq!(largest(&lists, 3), [vec![1, 2], vec![0]]);
        assert_eq!(largest(&lists, 5), [vec![1, 2], vec![0, 2, 3]]);
        assert_eq!(largest(&lists, 7), [vec![0, 1, 2], vec![0, 1, 2, 3]]);
    }

    #[test]
    fn nan_stays() {
        assert_eq!(largest(&[vec![f32::INFINITY, f32::NAN]], 1), [[1]]);
    }
}
