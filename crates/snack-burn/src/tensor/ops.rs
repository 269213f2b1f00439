//! Products of a placed pattern and its values with dense tensors.

use burn::backend::Dispatch;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{Device, Shape, Tensor};

use super::DevicePattern;
use super::device_pattern::IndexParts;
use crate::backend::has_kernels;
use crate::ops::{Routines, SparseOps, SpmmRoutine};

/// `Y = X W^T + b`; `values` `[nnz]`, `x` `[batch, k]`, `bias` `[m]`, output `[batch, m]`.
pub(crate) fn product(
    values: Tensor<1>,
    pattern: &DevicePattern,
    x: Tensor<2>,
    bias: Option<Tensor<1>>,
    routines: Routines,
) -> Tensor<2> {
    check(
        "spmm",
        &values,
        pattern,
        &[("x", &x, pattern.pattern().shape()[1])],
    );
    if let Some(bias) = &bias {
        let rows = pattern.pattern().shape()[0];
        assert_eq!(
            (bias.dims(), bias.dtype(), bias.device()),
            ([rows], values.dtype(), values.device()),
            "spmm: expected a bias of shape [{rows}], of the type and on the device of the values"
        );
    }
    let learns = values.is_tracked() || x.is_tracked();
    let index = pattern.index(IndexParts {
        rows: learns || reads_rows(routines.spmm, pattern.device()),
        columns: x.is_tracked(),
    });
    let (values, x) = (values.into_dispatch(), x.into_dispatch());
    Tensor::from_dispatch(match bias {
        Some(bias) => Dispatch::spmm_bias(values, index, x, bias.into_dispatch(), routines),
        None => Dispatch::spmm(values, index, x, routines),
    })
}

/// `X = Y W`; `values` `[nnz]`, `y` `[batch, m]`, output `[batch, k]`.
pub(crate) fn transposed_product(
    values: Tensor<1>,
    pattern: &DevicePattern,
    y: Tensor<2>,
    routines: Routines,
) -> Tensor<2> {
    check(
        "spmm_transposed",
        &values,
        pattern,
        &[("y", &y, pattern.pattern().shape()[0])],
    );
    Tensor::from_dispatch(Dispatch::spmm_transposed(
        values.into_dispatch(),
        pattern.index(IndexParts::ALL),
        y.into_dispatch(),
        routines,
    ))
}

/// `d[s] = sum_b Y[b, row(s)] X[b, col(s)]`; `y` `[batch, m]`, `x` `[batch, k]`, output `[nnz]`.
pub(crate) fn sampled_product(
    y: Tensor<2>,
    x: Tensor<2>,
    pattern: &DevicePattern,
    routines: Routines,
) -> Tensor<1> {
    let [rows, cols] = pattern.pattern().shape();
    check_operands("sddmm", pattern, &[("y", &y, rows), ("x", &x, cols)]);
    assert_eq!(
        y.dims()[0],
        x.dims()[0],
        "sddmm: y and x need the same batch (axis 0), got {} and {}",
        y.dims()[0],
        x.dims()[0]
    );
    assert_eq!(
        y.dtype(),
        x.dtype(),
        "sddmm: y and x need the same data type, got {:?} and {:?}",
        y.dtype(),
        x.dtype()
    );
    let index = pattern.index(IndexParts {
        rows: true,
        columns: x.is_tracked(),
    });
    Tensor::from_dispatch(Dispatch::sddmm(
        y.into_dispatch(),
        x.into_dispatch(),
        index,
        routines,
    ))
}

/// Whether a product by this routine reads the row of each slot. What is composed of Burn operations does, as
/// all is on back ends without kernels.
fn reads_rows(routine: SpmmRoutine, device: &Device) -> bool {
    matches!(routine, SpmmRoutine::CooAtomic | SpmmRoutine::Composed) || !has_kernels(device)
}

/// The tensor in another shape, taken literally: `Tensor::reshape` reads a 0 as "keep this axis",
/// which an empty batch is not.
pub(crate) fn reshape<const D: usize, const E: usize>(
    tensor: Tensor<D>,
    dims: [usize; E],
) -> Tensor<E> {
    let same = tensor.dims()[..] == dims[..];
    let tensor = tensor.into_dispatch();
    Tensor::from_dispatch(match same {
        true => tensor,
        false => Dispatch::float_reshape(tensor, Shape::new(dims)),
    })
}

type Operand<'a> = (&'a str, &'a Tensor<2>, usize);

fn check(op: &str, values: &Tensor<1>, pattern: &DevicePattern, operands: &[Operand<'_>]) {
    let nnz = pattern.pattern().nnz();
    assert_eq!(
        values.dims(),
        [nnz],
        "{op}: expected one value per non-zero, shape [{nnz}], got {:?}",
        values.dims()
    );
    assert!(
        values.device() == *pattern.device(),
        "{op}: the values are on {:?}, the pattern on {:?}",
        values.device(),
        pattern.device()
    );
    for (name, operand, _) in operands {
        assert_eq!(
            operand.dtype(),
            values.dtype(),
            "{op}: {name} and the values need the same data type, got {:?} and {:?}",
            operand.dtype(),
            values.dtype()
        );
    }
    check_operands(op, pattern, operands);
}

fn check_operands(op: &str, pattern: &DevicePattern, operands: &[Operand<'_>]) {
    for (name, operand, width) in operands {
        assert_eq!(
            operand.dims()[1],
            *width,
            "{op}: expected {name} of shape [batch, {width}], got {:?}",
            operand.dims()
        );
        assert!(
            operand.device() == *pattern.device(),
            "{op}: {name} is on {:?}, the pattern on {:?}",
            operand.device(),
            pattern.device()
        );
    }
}
