//! Sparse storage, dense compute: some rows of the matrix at a time as a dense panel.
//!
//! A panel of bounded size is filled from the non-zeros, multiplied by CubeK's dense product, and
//! emptied again at the same places, so that it is cleared only once. The matrix itself is never
//! dense.

use burn::backend::ops::FloatTensorOps;
use burn::tensor::{Shape, Slice};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::coordinates::coordinate;
use super::launch::{address_type, check_units, dtypes, strided_grid, zeros};
use super::sddmm::SddmmProblem;
use super::spmm::SpmmProblem;
use super::transpose::swap;
use crate::ops::{RoutineError, SddmmRoutine, SpmmRoutine, dense};

/// Units per cube of the kernels that fill and read a panel.
const UNITS: u32 = 128;
/// Rows of a panel are a multiple of this, so that parts of other tensors start aligned.
const ROWS: usize = 64;

/// What is done to the panel's elements at the coordinates of the non-zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Access {
    /// They get the values.
    Fill,
    /// They become zero again.
    Clear,
    /// They are copied to the values.
    Pick,
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn panel_kernel<F: Float>(
    values: &mut Tensor<F>,
    offsets: &Tensor<u32>,
    inputs: &Tensor<u32>,
    slots: &Tensor<u32>,
    panel: &mut Tensor<F>,
    first_row: usize,
    #[comptime] access: Access,
    #[comptime] packed: bool,
    #[comptime] permuted: bool,
    #[define(F)] _dtype: ElemType,
) {
    let (rows, stride) = (panel.shape(0), panel.stride(0));
    let outputs = offsets.len() - 1;
    let mut row = CUBE_POS_X as usize;
    while row < rows && first_row + row < outputs {
        let end = offsets[first_row + row + 1] as usize;
        let mut entry = offsets[first_row + row] as usize + UNIT_POS as usize;
        while entry < end {
            let place = row * stride + coordinate(inputs, entry, packed);
            let slot = if permuted {
                slots[entry] as usize
            } else {
                entry
            };
            if comptime!(access == Access::Fill) {
                panel[place] = values[slot];
            } else if comptime!(access == Access::Clear) {
                panel[place] = F::new(0.0_f32);
            } else {
                values[slot] = panel[place];
            }
            entry += CUBE_DIM as usize;
        }
        row += CUBE_COUNT_X as usize;
    }
}

/// The non-zeros of a matrix in the order of its panels.
struct Entries<'a> {
    values: &'a CubeTensor,
    offsets: &'a CubeTensor,
    inputs: &'a CubeTensor,
    slots: Option<&'a CubeTensor>,
    packed: bool,
}

impl Entries<'_> {
    fn access(&self, panel: &CubeTensor, first_row: usize, access: Access) {
        // SAFETY: rows are bounded in the kernel; the index tensors come from a validated pattern
        // of the panel's width.
        unsafe {
            panel_kernel::launch_unchecked(
                &panel.client,
                strided_grid(&panel.client, [panel.meta.shape()[0], 1]),
                CubeDim::new_1d(UNITS),
                address_type([self.values, panel]),
                self.values.clone().into_tensor_arg(),
                self.offsets.clone().into_tensor_arg(),
                self.inputs.clone().into_tensor_arg(),
                self.slots.unwrap_or(self.inputs).clone().into_tensor_arg(),
                panel.clone().into_tensor_arg(),
                first_row,
                access,
                self.packed,
                self.slots.is_some(),
                dtypes(panel.dtype)[0],
            );
        }
    }
}

/// Rows of a panel of a `rows` by `features` matrix: all where they fit the scratch, since a single panel
/// needs no other; else as many as fit together with the part of an operand that goes with them, and at least
/// one step.
fn panel_rows(scratch: usize, [rows, features]: [usize; 2], batch: usize, element: usize) -> usize {
    if rows * features * element <= scratch {
        return rows;
    }
    let with_part = (features + batch) * element;
    (scratch / with_part / ROWS * ROWS).clamp(ROWS, rows.next_multiple_of(ROWS))
}

fn dense_product(lhs: CubeTensor, rhs: CubeTensor) -> CubeTensor {
    into_contiguous(dense::product::<CubeBackend>(lhs, rhs))
}

