//! The dense gradient of a layer as a pair of factors, never as a matrix.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use burn::tensor::{Tensor, TensorData};

use crate::error::SparseError;
use crate::pattern::Pattern;
use crate::tensor::{Candidate, GradientFactors};

/// The gradient of a layer's dense weight, `sum_b G[b, i] X[b, j]`, for one batch or several whose
/// gradients were accumulated.
///
/// `G` `[batch, m]` are the output gradients and `X` `[batch, k]` the inputs.
pub trait GradientSource: Send + Sync {
    /// `[m, k]`.
    fn shape(&self) -> [usize; 2];

    /// The `count` coordinates outside `excluded` with the largest magnitudes, best first; equal
    /// ones by lower flat index.
    ///
    /// # Errors
    ///
    /// Fewer coordinates are left, the shapes differ, or a gradient is not finite, as of all
    /// methods here.
    fn top_k(&self, excluded: &Pattern, count: usize) -> Result<Vec<Candidate>, SparseError>;

    /// As [`top_k`](Self::top_k), in any order.
    ///
    /// # Errors
    ///
    /// As [`top_k`](Self::top_k).
    fn top_k_unsorted(
        &self,
        excluded: &Pattern,
        count: usize,
    ) -> Result<Vec<Candidate>, SparseError> {
        self.top_k(excluded, count)
    }

    /// As [`top_k`](Self::top_k) within each row: `quotas[i]` coordinates of row `i`, rows in
    /// order.
    ///
    /// # Errors
    ///
    /// As [`top_k`](Self::top_k).
    fn top_k_per_row(
        &self,
        excluded: &Pattern,
        quotas: &[usize],
    ) -> Result<Vec<Candidate>, SparseError>;

    /// The signed gradient at increasing flat indices.
    ///
    /// # Errors
    ///
    /// An index is out of range or out of order.
    fn gradients(&self, flats: &[u64]) -> Result<Vec<f32>, SparseError>;

    /// `(sum_b |G[b, i]|, sum_b |X[b, j]|)`, `[m]` and `[k]`: their product bounds the gradient.
    fn marginals(&self) -> (Vec<f32>, Vec<f32>);

    /// `(sum_b e_b G[b, i], sum_b e_b X[b, j])`, `[m]` and `[k]`; `signs` are the `e_b`,
    /// [`batch`](Self::batch) of them. For random signs their product estimates the gradient
    /// without bias.
    ///
    /// # Errors
    ///
    /// There is not one sign per sample.
    fn sketch(&self, signs: &[f32]) -> Result<(Vec<f32>, Vec<f32>), SparseError>;

    /// Rows of the factors.
    fn batch(&self) -> usize;

    /// The same gradient with zeros outside the given rows and columns.
    fn within(&self, rows: &[bool], cols: &[bool]) -> Box<dyn GradientSource>;
}

impl GradientSource for GradientFactors {
    fn shape(&self) -> [usize; 2] {
        self.dims()
    }

    fn top_k(&self, excluded: &Pattern, count: usize) -> Result<Vec<Candidate>, SparseError> {
        self.top_k(excluded, count)
    }

    fn top_k_unsorted(
        &self,
        excluded: &Pattern,
        count: usize,
    ) -> Result<Vec<Candidate>, SparseError> {
        self.top_k_unsorted(excluded, count)
    }

    fn top_k_per_row(
        &self,
        excluded: &Pattern,
        quotas: &[usize],
    ) -> Result<Vec<Candidate>, SparseError> {
        self.top_k_per_row(excluded, quotas)
    }

    fn gradients(&self, flats: &[u64]) -> Result<Vec<f32>, SparseError> {
        self.gradients(flats)
    }

    fn marginals(&self) -> (Vec<f32>, Vec<f32>) {
        self.marginals()
    }

    fn sketch(&self, signs: &[f32]) -> Result<(Vec<f32>, Vec<f32>), SparseError> {
        self.sketch(signs)
    }

    fn batch(&self) -> usize {
        self.batch()
    }

    fn within(&self, rows: &[bool], cols: &[bool]) -> Box<dyn GradientSource> {
        let inside = |factor: &Tensor<2>, inside: &[bool]| {
            let mask: Vec<f32> = inside.iter().map(|&i| if i { 1.0 } else { 0.0 }).collect();
            let mask = TensorData::new(mask, [1, inside.len()]);
            let options = (&factor.device(), factor.dtype());
            factor.clone() * Tensor::<2>::from_data(mask.convert_dtype(factor.dtype()), options)
        };
        let factors = Self::new(inside(self.g(), rows), inside(self.x(), cols));
        Box::new(factors.with_scratch_bytes(self.scratch_bytes()))
    }
}

/// The `count` best of several lists, each best first: the number taken from each. Equal scores go
/// to the earlier list.
pub(crate) fn merge_best(lists: &[Vec<Candidate>], count: usize) -> Vec<usize> {
    let mut taken = vec![0; lists.len()];
    let mut heads: BinaryHeap<(u32, Reverse<usize>)> = BinaryHeap::new();
    let head = |list: usize, at: usize| {
        let candidate = lists[list].get(at)?;
        Some((candidate.score().to_bits(), Reverse(list)))
    };
    heads.extend((0..lists.len()).filter_map(|list| head(list, 0)));
    for _ in 0..count {
        let Some((_, Reverse(list))) = heads.pop() else {
            break;
        };
        taken[list] += 1;
        heads.extend(head(list, taken[list]));
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dst::HostFactors;
    use burn::tensor::Device;

    /// Small integers, so that both are exact.
    #[test]
    fn restricting_agrees_with_the_host() {
        let device = Device::default();
        let (g, x) = (
            vec![1.0, 2.0, -1.0, 0.0],
            vec![3.0, 4.0, 5.0, 1.0, 0.0, -2.0],
        );
        let host = HostFactors::new([2, 3], 2, g.clone(), x.clone());
        let tensor = |list: Vec<f32>, width| {
            Tensor::<2>::from_data(TensorData::new(list, [2, width]), &device)
        };
        let factors = GradientFactors::new(tensor(g, 2), tensor(x, 3)).with_scratch_bytes(8);
        let (rows, cols) = ([true, false], [true, false, true]);
        let [found, expected] = [
            factors.clone().within(&rows, &cols),
            host.within(&rows, &cols),
        ];
        let all: Vec<u64> = (0..6).collect();
        assert_eq!(found.gradients(&all), expected.gradients(&all));
        assert_eq!(found.marginals(), expected.marginals());
        assert_eq!(found.sketch(&[1.0, -1.0]), expected.sketch(&[1.0, -1.0]));
        let source: &dyn GradientSource = &factors;
        assert_eq!((source.shape(), source.batch()), ([2, 3], 2));
        let none = Pattern::empty([2, 3]).unwrap();
        assert_eq!(source.top_k(&none, 4), host.top_k(&none, 4));
        assert_eq!(
            source.top_k_per_row(&none, &[2, 1]),
            host.top_k_per_row(&none, &[2, 1])
        );
    }

    #[test]
    fn merging_takes_the_best_of_all_lists() {
        let list = |gradients: &[f32]| -> Vec<Candidate> {
            let candidate = |(flat, &gradient)| Candidate { flat, gradient };
            (0..).zip(gradients).map(candidate).collect()
        };
        let lists = [list(&[-5.0, 3.0, 1.0]), list(&[4.0, -3.0]), list(&[])];
        assert_eq!(merge_best(&lists, 3), [2, 1, 0]);
        assert_eq!(merge_best(&lists, 4), [2, 2, 0]);
        assert_eq!(merge_best(&lists, 99), [3, 2, 0]);
    }
}
