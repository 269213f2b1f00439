use burn::tensor::{DType, Tensor, TensorData};

use super::Candidate;
use super::candidates::Best;
use super::scan::Scan;
use crate::error::SparseError;
use crate::ops::{Routines, SddmmRoutine};
use crate::pattern::Pattern;
use crate::tensor::DevicePattern;
use crate::tensor::ops::sampled_product;

/// The dense gradient `D[i, j] = sum_b G[b, i] X[b, j]` of an `[m, k]` matrix as its two factors:
/// the gradient `G` `[batch, m]` of a layer's output and its input `X` `[batch, k]`.
///
/// What growth criteria ask of the dense gradient is computed without forming it: the largest
/// entries ([`top_k`](GradientFactors::top_k), RigL; Evci et al., 2020), the largest of each row
/// ([`top_k_per_row`](GradientFactors::top_k_per_row), SRigL; Lasby et al., 2024), entries at given
/// coordinates ([`gradients`](GradientFactors::gradients)), and sums of each factor over the batch
/// that say where large entries are likely (Heddes et al., guided stochastic exploration).
///
/// Gradients of several batches are added up by factors that are concatenated along the batch.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use snack_burn::prelude::*;
/// use snack_burn::tensor::GradientFactors;
///
/// let device = Device::default();
/// let g = Tensor::<2>::from_data([[1.0, -2.0], [0.0, 1.0]], &device);
/// let x = Tensor::<2>::from_data([[3.0, 0.0, 1.0], [0.0, 4.0, 1.0]], &device);
/// // The gradient is [[3, 0, 1], [-6, 4, -1]].
/// let excluded = Pattern::from_sorted_flats([2, 3], [3])?;
/// let best = GradientFactors::new(g, x).top_k(&excluded, 2)?;
/// assert_eq!((best[0].flat, best[0].gradient), (4, 4.0));
/// assert_eq!((best[1].flat, best[1].gradient), (0, 3.0));
/// # Ok::<(), SparseError>(())
/// ```
#[derive(Debug, Clone)]
pub struct GradientFactors {
    g: Tensor<2>,
    x: Tensor<2>,
    scratch: usize,
    reversed: bool,
}

impl GradientFactors {
    /// Bytes of scratch if nothing else is said.
    pub const SCRATCH: usize = 16 << 20;

    /// The gradient of which `g` `[batch, m]` and `x` `[batch, k]` are the factors. Neither is
    /// tracked from here on.
    ///
    /// Factors of `f16` and `bf16` are multiplied as they are and summed in `f32`; those of `f64`
    /// are rounded to `f32`.
    ///
    /// # Panics
    ///
    /// Panics if the batches, the data types or the devices differ.
    pub fn new(g: Tensor<2>, x: Tensor<2>) -> Self {
        let [g, x] = [g, x].map(|factor| {
            let factor = factor.detach().without_autodiff();
            match factor.dtype() {
                DType::F64 => factor.cast(DType::F32),
                _ => factor,
            }
        });
        assert_eq!(
            g.dims()[0],
            x.dims()[0],
            "GradientFactors::new: g and x need the same batch (axis 0), got {} and {}",
            g.dims()[0],
            x.dims()[0]
        );
        assert_eq!(
            g.dtype(),
            x.dtype(),
            "GradientFactors::new: g and x need the same data type, got {:?} and {:?}",
            g.dtype(),
            x.dtype()
        );
        assert!(
            g.device() == x.device(),
            "GradientFactors::new: g is on {:?}, x on {:?}",
            g.device(),
            x.device()
        );
        Self {
            g,
            x,
            scratch: Self::SCRATCH,
            reversed: false,
        }
    }

    /// Bounds the panels of scores: they hold `bytes / 4` entries of the gradient at a time, at
    /// least one. [`SCRATCH`](GradientFactors::SCRATCH) by default; at most 4 GiB are used.
    pub fn with_scratch_bytes(mut self, bytes: usize) -> Self {
        self.scratch = bytes;
        self
    }

