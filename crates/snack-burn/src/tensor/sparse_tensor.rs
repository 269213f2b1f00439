//! The sparse matrix type.

use burn::tensor::{DType, Device, Tensor};

use super::DevicePattern;
use super::ops::{product, sampled_product, transposed_product};
use crate::ops::Routines;
use crate::pattern::Pattern;

/// A sparse matrix of shape `[m, k]` in coordinate (COO) form: one value per non-zero, in the
/// canonical row-major order of its [`Pattern`].
///
/// Values are an ordinary float tensor: track them with
/// [`require_grad`](SparseTensor::require_grad) and every operation below propagates gradients
/// of length `nnz`. No operation but [`to_dense`](SparseTensor::to_dense) and
/// [`from_dense`](SparseTensor::from_dense) allocates `m x k` elements.
///
/// Operands are batch-major, as a Burn layer has them: a dense operand is `[batch, features]`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use snack_burn::prelude::*;
///
/// let device = Device::default();
/// let triples = [(0, 1, 2.0_f32), (1, 0, 3.0)];
/// let a = SparseTensor::from_triples([2, 2], triples, Duplicates::Reject, &device)?;
/// let x = Tensor::<2>::from_data([[1.0, 10.0]], &device);
/// assert_eq!(a.spmm(x).into_data(), Tensor::<2>::from_data([[20.0, 3.0]], &device).into_data());
/// # Ok::<(), SparseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SparseTensor {
    values: Tensor<1>,
    pattern: DevicePattern,
    pub(super) routines: Routines,
}

impl SparseTensor {
    /// A sparse matrix of values `[nnz]` at the coordinates of `pattern`.
    ///
    /// # Panics
    ///
    /// Panics if there is not exactly one value per non-zero, or if values and pattern are on
    /// different devices.
    pub fn new(values: Tensor<1>, pattern: DevicePattern) -> Self {
        let nnz = pattern.pattern().nnz();
        assert_eq!(
            values.dims(),
            [nnz],
            "SparseTensor::new: expected one value per non-zero, shape [{nnz}], got {:?}",
            values.dims()
        );
        assert!(
            values.device() == *pattern.device(),
            "SparseTensor::new: the values are on {:?}, the pattern on {:?}",
            values.device(),
            pattern.device()
        );
        Self {
            values,
            pattern,
            routines: Routines::default(),
        }
    }

    /// Forces the routines of the products, see [`Routines`].
    pub fn with_routines(mut self, routines: Routines) -> Self {
        self.routines = routines;
        self
    }

    /// The shape `[m, k]`.
    pub fn dims(&self) -> [usize; 2] {
        self.pattern.pattern().shape()
    }

    /// The number of non-zeros.
    pub fn nnz(&self) -> usize {
        self.pattern.pattern().nnz()
    }

    /// The share of stored elements, `nnz / (m k)`.
    pub fn density(&self) -> f64 {
        self.pattern.pattern().density()
    }

    /// The data type of the values.
    pub fn dtype(&self) -> DType {
        self.values.dtype()
    }

    /// The device of values and coordinates.
    pub fn device(&self) -> Device {
        self.values.device()
    }

    /// The values `[nnz]`.
    pub fn values(&self) -> &Tensor<1> {
        &self.values
    }

    /// The coordinates on the host.
    pub fn pattern(&self) -> &Pattern {
        self.pattern.pattern()
    }

    /// The coordinates on the device.
    pub fn device_pattern(&self) -> &DevicePattern {
        &self.pattern
    }

    /// Other values at the same coordinates.
    ///
    /// # Panics
    ///
    /// Panics if there is not exactly one value per non-zero.
    pub fn with_values(&self, values: Tensor<1>) -> Self {
        Self::new(values, self.pattern.clone()).with_routines(self.routines)
    }

    /// Tracks the gradient of the values.
    ///
    /// # Panics
    ///
    /// Panics if the device has no autodiff.
    pub fn require_grad(self) -> Self {
        self.map_values(Tensor::require_grad)
    }

    /// The same matrix on another device.
    pub fn to_device(&self, device: &Device) -> Self {
        Self {
            values: self.values.clone().to_device(device),
            pattern: self.pattern.to_device(device),
            routines: self.routines,
        }
    }

