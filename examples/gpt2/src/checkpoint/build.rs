//! From the tensors of files to a model.

use super::{
    LoadWarning, MlpMatrix, WeightFileError,
    names::{self, COL_INDICES, HEAD, ROW_OFFSETS, SHAPE, VALUES},
    weight_files::WeightFiles,
};
use crate::{Attention, Block, Gpt2, Gpt2Config, LayerNorm, Mlp, Precision};
use burn::{
    module::Param,
    nn::{DropoutConfig, Embedding, Linear},
    tensor::{Device, Tensor, TensorData},
};
use snack_burn::prelude::{Pattern, SparseError};
use std::collections::BTreeSet;

const SPARSE_PARTS: [&str; 4] = [VALUES, ROW_OFFSETS, COL_INDICES, SHAPE];

/// Checks that no tensor is missing.
pub(super) fn check_complete(
    files: &WeightFiles,
    config: &Gpt2Config,
) -> Result<(), WeightFileError> {
    let mut needed = names::dense_tensors(config);
    for (name, _) in (0..config.layers).flat_map(|block| names::mlp_matrices(config, block)) {
        let parts = SPARSE_PARTS.map(|part| format!("{name}.{part}"));
        match parts.iter().any(|part| files.has(part)) {
            true => needed.extend(parts),
            false => needed.push(name),
        }
    }
    let names: Vec<String> = needed.into_iter().filter(|name| !files.has(name)).collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(WeightFileError::Missing {
            path: files.path().to_owned(),
            names,
        }),
    }
}

/// Reads the MLP matrices of all blocks, first to last, each in the storage of its file.
pub(super) fn read_matrices(
    files: &WeightFiles,
    config: &Gpt2Config,
    used: &mut BTreeSet<String>,
    warnings: &mut Vec<LoadWarning>,
) -> Result<Vec<MlpMatrix>, WeightFileError> {
    let matrices = (0..config.layers).flat_map(|block| names::mlp_matrices(config, block));
    matrices
        .map(|(name, shape)| {
            if files.has(&name) {
                let weights = files.floats(&name, &shape, warnings)?;
                used.insert(name.clone());
                return Ok(MlpMatrix::dense(name, shape, weights));
            }
            used.extend(SPARSE_PARTS.map(|part| format!("{name}.{part}")));
            read_sparse(files, name, shape, warnings)
        })
        .collect()
}

fn read_sparse(
    files: &WeightFiles,
    name: String,
    [d_input, d_output]: [usize; 2],
    warnings: &mut Vec<LoadWarning>,
) -> Result<MlpMatrix, WeightFileError> {
    let part = |part: &str| format!("{name}.{part}");
    let found = files.integers(&part(SHAPE), &[2])?;
    if found != [d_output as i32, d_input as i32] {
        return Err(WeightFileError::SparseShape {
            path: files.file_of(&part(SHAPE)).to_owned(),
            found,
            expected: [d_output, d_input],
            name,
        });
    }
    let nnz = files.shape(&part(VALUES))?.iter().product();
    let offsets = files.integers(&part(ROW_OFFSETS), &[d_output + 1])?;
    let columns = files.integers(&part(COL_INDICES), &[nnz])?;
    let values = files.floats(&part(VALUES), &[nnz], warnings)?;

    let pattern = natural("row offset", &offsets, nnz + 1)
        .and_then(|offsets| Ok((offsets, natural("column", &columns, d_input)?)))
        .and_then(|(offsets, columns)| {
            let columns = columns.into_iter().map(|column| column as u32).collect();
            Pattern::from_offsets([d_output, d_input], offsets, columns)
        });
    match pattern {
        Ok(pattern) => Ok(MlpMatrix::sparse(name, pattern, values)),
        Err(source) => Err(WeightFileError::Coordinates {
            path: files.file_of(&part(COL_INDICES)).to_owned(),
            name,
            source,
        }),
    }
}

fn natural(axis: &'static str, list: &[i32], size: usize) -> Result<Vec<usize>, SparseError> {
    let numbers = list.iter().enumerate();
    numbers
        .map(|(position, &index)| {
            usize::try_from(index).map_err(|_| SparseError::NegativeIndex {
                axis,
                position,
                index: index.into(),
                size,
            })
        })
        .collect()
}

