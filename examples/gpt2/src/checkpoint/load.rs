use super::{HfConfig, LoadWarning, MagnitudePruning, MlpMatrix, PretrainedSource};
use crate::{ConfigError, Gpt2, Gpt2Config, Gpt2Error, MlpMode};
use burn::tensor::Device;
use std::path::Path;

/// In which storage the MLP matrices are loaded.
///
/// Only `mlp.c_fc` and `mlp.c_proj` of every block are concerned; everything else stays dense.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadOptions {
    /// The storage. If absent: that of the file, or sparse layers if a dense file is pruned.
    ///
    /// Without pruning, masked and sparse layers have the non-zeros of a dense file and the pattern of
    /// a sparse one.
    pub mode: Option<MlpMode>,
    /// Which weights to drop.
    pub pruning: Option<MagnitudePruning>,
    /// All three dropouts; those of the file if absent.
    pub dropout: Option<f64>,
}

/// A model with the weights of files.
#[derive(Debug)]
pub struct Pretrained {
    /// The model.
    pub model: Gpt2,
    /// Its configuration, with the mode and sparsity that it has now.
    pub config: HfConfig,
    /// What was odd about the files.
    pub warnings: Vec<LoadWarning>,
}

/// Loads GPT-2 weights, as [`PretrainedSource::open`] and [`PretrainedSource::load`] do.
///
/// # Errors
///
/// As these two.
pub fn load_pretrained(
    path: &Path,
    options: &LoadOptions,
    device: &Device,
) -> Result<Pretrained, Gpt2Error> {
    PretrainedSource::open(path)?.load(options, device)
}

impl LoadOptions {
    /// The storage of weights whose own is `stored`.
    pub(super) fn resolve(&self, stored: MlpMode) -> Result<MlpMode, ConfigError> {
        let mode = match (self.mode, stored, &self.pruning) {
            (Some(mode), _, _) => mode,
            (None, MlpMode::Dense, Some(_)) => MlpMode::Sparse,
            (None, stored, _) => stored,
        };
        match &self.pruning {
            Some(pruning) if mode == MlpMode::Dense => Err(ConfigError::new(
                "--sparsity",
                pruning.sparsity,
                "left out with --mode dense, where all weights exist",
            )),
            _ => Ok(mode),
        }
    }

    /// Prunes the matrices, and makes `config` say how they are stored.
    pub(super) fn prepare(
        &self,
        matrices: Vec<MlpMatrix>,
        mode: MlpMode,
        config: &mut Gpt2Config,
    ) -> Result<Vec<MlpMatrix>, ConfigError> {
        config.mode = mode;
        if mode == MlpMode::Dense {
            config.sparsity = 0.0;
            return Ok(matrices);
        }
        let matrices = match self.pruning {
            Some(pruning) => pruning.apply(matrices)?,
            None => matrices.into_iter().map(MlpMatrix::into_sparse).collect(),
        };
        config.sparsity = match self.pruning {
            Some(pruning) => pruning.sparsity,
            None => {
                let stored: usize = matrices.iter().map(MlpMatrix::stored).sum();
                1.0 - stored as f64 / config.dense_mlp_weights() as f64
            }
        };
        config.validate()?;
        Ok(matrices)
    }
}
