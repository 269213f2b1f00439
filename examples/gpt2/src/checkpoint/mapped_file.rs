use super::{HeaderFault, WeightFileError};
use memmap2::Mmap;
use safetensors::{
    Dtype, SafeTensors,
    tensor::{Metadata, TensorInfo},
};
use serde_json::Value;
use std::{
    fs::File,
    path::{Path, PathBuf},
};

/// Bytes in which a file says how long its header is.
const LENGTH: usize = 8;
/// Longest header that the safetensors crate reads.
const MAX_HEADER: usize = 100_000_000;

/// A safetensors file mapped into memory. Its header is checked, its data are not read yet.
#[derive(Debug)]
pub(crate) struct MappedFile {
    path: PathBuf,
    map: Mmap,
    metadata: Metadata,
    data_start: usize,
}

/// One tensor of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TensorBytes<'a> {
    pub dtype: Dtype,
    pub shape: &'a [usize],
    pub bytes: &'a [u8],
}

impl MappedFile {
    /// Maps a file and checks its header against the length of the file.
    pub fn open(path: &Path) -> Result<Self, WeightFileError> {
        let file = File::open(path).map_err(WeightFileError::io("read", path))?;
        // SAFETY: the map is only read, as plain bytes of which every value is valid. Should another
        // process shorten the file meanwhile, reading ends this process, as reading a lost disk does;
        // writers of this crate replace files by renaming and leave the mapped one intact.
        let map = unsafe { Mmap::map(&file) }.map_err(WeightFileError::io("read", path))?;
        let (header, metadata) =
            SafeTensors::read_metadata(&map).map_err(|error| WeightFileError::Header {
                path: path.to_owned(),
                fault: find_fault(&map).unwrap_or_else(|| HeaderFault::Other {
                    reason: error.to_string(),
                }),
            })?;
        Ok(Self {
            path: path.to_owned(),
            map,
            metadata,
            data_start: LENGTH + header,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all tensors in the order of their data.
    pub fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }

    /// An entry of the free-form part of the header.
    pub fn note(&self, key: &str) -> Option<&str> {
        let notes = self.metadata.metadata().as_ref()?;
        notes.get(key).map(String::as_str)
    }

    pub fn tensor(&self, name: &str) -> Option<TensorBytes<'_>> {
        let info = self.metadata.info(name)?;
        let (begin, end) = info.data_offsets;
        Some(TensorBytes {
            dtype: info.dtype,
            shape: &info.shape,
            bytes: &self.map[self.data_start + begin..self.data_start + end],
        })
    }
}

/// The first fault of a file that the safetensors crate refuses, with the tensor that it is about.
fn find_fault(file: &[u8]) -> Option<HeaderFault> {
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