    /// Scans the panels from the last to the first, which must not change any result.
    #[doc(hidden)]
    pub fn with_reversed_scan(mut self) -> Self {
        self.reversed = true;
        self
    }

    /// The gradient of the output, `[batch, m]`.
    pub fn g(&self) -> &Tensor<2> {
        &self.g
    }

    /// The input, `[batch, k]`.
    pub fn x(&self) -> &Tensor<2> {
        &self.x
    }

    /// The bound of [`with_scratch_bytes`](GradientFactors::with_scratch_bytes).
    pub fn scratch_bytes(&self) -> usize {
        self.scratch
    }

    /// The shape `[m, k]` of the gradient.
    pub fn dims(&self) -> [usize; 2] {
        [self.g.dims()[1], self.x.dims()[1]]
    }

    /// Number of samples.
    pub fn batch(&self) -> usize {
        self.g.dims()[0]
    }

    /// The `count` coordinates outside `excluded` whose gradients have the largest magnitudes,
    /// ties by lower flat index; sorted by magnitude, the largest first, then by flat index.
    ///
    /// Exact, in memory of one panel (see
    /// [`with_scratch_bytes`](GradientFactors::with_scratch_bytes)), 12 bytes per candidate and
    /// one bit per entry of a panel. The cost is that of one dense product, `2 m k batch`
    /// operations: below a density of about 1 % rather evaluate a sample of coordinates by
    /// [`gradients`](GradientFactors::gradients).
    ///
    /// Each gradient is a sum in an order that depends on the batch and on the device alone, so the
    /// result is the same for any scratch. Where all sums are exact, as for small integers, it is
    /// the same on any device. Back ends without own kernels add in the order of their dense
    /// product, which need not be fixed.
    ///
    /// # Errors
    ///
    /// * [`SparseError::ShapeMismatch`] if `excluded` has another shape.
    /// * [`SparseError::NotEnoughInactive`] if fewer coordinates are left.
    /// * [`SparseError::NonFiniteGradient`] if a gradient outside `excluded` is not finite, unless
    ///   `count` is 0.
    pub fn top_k(&self, excluded: &Pattern, count: usize) -> Result<Vec<Candidate>, SparseError> {
        self.best(excluded, count).map(Best::sorted)
    }

    /// As [`top_k`](GradientFactors::top_k), in any order.
    pub(crate) fn top_k_unsorted(
        &self,
        excluded: &Pattern,
        count: usize,
    ) -> Result<Vec<Candidate>, SparseError> {
        self.best(excluded, count).map(Best::unsorted)
    }

    fn best(&self, excluded: &Pattern, count: usize) -> Result<Best, SparseError> {
        self.check(excluded)?;
        let available = excluded.size() - excluded.nnz() as u64;
        if count as u64 > available {
            return Err(SparseError::NotEnoughInactive {
                asked: count,
                available,
            });
        }
        self.scan(excluded).top_k(count)
    }

    /// For every row the `quotas[row]` coordinates outside `excluded` whose gradients have the
    /// largest magnitudes, ties by lower column; rows in order, each sorted by magnitude, the
    /// largest first, then by column.
    ///
    /// Cost and determinism are those of [`top_k`](GradientFactors::top_k).
    ///
    /// # Errors
    ///
    /// * [`SparseError::ShapeMismatch`] if `excluded` has another shape.
    /// * [`SparseError::LengthMismatch`] if there is not one quota per row.
    /// * [`SparseError::NotEnoughInactiveInRow`] for the first row that has fewer coordinates left.
    /// * [`SparseError::NonFiniteGradient`] if a gradient outside `excluded` is not finite in a row
    ///   whose quota is not 0.
    pub fn top_k_per_row(
        &self,
        excluded: &Pattern,
        quotas: &[usize],
    ) -> Result<Vec<Candidate>, SparseError> {
        self.check(excluded)?;
        let [rows, cols] = self.dims();
        check_length("list of quotas", rows, quotas.len())?;
        for (row, &asked) in quotas.iter().enumerate() {
            let available = cols - excluded.row(row).len();
            if asked > available {
                return Err(SparseError::NotEnoughInactiveInRow {
                    row,
                    asked,
                    available,
                });
            }
        }
        self.scan(excluded).top_k_per_row(quotas)
    }