/// Builds the model of `config` from its MLP matrices and all other tensors.
pub(super) fn build_model(
    files: &WeightFiles,
    config: &Gpt2Config,
    matrices: Vec<MlpMatrix>,
    used: &mut BTreeSet<String>,
    warnings: &mut Vec<LoadWarning>,
    device: &Device,
) -> Result<Gpt2, WeightFileError> {
    let mut reader = ParamReader {
        files,
        used,
        warnings,
        device,
    };
    let (width, inner) = (config.width, config.inner());
    let mut matrices = matrices.into_iter();
    let mut next = || matrices.next().expect("a block has two matrices");

    let wte = reader.param("wte.weight", [config.vocabulary, width])?;
    let wpe = reader.param("wpe.weight", [config.context, width])?;
    let mut h = Vec::with_capacity(config.layers);
    for index in 0..config.layers {
        let name = |part: &str| format!("h.{index}.{part}");
        let ln_1 = reader.norm(&name("ln_1"), config)?;
        let c_attn = reader.linear(&name("attn.c_attn"), [width, 3 * width])?;
        let c_proj = reader.linear(&name("attn.c_proj"), [width, width])?;
        let attn = Attention::from_layers(config, c_attn, c_proj);
        let ln_2 = reader.norm(&name("ln_2"), config)?;
        let bias = reader.param(&name("mlp.c_fc.bias"), [inner])?;
        let c_fc = next().into_layer(config.mode, bias, device);
        let bias = reader.param(&name("mlp.c_proj.bias"), [width])?;
        let c_proj = next().into_layer(config.mode, bias, device);
        h.push(Block {
            ln_1,
            attn,
            ln_2,
            mlp: Mlp::from_layers(config, c_fc, c_proj),
        });
    }
    Ok(Gpt2 {
        wte: Embedding { weight: wte },
        wpe: Embedding { weight: wpe },
        dropout: DropoutConfig::new(config.dropout).init(),
        h,
        ln_f: reader.norm("ln_f", config)?,
        precision: Precision::default(),
    })
}

/// Checks that the output head, where a file has one, is the token embedding.
pub(super) fn check_head(
    files: &WeightFiles,
    config: &Gpt2Config,
    used: &mut BTreeSet<String>,
) -> Result<(), WeightFileError> {
    if !files.has(HEAD) {
        return Ok(());
    }
    used.insert(HEAD.into());
    // Odd weights are reported once, under the name of the embedding.
    let mut ignored = Vec::new();
    let shape = [config.vocabulary, config.width];
    let head = files.floats(HEAD, &shape, &mut ignored)?;
    let embedding = files.floats("wte.weight", &shape, &mut ignored)?;
    let pairs = head.iter().zip(&embedding);
    match pairs.filter(|(a, b)| a.to_bits() != b.to_bits()).count() {
        0 => Ok(()),
        count => Err(WeightFileError::UntiedHead {
            path: files.file_of(HEAD).to_owned(),
            differences: format!("in {count} of {} elements", head.len()),
        }),
    }
}

struct ParamReader<'a> {
    files: &'a WeightFiles,
    used: &'a mut BTreeSet<String>,
    warnings: &'a mut Vec<LoadWarning>,
    device: &'a Device,
}

impl ParamReader<'_> {
    fn param<const D: usize>(
        &mut self,
        name: &str,
        shape: [usize; D],
    ) -> Result<Param<Tensor<D>>, WeightFileError> {
        let values = self.files.floats(name, &shape, self.warnings)?;
        self.used.insert(name.to_owned());
        Ok(Param::from_data(
            TensorData::new(values, shape),
            self.device,
        ))
    }

    /// A layer `[d_input, d_output]`: Hugging Face's `Conv1D` and Burn's `Linear` agree.
    fn linear(
        &mut self,
        name: &str,
        [d_input, d_output]: [usize; 2],
    ) -> Result<Linear, WeightFileError> {
        Ok(Linear {
            weight: self.param(&format!("{name}.weight"), [d_input, d_output])?,
            bias: Some(self.param(&format!("{name}.bias"), [d_output])?),
        })
    }

    fn norm(&mut self, name: &str, config: &Gpt2Config) -> Result<LayerNorm, WeightFileError> {
        Ok(LayerNorm::from_parameters(
            self.param(&format!("{name}.weight"), [config.width])?,
            self.param(&format!("{name}.bias"), [config.width])?,
            config.epsilon,
        ))
    }
}
