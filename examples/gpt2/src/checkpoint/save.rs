use super::{
    HfConfig, MlpMatrix, WeightDtype, WeightFileError,
    names::{COL_INDICES, PREFIX, ROW_OFFSETS, SHAPE, VALUES, mlp_names},
    output_tensor::OutputTensor,
    staging::Staging,
    weight_files::{DENSE_FILE, INDEX_FILE, SPARSE_FILE, SPARSE_FORMAT, SPARSE_VERSION},
};
use crate::{Gpt2, LayerNorm, MlpLinear, error::without_path};
use burn::nn::Linear;
use clap::ValueEnum;
use safetensors::SafeTensorError;
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// The layout of files with weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum WeightFormat {
    /// What transformers loads: dense matrices with zeros where a weight does not exist.
    #[default]
    Hf,
    /// Only the weights that exist: values, row offsets and column indices of every MLP matrix.
    Sparse,
}

impl WeightFormat {
    /// The name of the file with the weights.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Hf => DENSE_FILE,
            Self::Sparse => SPARSE_FILE,
        }
    }
}

/// How a model is written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SaveOptions {
    /// The layout.
    pub format: WeightFormat,
    /// The type of all weights, those of sparse matrices included.
    pub dtype: WeightDtype,
    /// Whether weights that the folder holds may be replaced.
    pub overwrite: bool,
    /// Files to copy beside the weights, such as those of a tokenizer.
    pub companions: Vec<PathBuf>,
}

/// Writes the weights of a model and its `config.json` into a folder.
///
/// Every file is complete and on disk before the first one gets its name, and a failure leaves the folder
/// as it was. Weights of the other layout, which would make the folder ambiguous, go with the old files,
/// and so does an index of shards; the shards themselves stay. Old files that a killed process has put
/// aside come back when this crate next reads from the folder or writes to it.
///
/// # Errors
///
/// [`WeightFileError::FolderNotEmpty`] unless `overwrite` is set; [`WeightFileError::Overflow`] if a
/// weight is too large for the type; [`WeightFileError::Io`], [`WeightFileError::Write`] and
/// [`WeightFileError::NotRestored`].
pub fn save_pretrained(
    model: &Gpt2,
    config: &HfConfig,
    dir: &Path,
    options: &SaveOptions,
) -> Result<(), WeightFileError> {
    let mut staging = Staging::new(dir, options.overwrite)?;
    let name = options.format.file_name();
    staging.add(name, |path, target| {
        write_weights(model, options, path, target)
    })?;
    for companion in &options.companions {
        let name = companion.file_name().unwrap_or_default().to_string_lossy();
        staging.add(&name, |path, _| {
            let copied = fs::copy(companion, path).map(|_| ());
            copied.map_err(WeightFileError::io("copy", companion))
        })?;
    }
    staging.add("config.json", |path, target| {
        let text = config.to_json(options.dtype);
        fs::write(path, text).map_err(WeightFileError::io("write", target))
    })?;
    let layouts = [DENSE_FILE, INDEX_FILE, SPARSE_FILE];
    staging.commit(
        &layouts
            .into_iter()
            .filter(|other| *other != name)
            .collect::<Vec<_>>(),
    )
}

/// Writes the file `path`; errors name it `target`.
fn write_weights(
    model: &Gpt2,
    options: &SaveOptions,
    path: &Path,
    target: &Path,
) -> Result<(), WeightFileError> {
    let tensors = output_tensors(model, options);
    let format = match options.format {
        WeightFormat::Hf => "pt".to_string(),
        WeightFormat::Sparse => format!("{SPARSE_FORMAT}{SPARSE_VERSION}"),
    };
    // One note alone: the order of several would differ from run to run.
    let notes = HashMap::from([("format".to_string(), format)]);
    let overflows: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| (name.clone(), tensor.overflows()))
        .collect();
    safetensors::serialize_to_file(tensors, Some(notes), path).map_err(|error| match error {
        SafeTensorError::IoError(error) => {
            WeightFileError::io("write", target)(without_path(error))
        }
        error => WeightFileError::Write {
            path: target.to_owned(),
            reason: error.to_string(),
        },
    })?;
    match overflows.into_iter().find(|(_, count)| count.get() > 0) {
        None => Ok(()),
        Some((name, count)) => Err(WeightFileError::Overflow {
            name,
            count: count.get(),
            dtype: options.dtype.name(),
        }),
    }
}

