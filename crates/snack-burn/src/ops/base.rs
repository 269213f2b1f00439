//! The operations that a back end gives a sparse matrix.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata, backend_extension};
use burn::tensor::Shape;

use super::{GradientPanel, Index, Routines, composed, dense};

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

    /// The sum over the batch, which is the gradient of a bias.
    ///
    /// # Shapes
    ///
    /// - x: `[batch, features]`
    /// - output: `[features]`
    #[fusion(dtype = x, shape = Shape::new([x[1]]))]
    fn batch_sum(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let features = x.shape()[1];
        Self::float_reshape(Self::float_sum_dim(x, 0), Shape::new([features]))
    }

    /// The dense product `[.., m, n]` of `lhs` `[.., m, k]` and `rhs` `[.., k, n]`, as
    /// [`dense::product`].
    #[fusion(meta = |lhs, rhs| burn::backend::fusion::custom::TensorSpec::new(
        dense::product_shape(&lhs.shape, &rhs.shape),
        lhs.dtype,
    ))]
    fn dense_product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        dense::product::<Self>(lhs, rhs)
    }

    /// The coordinates of a panel of the dense gradient `D[i, j] = sum_b G[b, i] X[b, j]` with the
    /// largest `|D[i, j]|`, ties by lower position, and their gradients, in any order.
    ///
    /// What is not finite is larger than what is. Neither tensor takes part in a graph of
    /// derivatives. Users reach this through
    /// [`GradientFactors`](crate::tensor::GradientFactors).
    ///
    /// # Arguments
    ///
    /// * `g` - `[batch, m]`, of `f32`, `f16` or `bf16`; sums are `f32`.
    /// * `x` - `[batch, k]`, of the same type.
    /// * `mask` - `[rows, ceil(cols / 32)]`, 32-bit: the coordinates that do not count, one bit
    ///   each, the lowest column of a word in its lowest bit.
    /// * `panel` - the rows and columns that count, at most `i32::MAX` coordinates and not empty.
    /// * `count` - how many, not above the coordinates of the panel.
    /// * `floor` - the smallest magnitude that counts, not negative.
    ///
    /// # Returns
    ///
    /// Positions `[count]` in the panel, 32-bit, and gradients `[count]`, `f32`. A position of -1
    /// is none: fewer coordinates counted.
    #[fusion(meta = |_g, _x, _mask, _panel, count, _floor| (
        burn::backend::fusion::custom::TensorSpec::new(Shape::new([*count]), burn::tensor::DType::I32),
        burn::backend::fusion::custom::TensorSpec::new(Shape::new([*count]), burn::tensor::DType::F32),
    ))]
    fn top_gradients(
        g: FloatTensor<Self>,
        x: FloatTensor<Self>,
        mask: IntTensor<Self>,
        panel: GradientPanel,
        count: usize,
        floor: f32,
    ) -> (IntTensor<Self>, FloatTensor<Self>) {
        composed::top_gradients::<Self>(g, x, mask, &panel, count, floor)
    }

    /// As [`top_gradients`](SparseOps::top_gradients), with a number of coordinates for each row.
    ///
    /// # Arguments
    ///
    /// * `starts` - `[rows + 1]`, 32-bit, from 0 to `total` and not decreasing: row `i` of the
    ///   panel gets the elements `starts[i]..starts[i + 1]` of the results.
    #[fusion(meta = |_g, _x, _mask, _starts, _panel, total| (
        burn::backend::fusion::custom::TensorSpec::new(Shape::new([*total]), burn::tensor::DType::I32),
        burn::backend::fusion::custom::TensorSpec::new(Shape::new([*total]), burn::tensor::DType::F32),
    ))]
    fn top_gradients_per_row(
        g: FloatTensor<Self>,
        x: FloatTensor<Self>,
        mask: IntTensor<Self>,
        starts: IntTensor<Self>,
        panel: GradientPanel,
        total: usize,
    ) -> (IntTensor<Self>, FloatTensor<Self>) {
        let _ = total;
        composed::top_gradients_per_row::<Self>(g, x, mask, starts, &panel)
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
