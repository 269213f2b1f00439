use super::{
    LoadWarning, WeightFileError,
    mapped_file::{MappedFile, TensorBytes},
    names::{PREFIX, is_mask_buffer},
};
use half::{bf16, f16};
use safetensors::Dtype;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Component, Path, PathBuf},
};

/// The weights in the layout of Hugging Face.
pub(crate) const DENSE_FILE: &str = "model.safetensors";
/// Which of several files holds which tensor.
pub(crate) const INDEX_FILE: &str = "model.safetensors.index.json";
/// The weights in the sparse layout.
pub(crate) const SPARSE_FILE: &str = "model.sparse.safetensors";
/// What the header of the sparse layout says under `format`, before the version.
pub(crate) const SPARSE_FORMAT: &str = "gpt2-sparse-csr-";
pub(crate) const SPARSE_VERSION: &str = "v1";

/// The files that hold the tensors of one model.
#[derive(Debug)]
pub(crate) struct WeightFiles {
    /// The one file, or the index of several.
    path: PathBuf,
    files: Vec<MappedFile>,
    /// File and name in it of every tensor, by name without prefix.
    places: BTreeMap<String, (usize, String)>,
}

impl WeightFiles {
    /// Finds and maps the files of a folder, or the one file or index that is named.
    pub fn open(path: &Path) -> Result<Self, WeightFileError> {
        let path = locate(path)?;
        let (files, places) = match is_index(&path) {
            true => open_shards(&path)?,
            false => {
                let file = MappedFile::open(&path)?;
                check_version(&file)?;
                let names = file.names();
                (
                    vec![file],
                    names.into_iter().map(|name| (0, name)).collect(),
                )
            }
        };
        let mut files = Self {
            path,
            files,
            places: BTreeMap::new(),
        };
        for (index, stored) in places {
            files.add(index, stored)?;
        }
        Ok(files)
    }

    /// The one file, or the index of several.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The `config.json` that belongs to the weights.
    pub fn config_path(&self) -> PathBuf {
        self.path.with_file_name("config.json")
    }

    /// Whether there is a tensor of this name, which is without prefix.
    pub fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// The file that holds a tensor.
    pub fn file_of(&self, name: &str) -> &Path {
        match self.places.get(name) {
            Some((file, _)) => self.files[*file].path(),
            None => &self.path,
        }
    }

    /// Names of all tensors that are neither `used` nor masks of the attention.
    pub fn unused(&self, used: &BTreeSet<String>) -> Vec<String> {
        let names = self.places.keys();
        names
            .filter(|name| !used.contains(*name) && !is_mask_buffer(name))
            .cloned()
            .collect()
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Result<Vec<usize>, WeightFileError> {
        Ok(self.find(name)?.shape.to_vec())
    }

    /// The numbers of a tensor, F32, F16 or BF16 in the file; counts those that are not finite.
    pub fn floats(
        &self,
        name: &str,
        shape: &[usize],
        warnings: &mut Vec<LoadWarning>,
    ) -> Result<Vec<f32>, WeightFileError> {
        let tensor = self.find_shaped(name, shape)?;
        let values: Vec<f32> = match tensor.dtype {
            Dtype::F32 => words(tensor.bytes).map(f32::from_le_bytes).collect(),
            Dtype::F16 => {
                let halves = words(tensor.bytes).map(f16::from_le_bytes);
                halves.map(f16::to_f32).collect()
            }
            Dtype::BF16 => {
                let halves = words(tensor.bytes).map(bf16::from_le_bytes);
                halves.map(bf16::to_f32).collect()
            }
            found => return Err(self.data_type(name, found, "F32, F16 or BF16")),
        };
        let count = values.iter().filter(|value| !value.is_finite()).count();
        if count > 0 {
            warnings.push(LoadWarning::NonFinite {
                path: self.file_of(name).to_owned(),
                name: name.to_owned(),
                count,
                total: values.len(),
            });
        }
        Ok(values)
    }

    /// The numbers of an I32 tensor.
    pub fn integers(&self, name: &str, shape: &[usize]) -> Result<Vec<i32>, WeightFileError> {
        let tensor = self.find_shaped(name, shape)?;
        match tensor.dtype {
            Dtype::I32 => Ok(words(tensor.bytes).map(i32::from_le_bytes).collect()),
            found => Err(self.data_type(name, found, "I32")),
        }
    }

    fn find(&self, name: &str) -> Result<TensorBytes<'_>, WeightFileError> {
        let place = self.places.get(name);
        place
            .and_then(|(file, stored)| self.files[*file].tensor(stored))
            .ok_or_else(|| WeightFileError::Missing {
                path: self.path.clone(),
                names: vec![name.to_owned()],
            })
    }

