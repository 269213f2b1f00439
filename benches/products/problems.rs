//! What is measured: an operation on one shape, sparsity, batch and data type.

use std::fmt;
use std::str::FromStr;

use burn::tensor::DType;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use snack_burn::pattern::nnz_for_sparsity;

/// An operation of the public API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Op {
    /// `SparseTensor::spmm`.
    Spmm,
    /// `SparseTensor::spmm_transposed`.
    SpmmTransposed,
    /// `SparseTensor::sddmm`.
    Sddmm,
    /// `SparseLinear::forward`, with bias.
    Forward,
    /// Forward pass, squared error, backward pass to weight, bias and input, SGD.
    Step,
}

/// A data type of values and operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    F32,
    Bf16,
    F16,
}

impl Precision {
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
        }
    }

    /// The relative error above which a row is marked.
    pub fn tolerance(self) -> f64 {
        match self {
            Self::F32 => 1e-4,
            Self::Bf16 | Self::F16 => 2e-2,
        }
    }
}

/// `M` (square) or `MxK` on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub [usize; 2]);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = |part: &str| {
            part.parse()
                .map_err(|_| format!("`{text}` is neither M nor MxK"))
        };
        Ok(Self(match text.split_once('x') {
            Some((m, k)) => [parse(m)?, parse(k)?],
            None => [parse(text)?; 2],
        }))
    }
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    pub op: Op,
    pub m: usize,
    pub k: usize,
    pub sparsity: f64,
    pub nnz: usize,
    pub batch: usize,
    pub dtype: Precision,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<15} {:>6} {:>6} {:>6} {:>10} {:>6} {:>5}",
            name(self.op),
            self.m,
            self.k,
            self.sparsity,
            self.nnz,
            self.batch,
            name(self.dtype),
        )
    }
}

/// The name of a variant on the command line.
fn name(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_string())
}

/// Every combination of the axes of a comparison.
#[derive(Debug, Clone)]
pub struct Grid {
    pub ops: Vec<Op>,
    pub sizes: Vec<Size>,
    pub sparsities: Vec<f64>,
    pub batches: Vec<usize>,
    pub dtypes: Vec<Precision>,
}

impl Grid {
    /// The problems, ordered so that a matrix is drawn once.
    ///
    /// # Errors
    ///
    /// Returns the text of the error of an impossible shape or sparsity.
    pub fn problems(&self) -> Result<Vec<Problem>, String> {
        let mut problems = Vec::new();
        for &Size([m, k]) in &self.sizes {
            for &sparsity in &self.sparsities {
                let nnz = nnz_for_sparsity([m, k], sparsity).map_err(|error| error.to_string())?;
                for &batch in &self.batches {
                    for &dtype in &self.dtypes {
                        problems.extend(self.ops.iter().map(|&op| Problem {
                            op,
                            m,
                            k,
                            sparsity,
                            nnz,
                            batch,
                            dtype,
                        }));
                    }
                }
            }
        }
        Ok(problems)
    }
}
