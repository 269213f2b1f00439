use super::{
    HeaderFault, WeightFileError,
    header_fault::{LENGTH, find_fault},
};
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors, tensor::Metadata};
use std::{
    fs::File,
    path::{Path, PathBuf},
};

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