    fn find_shaped(&self, name: &str, shape: &[usize]) -> Result<TensorBytes<'_>, WeightFileError> {
        let tensor = self.find(name)?;
        if tensor.shape != shape {
            return Err(WeightFileError::Shape {
                path: self.file_of(name).to_owned(),
                name: name.to_owned(),
                found: tensor.shape.to_vec(),
                expected: shape.to_vec(),
            });
        }
        Ok(tensor)
    }

    fn data_type(&self, name: &str, found: Dtype, allowed: &'static str) -> WeightFileError {
        WeightFileError::DataType {
            path: self.file_of(name).to_owned(),
            name: name.to_owned(),
            found,
            allowed,
        }
    }

    fn add(&mut self, file: usize, stored: String) -> Result<(), WeightFileError> {
        let name = stored.strip_prefix(PREFIX).unwrap_or(&stored).to_owned();
        match self.places.insert(name.clone(), (file, stored)) {
            None => Ok(()),
            Some((earlier, _)) => Err(WeightFileError::Repeated {
                name,
                first: self.files[earlier].path().to_owned(),
                second: self.files[file].path().to_owned(),
            }),
        }
    }
}

/// Little-endian numbers of `N` bytes.
fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    let (words, _) = bytes.as_chunks::<N>();
    words.iter().copied()
}

fn is_index(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "json")
}

/// The file of a folder that holds the weights, or the index of several.
fn locate(path: &Path) -> Result<PathBuf, WeightFileError> {
    let found = fs::metadata(path).map_err(WeightFileError::io("read", path))?;
    if found.is_file() {
        return Ok(path.to_owned());
    }
    let present = |name: &&str| path.join(name).is_file();
    // Transformers, too, prefers the single file to the index.
    let dense = [DENSE_FILE, INDEX_FILE].into_iter().find(present);
    let sparse = [SPARSE_FILE].into_iter().find(present);
    match (dense, sparse) {
        (Some(name), None) | (None, Some(name)) => Ok(path.join(name)),
        (Some(dense), Some(sparse)) => Err(WeightFileError::Ambiguous {
            dir: path.to_owned(),
            found: format!("{dense} and {sparse}"),
        }),
        (None, None) => {
            let hint = match present(&"pytorch_model.bin") {
                true => {
                    "; its pytorch_model.bin is not read: save it as safetensors with transformers"
                }
                false => "",
            };
            Err(WeightFileError::NoWeights {
                dir: path.to_owned(),
                looked_for: [DENSE_FILE, INDEX_FILE, SPARSE_FILE].join(", "),
                hint: hint.to_owned(),
            })
        }
    }
}

fn check_version(file: &MappedFile) -> Result<(), WeightFileError> {
    let format = file.note("format").unwrap_or_default();
    match format.strip_prefix(SPARSE_FORMAT) {
        None | Some(SPARSE_VERSION) => Ok(()),
        Some(version) => Err(WeightFileError::LayoutVersion {
            path: file.path().to_owned(),
            found: version.to_owned(),
            allowed: SPARSE_VERSION,
        }),
    }
}

/// The part of an index that says where the tensors are.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

type Places = Vec<(usize, String)>;

fn open_shards(index_path: &Path) -> Result<(Vec<MappedFile>, Places), WeightFileError> {
    let unusable = |reason: String| WeightFileError::Json {
        path: index_path.to_owned(),
        reason,
    };
    let text = fs::read_to_string(index_path).map_err(WeightFileError::io("read", index_path))?;
    let index: Index = serde_json::from_str(&text)
        .map_err(|error| unusable(format!("it is no index of safetensors files: {error}")))?;
    let mut files = Vec::new();
    let mut numbers = HashMap::new();
    let mut places = Vec::with_capacity(index.weight_map.len());
    for (tensor, shard) in index.weight_map {
        let mut parts = Path::new(&shard).components();
        if !matches!(
            (parts.next(), parts.next()),
            (Some(Component::Normal(_)), None)
        ) {
            return Err(unusable(format!(
                "the file of {tensor} is {shard:?}, but must be a name without a folder"
            )));
        }
        let number = match numbers.get(&shard) {
            Some(&number) => number,
            None => {
                files.push(MappedFile::open(&index_path.with_file_name(&shard))?);
                numbers.insert(shard.clone(), files.len() - 1);
                files.len() - 1
            }
        };
        if files[number].tensor(&tensor).is_none() {
            return Err(unusable(format!(
                "{tensor} is not in {shard}, where it should be"
            )));
        }
        places.push((number, tensor));
    }
    Ok((files, places))
}
