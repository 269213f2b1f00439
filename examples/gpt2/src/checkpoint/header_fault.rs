use example_support::counted;
use safetensors::{Dtype, tensor::TensorInfo};
use serde_json::Value;
use thiserror::Error;

/// Bytes in which a file says how long its header is.
pub(crate) const LENGTH: usize = 8;
/// Longest header that the safetensors crate reads.
const MAX_HEADER: usize = 100_000_000;

/// What is wrong with the header of a safetensors file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HeaderFault {
    /// Not even the length of the header is there.
    #[error("it has {}, but must have at least 8", counted(*found, "byte"))]
    TooShort {
        /// Length of the file.
        found: usize,
    },
    /// The header cannot be as long as the file says.
    #[error("its header is {length} bytes long, but must have at most {available}")]
    Length {
        /// The length in the file.
        length: u64,
        /// The bytes that a header of this file may have.
        available: usize,
    },
    /// The header is not the JSON object that it must be.
    #[error("its header is no JSON object of tensors: {reason}")]
    Json {
        /// What the parser says.
        reason: String,
    },
    /// A tensor has no usable entry.
    #[error("the {field} of the tensor {tensor} is {found}, but must be {allowed}")]
    Entry {
        /// The tensor.
        tensor: String,
        /// `dtype`, `shape` or `data_offsets`.
        field: &'static str,
        /// The value in the file.
        found: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A tensor does not lie inside the file.
    #[error(
        "the tensor {tensor} takes bytes {begin} to {end} of the data, but there are only \
         {available}: the file is truncated or its offsets are wrong"
    )]
    OutOfRange {
        /// The tensor.
        tensor: String,
        /// First byte.
        begin: usize,
        /// Byte after the last.
        end: usize,
        /// Bytes of data in the file.
        available: usize,
    },
    /// Two tensors share bytes.
    #[error("the tensor {tensor} starts at byte {begin}, but {previous} before it ends at {end}")]
    Overlap {
        /// The tensor.
        tensor: String,
        /// Its first byte.
        begin: usize,
        /// The tensor before it.
        previous: String,
        /// Byte after the last of that tensor.
        end: usize,
    },
    /// Bytes belong to no tensor.
    #[error("bytes {begin} to {end} of the data belong to no tensor")]
    Gap {
        /// First byte.
        begin: usize,
        /// Byte after the last.
        end: usize,
    },
    /// A tensor has more or fewer bytes than its shape says.
    #[error(
        "the tensor {tensor} has {}, but {dtype:?} of shape {shape:?} needs {needed}",
        counted(*found, "byte")
    )]
    Size {
        /// The tensor.
        tensor: String,
        /// Its bytes.
        found: usize,
        /// Its type.
        dtype: Dtype,
        /// Its shape.
        shape: Vec<usize>,
        /// The bytes that it needs; `too many` if they cannot be counted.
        needed: String,
    },
    /// The parser refuses it for a reason of its own.
    #[error("{reason}")]
    Other {
        /// What the parser says.
        reason: String,
    },
}

/// The first fault of a file that the safetensors crate refuses, with the tensor that it is about.
pub(crate) fn find_fault(file: &[u8]) -> Option<HeaderFault> {
    let Some((length, rest)) = file.split_first_chunk::<LENGTH>() else {
        return Some(HeaderFault::TooShort { found: file.len() });
    };
    let length = u64::from_le_bytes(*length);
    let available = rest.len().min(MAX_HEADER);
    let split = match usize::try_from(length) {
        Ok(length) if length <= available => length,
        _ => return Some(HeaderFault::Length { length, available }),
    };
    let (header, data) = rest.split_at(split);
    let header: serde_json::Map<String, Value> = match serde_json::from_slice(header) {
        Ok(header) => header,
        Err(error) => {
            let reason = error.to_string();
            return Some(HeaderFault::Json { reason });
        }
    };
    let entries = header
        .into_iter()
        .filter(|(name, _)| name != "__metadata__")
        .map(|(name, value)| Ok((parse_entry(&name, &value)?, name)))
        .collect::<Result<Vec<_>, _>>();
    match entries {
        Ok(entries) => find_misplaced(entries, data.len()),
        Err(fault) => Some(fault),
    }
}

fn parse_entry(tensor: &str, value: &Value) -> Result<TensorInfo, HeaderFault> {
    fn field<T: serde::de::DeserializeOwned>(
        tensor: &str,
        value: &Value,
        field: &'static str,
        allowed: &'static str,
    ) -> Result<T, HeaderFault> {
        let found = value.get(field).cloned().unwrap_or_default();
        serde_json::from_value::<T>(found.clone()).map_err(|_| HeaderFault::Entry {
            tensor: tensor.to_owned(),
            field,
            found: match found {
                Value::Null => "missing".into(),
                found => found.to_string(),
            },
            allowed,
        })
    }
    Ok(TensorInfo {
        dtype: field(tensor, value, "dtype", "a type such as F32, F16 or BF16")?,
        shape: field(tensor, value, "shape", "a list of natural numbers")?,
        data_offsets: field(tensor, value, "data_offsets", "two natural numbers")?,
    })
}

/// Checks that the tensors follow each other from the first byte of the data to the last.
fn find_misplaced(mut entries: Vec<(TensorInfo, String)>, data: usize) -> Option<HeaderFault> {
    entries.sort_by_key(|(info, _)| info.data_offsets);
    let mut previous: Option<(usize, String)> = None;
    for (info, tensor) in entries {
        let (begin, end) = info.data_offsets;
        let last_end = previous.as_ref().map_or(0, |(end, _)| *end);
        if end < begin || end > data {
            let available = data;
            return Some(HeaderFault::OutOfRange {
                tensor,
                begin,
                end,
                available,
            });
        }
        if let Some((end, previous)) = previous.filter(|(end, _)| begin < *end) {
            return Some(HeaderFault::Overlap {
                tensor,
                begin,
                previous,
                end,
            });
        }
        if begin > last_end {
            let (begin, end) = (last_end, begin);
            return Some(HeaderFault::Gap { begin, end });
        }
        let elements = info
            .shape
            .iter()
            .try_fold(1usize, |n, &dim| n.checked_mul(dim));
        let needed = elements
            .and_then(|elements| elements.checked_mul(info.dtype.bitsize()))
            .map(|bits| bits.div_ceil(8));
        if needed != Some(end - begin) {
            return Some(HeaderFault::Size {
                tensor,
                found: end - begin,
                dtype: info.dtype,
                shape: info.shape,
                needed: needed.map_or("too many".into(), |needed| needed.to_string()),
            });
        }
        previous = Some((end, tensor));
    }
    let (begin, end) = (previous.map_or(0, |(end, _)| end), data);
    (begin < end).then_some(HeaderFault::Gap { begin, end })
}
