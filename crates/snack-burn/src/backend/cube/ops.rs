//! The sparse operations of the CubeCL back ends.

use burn::backend::TensorMetadata;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

use super::batch_sum::batch_sum;
use super::growth::{self, GrowthProblem};
use super::launch::{add_bias, check_type, zeros};
use super::sddmm::{SddmmProblem, sddmm};
use super::spmm::{SpmmProblem, spmm};
use super::transpose::either_major;
use crate::ops::{
    ColumnOrder, GradientPanel, Index, IndexWidth, Routines, RowList, SddmmRoutine, SparseOps,
    SpmmRoutine, composed,
};

impl SparseOps for CubeBackend {
    fn spmm(
        values: FloatTensor<Self>,
        index: Index<Self>,
        x: FloatTensor<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        product(values, index, x, None, routines)
    }

    fn spmm_bias(
        values: FloatTensor<Self>,
        index: Index<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        product(values, index, x, Some(into_contiguous(bias)), routines)
    }

    fn spmm_transposed(
        values: FloatTensor<Self>,
        index: Index<Self>,
        y: FloatTensor<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        supported(&y);
        let shape = [y.shape()[0], index.shape[1]];
        if shape.contains(&0) || index.nnz == 0 {
            return zeros(&y, Shape::new(shape));
        }
        let ColumnOrder::Present {
            offsets,
            rows,
            slots,
        } = &index.columns
        else {
            return composed::spmm_transposed::<Self>(values, &index, y);
        };
        if routines.transposed() == SpmmRoutine::Composed {
            return composed::spmm_transposed::<Self>(values, &index, y);
        }
        let problem = SpmmProblem {
            values: into_contiguous(values),
            x: either_major(y),
            offsets: offsets.clone(),
            inputs: rows.clone(),
            packed: index.width == IndexWidth::Bits16,
            slots: Some(slots.clone()),
            by_input: Some((index.row_offsets.clone(), index.cols.clone())),
            by_slot: coordinates_by_slot(&index).map(|[rows, cols]| [cols, rows]),
            bias: None,
            panel_bytes: routines.panel_bytes,
            reduced_precision: routines.reduced_precision,
            layout: routines.input_layout,
        };
        run(spmm(&problem, routines.transposed()))
    }

    fn sddmm(
        y: FloatTensor<Self>,
        x: FloatTensor<Self>,
        index: Index<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        supported(&x);
        let nnz = index.nnz;
        if nnz == 0 || x.shape()[0] == 0 {
            return zeros(&x, Shape::new([nnz]));
        }
        if routines.sddmm == SddmmRoutine::Composed {
            return composed::sddmm::<Self>(y, x, &index);
        }
        let problem = SddmmProblem {
            y: either_major(y),
            x: either_major(x),
            offsets: index.row_offsets,
            rows: index.rows.expect().clone(),
            cols: index.cols,
            packed: index.width == IndexWidth::Bits16,
            nnz,
            panel_bytes: routines.panel_bytes,
            reduced_precision: routines.reduced_precision,
        };
        run(sddmm(&problem, routines.sddmm))
    }

    fn batch_sum(x: FloatTensor<Self>) -> FloatTensor<Self> {
        supported(&x);
        match x.meta.num_elements() {
            0 => zeros(&x, Shape::new([x.shape()[1]])),
            _ => batch_sum(&either_major(x)),
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
        supported(&g);
        growth::top(GrowthProblem::new(g, x, mask, panel), count, floor)
    }

    fn top_gradients_per_row(
        g: FloatTensor<Self>,
        x: FloatTensor<Self>,
        mask: IntTensor<Self>,
        starts: IntTensor<Self>,
        panel: GradientPanel,
        total: usize,
    ) -> (IntTensor<Self>, FloatTensor<Self>) {
        supported(&g);
        growth::top_per_row(GrowthProblem::new(g, x, mask, panel), starts, total)
    }
}

fn product(
    values: CubeTensor,
    index: Index<CubeBackend>,
    x: CubeTensor,
    bias: Option<CubeTensor>,
    routines: Routines,
) -> CubeTensor {
    supported(&x);
    let shape = [x.shape()[0], index.shape[0]];
    let apart = |y| match &bias {
        Some(bias) => add_bias(y, bias),
        None => y,
    };
    if shape.contains(&0) {
        return zeros(&x, Shape::new(shape));
    }
    if index.nnz == 0 {
        return apart(zeros(&x, Shape::new(shape)));
    }
    if routines.spmm == SpmmRoutine::Composed {
        return apart(composed::spmm::<CubeBackend>(values, &index, x));
    }
    let problem = SpmmProblem {
        values: into_contiguous(values),
        x: either_major(x),
        offsets: index.row_offsets.clone(),
        inputs: index.cols.clone(),
        packed: index.width == IndexWidth::Bits16,
        slots: None,
        by_input: None,
        by_slot: coordinates_by_slot(&index),
        bias,
        panel_bytes: routines.panel_bytes,
        reduced_precision: routines.reduced_precision,
        layout: routines.output_layout,
    };
    run(spmm(&problem, routines.spmm))
}

/// Row and column of each slot, where the rows are there.
fn coordinates_by_slot(index: &Index<CubeBackend>) -> Option<[CubeTensor; 2]> {
    match &index.rows {
        RowList::Absent => None,
        RowList::Present { rows } => Some([rows.clone(), index.cols.clone()]),
    }
}

fn supported(operand: &CubeTensor) {
    check_type(operand).unwrap_or_else(|error| panic!("{error}"));
}

fn run(
    result: Result<FloatTensor<CubeBackend>, crate::ops::RoutineError>,
) -> FloatTensor<CubeBackend> {
    result.unwrap_or_else(|error| panic!("{error}"))
}
