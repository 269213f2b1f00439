//! The sparse operations of the Flex back end.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{DType, FloatDType, Shape, TensorData};
use burn_flex::FlexTensor;

use super::sddmm::sddmm;
use super::spmm::{Real, Rows, spmm};
use crate::ops::{
    ColumnOrder, Index, RoutineError, Routines, SddmmRoutine, SparseOps, SpmmRoutine, composed,
};

const AVAILABLE: &str = "auto, composed, host_rows";

impl SparseOps for Flex {
    fn spmm(
        values: FloatTensor<Self>,
        index: Index<Self>,
        x: FloatTensor<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        if is_composed(routines.spmm) {
            return composed::spmm::<Self>(values, &index, x);
        }
        let order = Order {
            offsets: &index.row_offsets,
            cols: &index.cols,
            slots: None,
        };
        multiply(values, order, x)
    }

    fn spmm_transposed(
        values: FloatTensor<Self>,
        index: Index<Self>,
        y: FloatTensor<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        if is_composed(routines.spmm) {
            return composed::spmm_transposed::<Self>(values, &index, y);
        }
        let ColumnOrder::Present {
            offsets,
            rows,
            slots,
        } = &index.columns
        else {
            return composed::spmm_transposed::<Self>(values, &index, y);
        };
        multiply(
            values,
            Order {
                offsets,
                cols: rows,
                slots: Some(slots),
            },
            y,
        )
    }

    fn sddmm(
        y: FloatTensor<Self>,
        x: FloatTensor<Self>,
        index: Index<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        match routines.sddmm {
            SddmmRoutine::Auto | SddmmRoutine::HostRows => {}
            SddmmRoutine::Composed => return composed::sddmm::<Self>(y, x, &index),
            other => refuse(other.name()),
        }
        match y.dtype() {
            DType::F32 => sampled::<f32>(&y, &x, &index),
            DType::F64 => sampled::<f64>(&y, &x, &index),
            DType::F16 | DType::BF16 => {
                in_f32(y.dtype(), [y, x], |[y, x]| sampled::<f32>(&y, &x, &index))
            }
            other => unsupported(other),
        }
    }
}

/// The order in which a product walks the non-zeros.
#[derive(Clone, Copy)]
struct Order<'a> {
    offsets: &'a FlexTensor,
    cols: &'a FlexTensor,
    slots: Option<&'a FlexTensor>,
}

fn multiply(values: FlexTensor, order: Order<'_>, x: FlexTensor) -> FlexTensor {
    match values.dtype() {
        DType::F32 => product::<f32>(&values, order, &x),
        DType::F64 => product::<f64>(&values, order, &x),
        DType::F16 | DType::BF16 => in_f32(values.dtype(), [values, x], |[values, x]| {
            product::<f32>(&values, order, &x)
        }),
        other => unsupported(other),
    }
}

/// Half precision is computed and accumulated in `f32`, and rounded once.
fn in_f32<const N: usize>(
    dtype: DType,
    operands: [FlexTensor; N],
    compute: impl FnOnce([FlexTensor; N]) -> FlexTensor,
) -> FlexTensor {
    let operands = operands.map(|operand| Flex::float_cast(operand, FloatDType::F32));
    Flex::float_cast(compute(operands), dtype.into())
}

fn product<T: Real + burn::tensor::Element + bytemuck::Pod>(
    values: &FlexTensor,
    order: Order<'_>,
    x: &FlexTensor,
) -> FlexTensor {
    let (values, x) = (values.to_contiguous(), x.to_contiguous());
    let [batch, features] = [x.shape()[0], x.shape()[1]];
    let matrix = Rows {
        values: values.storage::<T>(),
        offsets: order.offsets.storage::<i32>(),
        cols: order.cols.storage::<i32>(),
        slots: order.slots.map(|slots| slots.storage::<i32>()),
    };
    let rows = matrix.offsets.len() - 1;
    tensor(
        spmm(matrix, x.storage::<T>(), batch, features),
        Shape::new([batch, rows]),
    )
}

fn sampled<T: Real + burn::tensor::Element + bytemuck::Pod>(
    y: &FlexTensor,
    x: &FlexTensor,
    index: &Index<Flex>,
) -> FlexTensor {
    let (y, x) = (y.to_contiguous(), x.to_contiguous());
    let [batch, features] = [x.shape()[0], x.shape()[1]];
    let cols = index.cols.storage::<i32>();
    let out = sddmm(
        index.row_offsets.storage::<i32>(),
        cols,
        y.storage::<T>(),
        x.storage::<T>(),
        batch,
        features,
    );
    tensor(out, Shape::new([cols.len()]))
}

fn tensor<T: burn::tensor::Element>(data: Vec<T>, shape: Shape) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(data, shape))
}

fn is_composed(routine: SpmmRoutine) -> bool {
    match routine {
        SpmmRoutine::Auto | SpmmRoutine::HostRows => false,
        SpmmRoutine::Composed => true,
        other => refuse(other.name()),
    }
}

fn refuse(routine: &'static str) -> ! {
    let error = RoutineError::NotOnBackend {
        routine,
        available: AVAILABLE,
    };
    panic!("{error}")
}

fn unsupported(dtype: DType) -> ! {
    panic!("sparse products support f32, f64, f16 and bf16 values, got {dtype:?}")
}
