//! The sparse operations of the Flex back end.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{DType, Element, FloatDType, Shape, TensorData};
use burn_flex::FlexTensor;
use bytemuck::Pod;

use super::gradients::Factors;
use super::real::Real;
use super::scatter::{self, spmm_transposed};
use super::sddmm::sddmm;
use super::spmm::{Rows, Values, spmm};
use crate::ops::select::{Mask, Selected, select_panel, select_rows};
use crate::ops::{
    ColumnOrder, GradientPanel, Index, RoutineError, Routines, SddmmRoutine, SparseOps,
    SpmmRoutine, composed,
};

const AVAILABLE: &str = "auto, estimated, composed, host_rows";

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
        match values.dtype() {
            DType::F32 => product::<f32>(&values, &index, &x),
            DType::F64 => product::<f64>(&values, &index, &x),
            DType::F16 | DType::BF16 => in_f32(values.dtype(), [values, x], |[values, x]| {
                product::<f32>(&values, &index, &x)
            }),
            other => unsupported(other),
        }
    }

    fn spmm_transposed(
        values: FloatTensor<Self>,
        index: Index<Self>,
        y: FloatTensor<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        if is_composed(routines.transposed()) {
            return composed::spmm_transposed::<Self>(values, &index, y);
        }
        match values.dtype() {
            DType::F32 => transposed::<f32>(&values, &index, &y),
            DType::F64 => transposed::<f64>(&values, &index, &y),
            DType::F16 | DType::BF16 => in_f32(values.dtype(), [values, y], |[values, y]| {
                transposed::<f32>(&values, &index, &y)
            }),
            other => unsupported(other),
        }
    }

    fn sddmm(
        y: FloatTensor<Self>,
        x: FloatTensor<Self>,
        index: Index<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        match routines.sddmm {
            SddmmRoutine::Auto | SddmmRoutine::Estimated | SddmmRoutine::HostRows => {}
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

    fn top_gradients(
        g: FloatTensor<Self>,
        x: FloatTensor<Self>,
        mask: IntTensor<Self>,
        panel: GradientPanel,
        count: usize,
        floor: f32,
    ) -> (IntTensor<Self>, FloatTensor<Self>) {
        let gradients = gradients(g, x, &panel);
        let mask = mask.to_contiguous();
        let cols = panel.cols.len();
        placed(select_panel(
            &gradients,
            cols,
            excluded(&mask, &panel),
            count,
            floor,
        ))
    }

    fn top_gradients_per_row(
        g: FloatTensor<Self>,
        x: FloatTensor<Self>,
        mask: IntTensor<Self>,
        starts: IntTensor<Self>,
        panel: GradientPanel,
        _total: usize,
    ) -> (IntTensor<Self>, FloatTensor<Self>) {
        let gradients = gradients(g, x, &panel);
        let (mask, starts) = (mask.to_contiguous(), starts.to_contiguous());
        let mask = excluded(&mask, &panel);
        let cols = panel.cols.len();
        placed(select_rows(&gradients, cols, mask, starts.storage()))
    }
}

fn gradients(g: FlexTensor, x: FlexTensor, panel: &GradientPanel) -> Vec<f32> {
    let [g, x] = [g, x].map(|factor| match factor.dtype() {
        DType::F32 => factor.to_contiguous(),
        _ => Flex::float_cast(factor, FloatDType::F32).to_contiguous(),
    });
    let factors = Factors {
        g: g.storage(),
        x: x.storage(),
        m: g.shape()[1],
        k: x.shape()[1],
    };
    factors.gradients(panel)
}

fn excluded<'a>(mask: &'a FlexTensor, panel: &GradientPanel) -> Mask<'a> {
    Mask {
        bits: mask.storage(),
        stride: panel.mask_stride(),
    }
}

fn placed(selected: Selected) -> (FlexTensor, FlexTensor) {
    let shape = Shape::new([selected.positions.len()]);
    (
        tensor(selected.positions, shape.clone()),
        tensor(selected.gradients, shape),
    )
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

fn product<T: Real + Element + Pod>(
    values: &FlexTensor,
    index: &Index<Flex>,
    x: &FlexTensor,
) -> FlexTensor {
    let (values, x) = (values.to_contiguous(), x.to_contiguous());
    let [rows, features] = index.shape;
    let batch = x.shape()[0];
    let out = spmm(
        by_row(index),
        Values::InOrder(values.storage::<T>()),
        x.storage::<T>(),
        batch,
        features,
    );
    tensor(out, Shape::new([batch, rows]))
}

fn transposed<T: Real + Element + Pod>(
    values: &FlexTensor,
    index: &Index<Flex>,
    y: &FlexTensor,
) -> FlexTensor {
    let (values, y) = (values.to_contiguous(), y.to_contiguous());
    let [rows, features] = index.shape;
    let batch = y.shape()[0];
    let (values, y) = (values.storage::<T>(), y.storage::<T>());
    let out = match &index.columns {
        ColumnOrder::Present {
            offsets,
            rows: cols,
            slots,
        } if !scatter::is_faster(values.len(), batch) => {
            let matrix = Rows {
                offsets: offsets.storage(),
                cols: cols.storage(),
            };
            spmm(matrix, Values::At(values, slots.storage()), y, batch, rows)
        }
        _ => spmm_transposed(by_row(index), values, y, batch, features),
    };
    tensor(out, Shape::new([batch, features]))
}

fn sampled<T: Real + Element + Pod>(
    y: &FlexTensor,
    x: &FlexTensor,
    index: &Index<Flex>,
) -> FlexTensor {
    let (y, x) = (y.to_contiguous(), x.to_contiguous());
    let matrix = by_row(index);
    let out = sddmm(
        matrix,
        y.storage::<T>(),
        x.storage::<T>(),
        x.shape()[0],
        index.shape[1],
    );
    tensor(out, Shape::new([matrix.cols.len()]))
}

fn by_row(index: &Index<Flex>) -> Rows<'_> {
    Rows {
        offsets: index.row_offsets.storage(),
        cols: index.cols.storage(),
    }
}

fn tensor<T: Element>(data: Vec<T>, shape: Shape) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(data, shape))
}

fn is_composed(routine: SpmmRoutine) -> bool {
    match routine {
        SpmmRoutine::Auto | SpmmRoutine::Estimated | SpmmRoutine::HostRows => false,
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
