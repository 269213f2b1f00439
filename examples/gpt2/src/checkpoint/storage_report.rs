use super::{HfConfig, MlpMatrix, WeightDtype};
use crate::Gpt2;
use core::fmt;
use example_support::grouped;
use serde::Serialize;

/// Bytes of one index in a file.
const INDEX: usize = 4;

/// What the MLP matrices of a model take in a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StorageReport {
    /// Name of the number type of the weights.
    pub dtype: &'static str,
    /// The MLP matrices, first to last.
    pub matrices: Vec<MatrixStorage>,
    /// All MLP matrices together.
    pub total: MatrixStorage,
    /// Number of all other parameters, which are always dense.
    pub other_parameters: usize,
    /// Their bytes.
    pub other_bytes: usize,
}

/// What one matrix takes in a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatrixStorage {
    /// Name of the weight.
    pub name: String,
    /// `[d_output, d_input]`; absent for the sum of several.
    pub shape: Option<[usize; 2]>,
    /// Number of elements of the dense matrix.
    pub size: usize,
    /// Weights that exist; of a dense matrix those that are not zero.
    pub nnz: usize,
    /// `nnz / size`.
    pub density: f64,
    /// Bytes of the values in the sparse layout.
    pub value_bytes: usize,
    /// Bytes of row offsets, column indices and shape in the sparse layout.
    pub index_bytes: usize,
    /// Bytes of the matrix in the dense layout.
    pub dense_bytes: usize,
}

impl StorageReport {
    /// Measures a model whose weights are written as `dtype`.
    pub fn new(model: &Gpt2, config: &HfConfig, dtype: WeightDtype) -> Self {
        let matrices: Vec<_> = MlpMatrix::of_model(model)
            .into_iter()
            .map(|matrix| MatrixStorage::new(matrix, dtype))
            .collect();
        let config = &config.model;
        let other_parameters = config.dense_parameter_count() - config.dense_mlp_weights();
        Self {
            dtype: dtype.name(),
            total: MatrixStorage::sum(&matrices),
            matrices,
            other_parameters,
            other_bytes: other_parameters * dtype.bytes(),
        }
    }
}

impl MatrixStorage {
    fn new(matrix: MlpMatrix, dtype: WeightDtype) -> Self {
        let (shape, size) = (matrix.shape(), matrix.size());
        let matrix = matrix.into_sparse();
        let nnz = matrix.stored();
        Self {
            name: matrix.name().to_owned(),
            shape: Some(shape),
            size,
            nnz,
            density: nnz as f64 / size as f64,
            value_bytes: nnz * dtype.bytes(),
            index_bytes: INDEX * (nnz + shape[0] + 1 + shape.len()),
            dense_bytes: size * dtype.bytes(),
        }
    }

    fn sum(matrices: &[Self]) -> Self {
        let sum = |bytes: fn(&Self) -> usize| matrices.iter().map(bytes).sum();
        let (size, nnz): (usize, usize) = (sum(|m| m.size), sum(|m| m.nnz));
        Self {
            name: "all MLP matrices".into(),
            shape: None,
            size,
            nnz,
            density: nnz as f64 / size as f64,
            value_bytes: sum(|m| m.value_bytes),
            index_bytes: sum(|m| m.index_bytes),
            dense_bytes: sum(|m| m.dense_bytes),
        }
    }
}

impl fmt::Display for StorageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<24}{:>14}{:>14}{:>9}{:>15}{:>15}{:>15}",
            format!("weights as {}", self.dtype),
            "[out, in]",
            "non-zeros",
            "density",
            "value bytes",
            "index bytes",
            "dense bytes"
        )?;
        for matrix in self.matrices.iter().chain([&self.total]) {
            writeln!(f, "{matrix}")?;
        }
        write!(
            f,
            "{:<24}{:>14}{:>14}{:>9}{:>15}{:>15}{:>15}",
            "everything else",
            "",
            grouped(self.other_parameters as u64),
            "1.0000",
            "",
            "",
            grouped(self.other_bytes as u64)
        )
    }
}

impl fmt::Display for MatrixStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = self.shape.map_or(String::new(), |[rows, columns]| {
            format!("{rows} x {columns}")
        });
        let number = |value: usize| grouped(value as u64);
        write!(
            f,
            "{:<24}{shape:>14}{:>14}{:>9.4}{:>15}{:>15}{:>15}",
            self.name,
            number(self.nnz),
            self.density,
            number(self.value_bytes),
            number(self.index_bytes),
            number(self.dense_bytes)
        )
    }
}