    /// The product `Y = X A^T` with this `[m, k]` matrix `A`.
    ///
    /// # Shapes
    ///
    /// - x: `[batch, k]`
    /// - output: `[batch, m]`
    ///
    /// # Panics
    ///
    /// Panics if `x` has another width, data type or device, or if a forced routine cannot run.
    pub fn spmm(&self, x: Tensor<2>) -> Tensor<2> {
        product(self.values.clone(), &self.pattern, x, None, self.routines)
    }

    /// The transposed product `X = Y A`.
    ///
    /// # Shapes
    ///
    /// - y: `[batch, m]`
    /// - output: `[batch, k]`
    ///
    /// # Panics
    ///
    /// Panics if `y` has another width, data type or device, or if a forced routine cannot run.
    pub fn spmm_transposed(&self, y: Tensor<2>) -> Tensor<2> {
        transposed_product(self.values.clone(), &self.pattern, y, self.routines)
    }

    /// The ordinary matrix product `C = A B`, through [`spmm`](SparseTensor::spmm) on the
    /// transposed operand.
    ///
    /// # Shapes
    ///
    /// - b: `[k, n]`
    /// - output: `[m, n]`
    ///
    /// # Panics
    ///
    /// Panics if `b` has another height, data type or device.
    pub fn matmul(&self, b: Tensor<2>) -> Tensor<2> {
        let [_, cols] = self.dims();
        assert_eq!(
            b.dims()[0],
            cols,
            "matmul: expected b of shape [{cols}, n], got {:?}",
            b.dims()
        );
        self.spmm(b.transpose()).transpose()
    }

    /// The sampled dense-dense product: `(Y^T X)` at the coordinates of this matrix, whose values
    /// are not used.
    ///
    /// # Shapes
    ///
    /// - y: `[batch, m]`
    /// - x: `[batch, k]`
    ///
    /// # Panics
    ///
    /// Panics if an operand has another width or device, or if their batches or data types
    /// differ.
    pub fn sddmm(&self, y: Tensor<2>, x: Tensor<2>) -> Self {
        let values = sampled_product(y, x, &self.pattern, self.routines);
        self.with_values(values)
    }

    /// Every value times one number.
    pub fn mul_scalar(&self, factor: f64) -> Self {
        self.clone().map_values(|values| values.mul_scalar(factor))
    }

    /// Every value times its own factor; `factors` is `[nnz]`, in slot order.
    ///
    /// # Panics
    ///
    /// Panics if `factors` has another length.
    pub fn mul_values(&self, factors: Tensor<1>) -> Self {
        let nnz = self.nnz();
        assert_eq!(
            factors.dims(),
            [nnz],
            "mul_values: expected one factor per non-zero, shape [{nnz}], got {:?}",
            factors.dims()
        );
        let values = self.values.clone() * factors;
        self.with_values(values)
    }

    /// Row `i` times `factors[i]`; `factors` is `[m]`.
    ///
    /// # Panics
    ///
    /// Panics if `factors` has another length.
    pub fn scale_rows(&self, factors: Tensor<1>) -> Self {
        let [rows, _] = self.dims();
        assert_eq!(
            factors.dims(),
            [rows],
            "scale_rows: expected one factor per row, shape [{rows}], got {:?}",
            factors.dims()
        );
        self.mul_values(factors.select(0, self.pattern.row_of_slots()))
    }

    /// Column `j` times `factors[j]`; `factors` is `[k]`.
    ///
    /// # Panics
    ///
    /// Panics if `factors` has another length.
    pub fn scale_cols(&self, factors: Tensor<1>) -> Self {
        let [_, cols] = self.dims();
        assert_eq!(
            factors.dims(),
            [cols],
            "scale_cols: expected one factor per column, shape [{cols}], got {:?}",
            factors.dims()
        );
        self.mul_values(factors.select(0, self.pattern.col_of_slots()))
    }

    fn map_values(mut self, f: impl FnOnce(Tensor<1>) -> Tensor<1>) -> Self {
        self.values = f(self.values);
        self
    }
}
