//! Sparse tensors from and to other forms.

use burn::tensor::{Device, Element, IndexingUpdateOp, Tensor, TensorData};

use super::device_pattern::upload;
use super::ops::reshape;
use super::{DevicePattern, SparseTensor};
use crate::error::SparseError;
use crate::pattern::{Duplicates, Pattern, Value};

impl SparseTensor {
    /// A matrix of shape `[m, k]` from `(row, column, value)` triples in any order.
    ///
    /// # Errors
    ///
    /// Returns the first coordinate that is out of range with its position and the allowed range,
    /// or the first repeated coordinate if duplicates are rejected.
    pub fn from_triples<T: Value + Element>(
        shape: [usize; 2],
        triples: impl IntoIterator<Item = (i64, i64, T)>,
        duplicates: Duplicates,
        device: &Device,
    ) -> Result<Self, SparseError> {
        let (pattern, values) = Pattern::from_triples(shape, triples, duplicates)?;
        Ok(Self::from_host(pattern, values, device))
    }

    /// The non-zeros of a dense matrix `[m, k]`, which is read to the host. NaN counts as a
    /// non-zero. The result is not connected to the matrix by autodiff.
    ///
    /// # Errors
    ///
    /// Returns an error if the shape exceeds what a [`Pattern`] can hold.
    pub fn from_dense(dense: Tensor<2>) -> Result<Self, SparseError> {
        let (shape, dtype, device) = (dense.dims(), dense.dtype(), dense.device());
        let elements: Vec<f64> = dense.detach().into_data().iter::<f64>().collect();
        let (pattern, values) = Pattern::from_dense(shape, &elements)?;
        let nnz = values.len();
        let values = Tensor::from_data(
            TensorData::new(values, [nnz]).convert_dtype(dtype),
            (&device, dtype),
        );
        Ok(Self::new(values, DevicePattern::new(pattern, &device)))
    }

    /// The dense matrix `[m, k]`; gradients flow back to the values.
    ///
    /// # Panics
    ///
    /// Panics if the matrix has more than `i32::MAX` elements, the range of a device index.
    pub fn to_dense(&self) -> Tensor<2> {
        let [rows, cols] = self.dims();
        let device = self.device();
        assert!(
            self.pattern().size() <= i32::MAX as u64,
            "to_dense: a dense matrix has at most {} elements, {rows} x {cols} are {}",
            i32::MAX,
            self.pattern().size()
        );
        let dense = Tensor::<1>::zeros([rows * cols], (&device, self.dtype()));
        if self.nnz() == 0 {
            return reshape(dense, [rows, cols]);
        }
        let flats = self.pattern().flats().map(|flat| flat as i32).collect();
        let flats = upload(flats, self.device_pattern().device());
        dense
            .select_assign(0, flats, self.values().clone(), IndexingUpdateOp::Add)
            .reshape([rows, cols])
    }

    /// The transposed matrix `[k, m]` with the same routines; gradients flow back to the values.
    pub fn transpose(&self) -> Self {
        let order = self.pattern().transposed();
        let device = self.device_pattern().device();
        let values = match self.nnz() {
            0 => self.values().clone(),
            _ => {
                let slots = order.slots.into_iter().map(|slot| slot as i32).collect();
                self.values().clone().select(0, upload(slots, device))
            }
        };
        Self::new(values, DevicePattern::new(order.pattern, device)).with_routines(self.routines)
    }

    fn from_host<T: Element>(pattern: Pattern, values: Vec<T>, device: &Device) -> Self {
        let data = TensorData::new(values, [pattern.nnz()]);
        let dtype = data.dtype();
        let values = Tensor::from_data(data, (device, dtype));
        Self::new(values, DevicePattern::new(pattern, device))
    }
}
