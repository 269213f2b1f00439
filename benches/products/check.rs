//! Sampled elements of an output against sums in f64 on the host.

use std::collections::BTreeSet;

use burn::tensor::{DType, Int, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use super::layer::{Output, Weight};
use super::operands::Operands;
use super::problems::{Op, Problem};

/// Rows, columns and samples of a grid of checked elements, each.
const LINES: usize = 15;
/// Multiply-adds that the reference of one output may take.
const WORK: usize = 100_000_000;

/// The places that are checked: a grid of outputs, or slots in a few rows.
pub struct Sample {
    rows: Vec<usize>,
    cols: Vec<usize>,
    batches: Vec<usize>,
    /// `(slot, row, col)`, the rows among `rows`.
    slots: Vec<[usize; 3]>,
}

impl Sample {
    pub fn draw(problem: &Problem, pattern: &Pattern, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut some = |size: usize, most: usize| -> Vec<usize> {
            let drawn: BTreeSet<usize> = (0..most.min(size))
                .map(|_| rng.random_range(0..size))
                .collect();
            drawn.into_iter().collect()
        };
        let rows = match problem.op {
            // The reference of a step needs the whole batch of every row.
            Op::Step => some(
                problem.m,
                (WORK / (problem.batch * problem.k).max(1)).clamp(2, LINES),
            ),
            _ => some(problem.m, LINES),
        };
        let mut slots = Vec::new();
        for &row in &rows {
            let (start, fan_in) = (pattern.row_offsets()[row], pattern.row(row).len());
            slots.extend(
                some(fan_in, 200 / rows.len())
                    .into_iter()
                    .map(|place| [start + place, row, pattern.row(row)[place] as usize]),
            );
        }
        Self {
            rows,
            cols: some(problem.k, LINES),
            batches: some(problem.batch, LINES),
            slots,
        }
    }

    /// The relative error of the first output; infinite if an element is not finite.
    pub fn error(
        &self,
        problem: &Problem,
        weight: &Weight,
        operands: &Operands,
        output: &Output,
    ) -> f64 {
        let expected = self.expected(problem.op, weight, operands);
        let found = self.found(problem, output);
        assert_eq!(found.len(), expected.len(), "number of sampled elements");
        let (mut difference, mut size) = (0.0, 0.0);
        for (found, expected) in found.into_iter().zip(expected) {
            difference += (found - expected).powi(2);
            size += expected.powi(2);
        }
        let error: f64 = (difference / f64::max(size, f64::MIN_POSITIVE)).sqrt();
        if error.is_nan() { f64::INFINITY } else { error }
    }

    fn found(&self, problem: &Problem, output: &Output) -> Vec<f64> {
        match (problem.op, output) {
            (Op::Spmm | Op::Forward, Output::Matrix(y)) => grid(y, &self.batches, &self.rows),
            (Op::SpmmTransposed, Output::Matrix(x)) => grid(x, &self.batches, &self.cols),
            (Op::Step, Output::Step(_, gradient, _)) => {
                let gradient = gradient
                    .as_ref()
                    .expect("a checked step keeps its gradient");
                self.at_slots(problem, gradient)
            }
            (_, output) => self.at_slots(problem, output),
        }
    }

    /// A gradient of the weight at the sampled slots.
    fn at_slots(&self, problem: &Problem, gradient: &Output) -> Vec<f64> {
        match gradient {
            Output::Values(values) => {
                let slots = self.slots.iter().map(|&[slot, ..]| slot);
                host(values.clone().select(0, index(slots, values)))
            }
            Output::Matrix(dense) => {
                let flat = dense.clone().reshape([problem.k * problem.m]);
                let flats = self
                    .slots
                    .iter()
                    .map(|&[_, row, col]| col * problem.m + row);
                host(flat.clone().select(0, index(flats, &flat)))
            }
            Output::Step(..) => unreachable!("a gradient is one tensor"),
        }
    }

    fn expected(&self, op: Op, weight: &Weight, operands: &Operands) -> Vec<f64> {
        let Operands { x, y, bias } = operands;
        let lines = Lines::new(weight);
        match op {
            Op::Spmm => self.products(x, self.rows.iter().map(|&row| (lines.row(row), 0.0))),
            Op::Forward => {
                let bias = host(bias.clone());
                self.products(x, self.rows.iter().map(|&row| (lines.row(row), bias[row])))
            }
            Op::SpmmTransposed => {
                self.products(y, self.cols.iter().map(|&col| (lines.col(col), 0.0)))
            }
            Op::Sddmm => self.sampled(x, |row| column(y, row)),
            Op::Step => {
                let bias = host(bias.clone());
                let [batch, width] = x.dims();
                let inputs = host(x.clone());
                self.sampled(x, |row| {
                    let line = lines.row(row);
                    let errors = column(y, row)
                        .into_iter()
                        .enumerate()
                        .map(|(sample, target)| {
                            let x = &inputs[sample * width..][..width];
                            let output = bias[row] + dot(&line, x);
                            2.0 * (output - target) / batch as f64
                        });
                    errors.collect()
                })
            }
        }
    }

    /// The dot products of the sampled batch with lines of the weight, and a constant each.
    fn products(&self, x: &Tensor<2>, lines: impl Iterator<Item = (Line, f64)>) -> Vec<f64> {
        let lines: Vec<_> = lines.collect();
        let [_, width] = x.dims();
        let x = host(x.clone().select(0, index(self.batches.iter().copied(), x)));
        x.chunks(width)
            .flat_map(|x| lines.iter().map(|(line, constant)| constant + dot(line, x)))
            .collect()
    }

    /// The sampled product of the columns of `x` and those that `y` gives for a row.
    fn sampled(&self, x: &Tensor<2>, y: impl Fn(usize) -> Vec<f64>) -> Vec<f64> {
        let mut last = None;
        let mut expected = Vec::new();
        for &[_, row, col] in &self.slots {
            if last.as_ref().is_none_or(|(known, _)| *known != row) {
                last = Some((row, y(row)));
            }
            let (_, y) = last.as_ref().expect("filled above");
            let products = column(x, col).into_iter().zip(y).map(|(x, y)| x * y);
            expected.push(products.sum());
        }
        expected
    }
}

/// The non-zeros of a row or column: place and value.
type Line = Vec<(usize, f64)>;

/// Rows and columns of a weight on the host.
enum Lines<'a> {
    Sparse(&'a SparseTensor, Vec<f64>),
    Dense(&'a Weight),
}

impl<'a> Lines<'a> {
    fn new(weight: &'a Weight) -> Self {
        match weight {
            Weight::Sparse(weight) => Self::Sparse(weight, host(weight.values().clone())),
            weight => Self::Dense(weight),
        }
    }

    fn row(&self, row: usize) -> Line {
        match self {
            Self::Sparse(weight, values) => {
                let pattern = weight.pattern();
                let values = &values[pattern.row_offsets()[row]..];
                let cols = pattern.row(row).iter().map(|&col| col as usize);
                cols.zip(values.iter().copied()).collect()
            }
            Self::Dense(weight) => dense_line(weight, 1, row),
        }
    }

    fn col(&self, col: usize) -> Line {
        match self {
            Self::Sparse(weight, values) => {
                let pattern = weight.pattern();
                let slots =
                    (0..pattern.rows()).filter_map(|row| Some((row, pattern.slot_of(row, col)?)));
                slots.map(|(row, slot)| (row, values[slot])).collect()
            }
            Self::Dense(weight) => dense_line(weight, 0, col),
        }
    }
}

/// A line of a weight that is stored `[k, m]`.
fn dense_line(weight: &Weight, axis: usize, place: usize) -> Line {
    let (weight, pruned) = match weight {
        Weight::Dense(weight) => (weight, None),
        Weight::Masked(weight, pruned) => (weight, Some(pruned)),
        Weight::Sparse(_) => unreachable!("a sparse weight has its own lines"),
    };
    let at = index([place].into_iter(), weight);
    let mut line = weight.clone().select(axis, at.clone());
    if let Some(pruned) = pruned {
        line = line.mask_fill(pruned.clone().select(axis, at), 0.0);
    }
    host(line).into_iter().enumerate().collect()
}

fn dot(line: &Line, x: &[f64]) -> f64 {
    line.iter().map(|&(place, value)| value * x[place]).sum()
}

fn column(matrix: &Tensor<2>, place: usize) -> Vec<f64> {
    host(matrix.clone().select(1, index([place].into_iter(), matrix)))
}

fn grid(matrix: &Tensor<2>, rows: &[usize], cols: &[usize]) -> Vec<f64> {
    let rows = index(rows.iter().copied(), matrix);
    let cols = index(cols.iter().copied(), matrix);
    host(matrix.clone().select(0, rows).select(1, cols))
}

fn index<const D: usize>(places: impl Iterator<Item = usize>, like: &Tensor<D>) -> Tensor<1, Int> {
    let places: Vec<i32> = places.map(|place| place as i32).collect();
    let length = places.len();
    let device = like.device();
    Tensor::from_data(TensorData::new(places, [length]), (&device, DType::I32))
}

fn host<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}
