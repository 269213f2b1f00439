//! The operations that a back end gives a sparse matrix.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};
use burn::tensor::Shape;

use super::{Index, Routines, composed};

/// Products with a sparse matrix `W` of shape `[m, k]`, given by the values of its non-zeros and
/// their [`Index`].
///
/// Every method has a default body made of Burn tensor operations, so that a back end without
/// kernels is correct; Flex and the CubeCL back ends override them. Operands may be strided or
/// broadcast views, and any of `batch`, `nnz`, `m` and `k` may be zero. All float operands of a
/// call have one data type.
///
/// Users reach these methods through [`SparseTensor`](crate::tensor::SparseTensor) and
/// [`SparseLinear`](crate::nn::SparseLinear).
///
/// # Panics
///
/// A routine that is named, so neither `Auto` nor `Estimated`, panics with a
/// [`RoutineError`](crate::ops::RoutineError) when the device cannot run it. Under fusion the
/// operations of a device run when a result is read: so late the panic comes, as the cause of an
/// error of Burn, or never if nothing is read.
#[backend_extension(
    Autodiff,
    Fusion: cfg(feature = "fusion"),
    Flex: cfg(feature = "flex"),
    Cube: cfg(feature = "__cube")
)]
pub trait SparseOps: Backend {
    /// The product `Y = X W^T`.
    ///
    /// # Shapes
    ///
    /// - values: `[nnz]`
    /// - x: `[batch, k]`
    /// - output: `[batch, m]`
    #[fusion(dtype = values, shape = Shape::new([x[0], index.shape[0]]))]
    fn spmm(
        values: FloatTensor<Self>,
        #[extension_type] index: Index<Self>,
        x: FloatTensor<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        assert_composed(routines.spmm.name());
        composed::spmm::<Self>(values, &index, x)
    }

    /// The product with a bias, `Y = X W^T + b`, whose routines add the bias where they write.
    ///
    /// # Shapes
    ///
    /// - values: `[nnz]`
    /// - x: `[batch, k]`
    /// - bias: `[m]`
    /// - output: `[batch, m]`
    #[fusion(dtype = values, shape = Shape::new([x[0], index.shape[0]]))]
    fn spmm_bias(
        values: FloatTensor<Self>,
        #[extension_type] index: Index<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        let width = index.shape[0];
        let y = Self::spmm(values, index, x, routines);
        Self::float_add(y, Self::float_reshape(bias, Shape::new([1, width])))
    }

    /// The transposed product `X = Y W`. The index must hold its column order.
    ///
    /// # Shapes
    ///
    /// - values: `[nnz]`
    /// - y: `[batch, m]`
    /// - output: `[batch, k]`
    #[fusion(dtype = values, shape = Shape::new([y[0], index.shape[1]]))]
    fn spmm_transposed(
        values: FloatTensor<Self>,
        #[extension_type] index: Index<Self>,
        y: FloatTensor<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        assert_composed(routines.transposed().name());
        composed::spmm_transposed::<Self>(values, &index, y)
    }

    /// The sampled product `d[s] = sum_b Y[b, row(s)] X[b, col(s)]`, the gradient of the values
    /// when `Y` is the output gradient.
    ///
    /// # Shapes
    ///
    /// - y: `[batch, m]`
    /// - x: `[batch, k]`
    /// - output: `[nnz]`
    #[fusion(dtype = y, shape = Shape::new([index.nnz]))]
    fn sddmm(
        y: FloatTensor<Self>,
        x: FloatTensor<Self>,
        #[extension_type] index: Index<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        assert_composed(routines.sddmm.name());
        composed::sddmm::<Self>(y, x, &index)
    }
}

fn assert_composed(routine: &'static str) {
    if !matches!(routine, "auto" | "estimated" | "composed") {
        let error = super::RoutineError::NotOnBackend {
            routine,
            available: "composed",
        };
        panic!("{error}");
    }
}