    /// The signed gradients at strictly increasing flat indices, by a sampled product.
    ///
    /// Its sums have another order than those of [`top_k`](GradientFactors::top_k), so that the
    /// last bits may differ. What is not finite is returned as it is.
    ///
    /// # Errors
    ///
    /// The first index that is out of range, out of order or a duplicate, or too many of them.
    pub fn gradients(&self, flats: &[u64]) -> Result<Vec<f32>, SparseError> {
        let pattern = Pattern::from_sorted_flats(self.dims(), flats.iter().copied())?;
        if flats.is_empty() {
            return Ok(Vec::new());
        }
        let [g, x] = self.in_f32();
        let pattern = DevicePattern::new(pattern, &x.device());
        let routines = Routines {
            sddmm: SddmmRoutine::Estimated,
            ..Routines::default()
        };
        Ok(numbers(sampled_product(g, x, &pattern, routines)))
    }

    /// The sums of magnitudes over the batch: `sum_b |G[b, i]|`, `[m]`, and `sum_b |X[b, j]|`,
    /// `[k]`. The product of two of them bounds `|D[i, j]|`.
    pub fn marginals(&self) -> (Vec<f32>, Vec<f32>) {
        let [g, x] = self.in_f32().map(|factor| batch_sums(factor.abs()));
        (g, x)
    }

    /// The sums `sum_b e_b G[b, i]`, `[m]`, and `sum_b e_b X[b, j]`, `[k]`, for one sign `e_b` per
    /// sample. For random signs the product of two of them is an unbiased estimate of `D[i, j]`.
    ///
    /// # Errors
    ///
    /// [`SparseError::LengthMismatch`] if there is not one sign per sample.
    pub fn sketch(&self, signs: &[f32]) -> Result<(Vec<f32>, Vec<f32>), SparseError> {
        check_length("list of signs", self.batch(), signs.len())?;
        let signs = TensorData::new(signs.to_vec(), [signs.len(), 1]);
        let signs = Tensor::<2>::from_data(signs, (&self.x.device(), DType::F32));
        let [g, x] = self
            .in_f32()
            .map(|factor| batch_sums(factor * signs.clone()));
        Ok((g, x))
    }

    fn scan<'a>(&'a self, excluded: &'a Pattern) -> Scan<'a> {
        Scan::new(&self.g, &self.x, excluded, self.scratch, self.reversed)
    }

    fn check(&self, excluded: &Pattern) -> Result<(), SparseError> {
        match excluded.shape() == self.dims() {
            true => Ok(()),
            false => Err(SparseError::ShapeMismatch {
                what: "pattern of excluded coordinates",
                expected: self.dims().to_vec(),
                found: excluded.shape().to_vec(),
            }),
        }
    }

    fn in_f32(&self) -> [Tensor<2>; 2] {
        [&self.g, &self.x].map(|factor| factor.clone().cast(DType::F32))
    }
}

fn check_length(what: &'static str, expected: usize, found: usize) -> Result<(), SparseError> {
    match expected == found {
        true => Ok(()),
        false => Err(SparseError::LengthMismatch {
            what,
            expected,
            found,
        }),
    }
}

/// The sums over the batch; zeros for an empty one.
fn batch_sums(factor: Tensor<2>) -> Vec<f32> {
    match factor.dims() {
        [0, width] => vec![0.0; width],
        [_, 0] => Vec::new(),
        _ => numbers(factor.sum_dim(0)),
    }
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter().collect()
}
