//! Loading records whose layers have another number of non-zeros.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Module;
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::{DType, TensorData};
use burn_pack::Reader;

use super::sparse_layers::{NewWeights, SparseLayer, replace_weights, sparse_layers};
use crate::error::SparseError;
use crate::tensor::{HostIndex, decode};

/// Why a record could not be loaded into a module with sparse layers.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SparseRecordError {
    /// Reading, or anything about the dense part of the record.
    #[error("{0}")]
    Record(RecordError),
    /// The record has no pattern for a sparse layer of the module.
    #[error("the record has no tensor `{path}`, which a sparse layer of the module needs")]
    Missing {
        /// Path of the missing tensor.
        path: String,
    },
    /// A recorded pattern breaks an invariant.
    #[error("the record's `{path}` is not a valid pattern: {source}")]
    InvalidPattern {
        /// Path of the tensor.
        path: String,
        /// The first broken invariant.
        source: SparseError,
    },
    /// A recorded tensor has a type that its content cannot have.
    #[error("the record's `{path}` holds {found:?} numbers, expected {expected}")]
    DataType {
        /// Path of the tensor.
        path: String,
        /// The kind of numbers that the tensor needs.
        expected: &'static str,
        /// Type in the record.
        found: DType,
    },
    /// A recorded tensor does not fit the layer.
    #[error("the record's `{path}` has shape {found:?}, the module expects {expected:?}")]
    Shape {
        /// Path of the tensor.
        path: String,
        /// Shape that the module or the recorded pattern implies.
        expected: Vec<usize>,
        /// Shape in the record.
        found: Vec<usize>,
    },
}

impl From<RecordError> for SparseRecordError {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}

impl From<burn_pack::Error> for SparseRecordError {
    fn from(error: burn_pack::Error) -> Self {
        Self::Record(error.into())
    }
}

/// Loading of modules that contain [`SparseLinear`](crate::nn::SparseLinear) layers.
///
/// Burn matches recorded parameters one by one by shape, so its own `load_record` accepts a sparse
/// layer only with as many non-zeros as the module has. These methods first give every sparse
/// layer the recorded pattern, then load the rest as usual. Nothing is loaded unless everything
/// fits.
pub trait SparseModule: Module {
    /// Applies a record, whatever its numbers of non-zeros.
    ///
    /// # Errors
    ///
    /// Returns an error that names the tensor if a sparse layer's pattern or values are missing,
    /// invalid or of another shape, and Burn's error for everything else.
    fn try_load_sparse_record(self, record: ModuleRecord) -> Result<Self, SparseRecordError> {
        let reader = Reader::from_bytes(record.clone().into_bytes()?)?;
        let weights = recorded_weights(&sparse_layers(&self), reader)?;
        Ok(replace_weights(self, weights).try_load_record(record)?)
    }

    /// As [`try_load_sparse_record`](SparseModule::try_load_sparse_record).
    ///
    /// # Panics
    ///
    /// Panics if the record does not fit.
    fn load_sparse_record(self, record: ModuleRecord) -> Self {
        self.try_load_sparse_record(record)
            .unwrap_or_else(|error| panic!("Failed to load record: {error}"))
    }

    /// Loads a record file, whatever its numbers of non-zeros.
    ///
    /// # Errors
    ///
    /// As [`try_load_sparse_record`](SparseModule::try_load_sparse_record), and if the file
    /// cannot be read.
    fn try_load_sparse_file<P: AsRef<Path>>(self, path: P) -> Result<Self, SparseRecordError> {
        self.try_load_sparse_record(ModuleRecord::load(path)?)
    }
}

impl<M: Module> SparseModule for M {}

/// The recorded pattern and values of every sparse layer, by path of the layer.
fn recorded_weights(
    layers: &[SparseLayer],
    reader: Reader,
) -> Result<BTreeMap<String, NewWeights>, SparseRecordError> {
    let mut recorded = BTreeMap::new();
    for tensor in reader.into_tensors()? {
        let (name, dtype, shape, _, bytes) = tensor.into_parts()?;
        recorded.insert(name, TensorData::from_bytes(bytes, shape, dtype));
    }
    let mut take = |layer: &str, field: &str| {
        let path = match layer {
            "" => field.to_string(),
            _ => format!("{layer}.{field}"),
        };
        match recorded.remove(&path) {
            Some(data) => Ok((path, data)),
            None => Err(SparseRecordError::Missing { path }),
        }
    };
    let mut weights = BTreeMap::new();
    for layer in layers {
        let (path, data) = take(&layer.name, "pattern")?;
        let found = data.dtype();
        if !(found.is_int() || found.is_uint()) {
            let expected = "integer";
            return Err(SparseRecordError::DataType {
                path,
                expected,
                found,
            });
        }
        let pattern = decode(data).map_err(|source| SparseRecordError::InvalidPattern {
            path: path.clone(),
            source,
        })?;
        if pattern.shape() != layer.pattern.shape() {
            return Err(SparseRecordError::Shape {
                path,
                expected: layer.pattern.shape().to_vec(),
                found: pattern.shape().to_vec(),
            });
        }
        let (path, values) = take(&layer.name, "values")?;
        let found = values.dtype();
        if !found.is_float() {
            let expected = "float";
            return Err(SparseRecordError::DataType {
                path,
                expected,
                found,
            });
        }
        if values.shape().as_slice() != [pattern.nnz()] {
            return Err(SparseRecordError::Shape {
                path,
                expected: vec![pattern.nnz()],
                found: values.shape().to_vec(),
            });
        }
        weights.insert(
            layer.name.clone(),
            NewWeights {
                pattern: pattern.into(),
                values,
                index: HostIndex::default(),
            },
        );
    }
    Ok(weights)
}