/// The part of a matrix that has the places `first .. first + width` of an axis.
fn part_of(tensor: &CubeTensor, axis: usize, first: usize, width: usize) -> [Slice; 2] {
    let shape = tensor.meta.shape();
    let mut ranges = [Slice::from(0..shape[0]), Slice::from(0..shape[1])];
    ranges[axis] = Slice::from(first..first + width);
    ranges
}

/// A slice of a matrix along an axis, without a copy where the device can address it.
fn narrow(tensor: &CubeTensor, axis: usize, first: usize, width: usize) -> CubeTensor {
    CubeBackend::float_slice(tensor.clone(), &part_of(tensor, axis, first, width))
}

pub(super) fn spmm_fits(problem: &SpmmProblem) -> Result<(), RoutineError> {
    check_units(&problem.x.client, SpmmRoutine::Panel.name(), UNITS)
}

/// `Y[:, panel] = X panel^T`, or `Y^T[panel, :] = panel X^T` where that is the wanted layout, panel by panel.
pub(super) fn spmm(problem: &SpmmProblem) -> Result<CubeTensor, RoutineError> {
    spmm_fits(problem)?;
    let x = &problem.x;
    let (batch, features, outputs) = (problem.batch(), x.meta.shape()[1], problem.outputs());
    let shape = [outputs, features];
    let rows = panel_rows(problem.panel_bytes, shape, batch, x.dtype.size());
    let entries = Entries {
        values: &problem.values,
        offsets: &problem.offsets,
        inputs: &problem.inputs,
        slots: problem.slots.as_ref(),
        packed: problem.packed,
    };
    let turned = problem.writes_feature_major(1);
    // The axis of the outputs.
    let (axis, shape) = match turned {
        true => (0, [outputs, batch]),
        false => (1, [batch, outputs]),
    };
    let panel = zeros(x, Shape::new([rows, features]));
    let mut y = (outputs > rows).then(|| zeros(x, Shape::new(shape)));
    for first in (0..outputs).step_by(rows) {
        let width = rows.min(outputs - first);
        entries.access(&panel, first, Access::Fill);
        let part = match turned {
            true => dense_product(panel.clone(), swap(x)),
            false => dense_product(x.clone(), swap(&panel)),
        };
        let part = match width < rows {
            true => narrow(&part, axis, 0, width),
            false => part,
        };
        y = Some(match y {
            Some(y) => {
                let ranges = part_of(&y, axis, first, width);
                CubeBackend::float_slice_assign(y, &ranges, part)
            }
            None => into_contiguous(part),
        });
        if first + rows < outputs {
            entries.access(&panel, first, Access::Clear);
        }
    }
    let y = y.expect("a product of a non-empty matrix has outputs");
    let y = match &problem.bias {
        Some(bias) => {
            let mut along_outputs = [1; 2];
            along_outputs[axis] = outputs;
            let bias = CubeBackend::float_reshape(bias.clone(), Shape::new(along_outputs));
            CubeBackend::float_add(y, bias)
        }
        None => y,
    };
    Ok(match turned {
        true => swap(&y),
        false => y,
    })
}

pub(super) fn sddmm_fits(problem: &SddmmProblem) -> Result<(), RoutineError> {
    check_units(&problem.x.client, SddmmRoutine::Panel.name(), UNITS)
}

/// `panel = Y[:, panel]^T X`, panel by panel, of which the non-zeros are kept.
pub(super) fn sddmm(problem: &SddmmProblem) -> Result<CubeTensor, RoutineError> {
    sddmm_fits(problem)?;
    let SddmmProblem { y, x, .. } = problem;
    let (outputs, features) = (y.meta.shape()[1], x.meta.shape()[1]);
    let shape = [outputs, features];
    let rows = panel_rows(problem.panel_bytes, shape, problem.batch(), x.dtype.size());
    let out = super::launch::uninitialized(x, problem.output_shape());
    let entries = Entries {
        values: &out,
        offsets: &problem.offsets,
        inputs: &problem.cols,
        slots: None,
        packed: problem.packed,
    };
    for first in (0..outputs).step_by(rows) {
        let part = narrow(y, 1, first, rows.min(outputs - first));
        let panel = dense_product(swap(&part), x.clone());
        entries.access(&panel, first, Access::Pick);
    }
    Ok(out)
}