/// All tensors of the file. The output head is the token embedding and has none of its own.
fn output_tensors<'a>(model: &'a Gpt2, options: &SaveOptions) -> Vec<(String, OutputTensor<'a>)> {
    let mut list = TensorList {
        dtype: options.dtype,
        tensors: Vec::new(),
    };
    list.push("wte.weight", |dtype| {
        OutputTensor::matrix(&model.wte.weight, dtype)
    });
    list.push("wpe.weight", |dtype| {
        OutputTensor::matrix(&model.wpe.weight, dtype)
    });
    for (index, block) in model.h.iter().enumerate() {
        list.norm(&format!("h.{index}.ln_1"), &block.ln_1);
        list.linear(&format!("h.{index}.attn.c_attn"), &block.attn.c_attn);
        list.linear(&format!("h.{index}.attn.c_proj"), &block.attn.c_proj);
        list.norm(&format!("h.{index}.ln_2"), &block.ln_2);
        let layers = [&block.mlp.c_fc, &block.mlp.c_proj];
        for (name, layer) in mlp_names(index).iter().zip(layers) {
            list.mlp_layer(name, layer, options.format);
        }
    }
    list.norm("ln_f", &model.ln_f);
    list.tensors
}

struct TensorList<'a> {
    dtype: WeightDtype,
    tensors: Vec<(String, OutputTensor<'a>)>,
}

impl<'a> TensorList<'a> {
    fn push(&mut self, name: &str, tensor: impl FnOnce(WeightDtype) -> OutputTensor<'a>) {
        self.tensors
            .push((format!("{PREFIX}{name}"), tensor(self.dtype)));
    }

    fn norm(&mut self, name: &str, norm: &'a LayerNorm) {
        self.push(&format!("{name}.weight"), |dtype| {
            OutputTensor::vector(&norm.gamma, dtype)
        });
        self.push(&format!("{name}.bias"), |dtype| {
            OutputTensor::vector(&norm.beta, dtype)
        });
    }

    fn linear(&mut self, name: &str, layer: &'a Linear) {
        self.push(&format!("{name}.weight"), |dtype| {
            OutputTensor::matrix(&layer.weight, dtype)
        });
        if let Some(bias) = &layer.bias {
            self.push(&format!("{name}.bias"), |dtype| {
                OutputTensor::vector(bias, dtype)
            });
        }
    }

    fn mlp_layer(&mut self, weight: &str, layer: &'a MlpLinear, format: WeightFormat) {
        match (format, layer) {
            (WeightFormat::Hf, _) | (WeightFormat::Sparse, MlpLinear::Dense(_)) => {
                self.push(weight, |dtype| OutputTensor::layer(layer, dtype));
            }
            (WeightFormat::Sparse, _) => self.sparse_matrix(MlpMatrix::of(weight, layer)),
        }
        if let (Some(name), Some(bias)) = (weight.strip_suffix(".weight"), layer.bias()) {
            self.push(&format!("{name}.bias"), |dtype| {
                OutputTensor::vector(bias, dtype)
            });
        }
    }

    fn sparse_matrix(&mut self, matrix: MlpMatrix) {
        let Some((pattern, values)) = matrix.as_sparse() else {
            unreachable!("the matrix of a masked or sparse layer is sparse")
        };
        let part = |part: &str| format!("{}.{part}", matrix.name());
        // Shapes and numbers of non-zeros of a pattern fit into 32 bits.
        let offsets = pattern.row_offsets().iter().map(|&offset| offset as i32);
        let columns = pattern.cols().iter().map(|&column| column as i32);
        let shape = pattern.shape().map(|dim| dim as i32);

        self.push(&part(VALUES), |dtype| {
            OutputTensor::values(values.to_vec(), dtype)
        });
        self.push(&part(ROW_OFFSETS), |_| {
            OutputTensor::integers(offsets.collect())
        });
        self.push(&part(COL_INDICES), |_| {
            OutputTensor::integers(columns.collect())
        });
        self.push(&part(SHAPE), |_| OutputTensor::integers(shape.to_vec()));
    }
}
