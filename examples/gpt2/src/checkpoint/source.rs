use super::{
    HfConfig, LoadOptions, LoadWarning, MlpMatrix, Pretrained, WeightFileError,
    build::{build_model, check_complete, check_head, read_matrices},
    names,
    temporary_folder::restore,
    weight_files::{DENSE_FILE, INDEX_FILE, SPARSE_FILE, WeightFiles},
};
use crate::{Gpt2, Gpt2Error, MlpMode, RunDir, RunState, restore_model};
use burn::tensor::Device;
use snack_burn::prelude::Checkpoint;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Where the weights of a model come from; opened, but not read yet.
#[derive(Debug)]
pub struct PretrainedSource {
    config: HfConfig,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Safetensors files in the dense or in the sparse layout.
    Files(WeightFiles),
    /// A run of this example.
    Run {
        path: PathBuf,
        checkpoint: Checkpoint,
        options: Box<crate::TrainOptions>,
    },
}

impl PretrainedSource {
    /// Opens weights: a folder with `config.json` and `model.safetensors`, its index of several
    /// files or `model.sparse.safetensors`; one of these files; or a run of this example, by its
    /// folder or its `checkpoint.bpk`.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::WeightFile`] if the files are missing, damaged or of a model that this crate
    /// does not have; [`Gpt2Error::Checkpoint`] and [`Gpt2Error::ForeignCheckpoint`] for runs.
    pub fn open(path: &Path) -> Result<Self, Gpt2Error> {
        if let Some(checkpoint) = find_run(path)? {
            return Self::open_run(checkpoint);
        }
        let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        restore(match path.is_dir() {
            true => path,
            false => parent.unwrap_or(Path::new(".")),
        })?;
        let files = WeightFiles::open(path)?;
        let config = HfConfig::read(&files.config_path())?;
        check_complete(&files, &config.model)?;
        Ok(Self {
            config,
            kind: Kind::Files(files),
        })
    }

    fn open_run(path: PathBuf) -> Result<Self, Gpt2Error> {
        let checkpoint = Checkpoint::load(&path)?;
        let options = Box::new(RunState::from_value(&checkpoint.user, &path)?.options);
        Ok(Self {
            config: HfConfig::new(options.model.clone()),
            kind: Kind::Run {
                path,
                checkpoint,
                options,
            },
        })
    }

    /// The configuration of the model. Its mode is that of a run, and dense for files.
    pub fn config(&self) -> &HfConfig {
        &self.config
    }

    /// Whether the MLP matrices are sparse already.
    pub fn is_sparse(&self) -> bool {
        self.stored_mode() != MlpMode::Dense
    }

    /// The folder with the files.
    pub fn dir(&self) -> &Path {
        let path = match &self.kind {
            Kind::Files(files) => files.path(),
            Kind::Run { path, .. } => path,
        };
        path.parent().unwrap_or(Path::new("."))
    }

    /// Reads the weights into a model on `device`.
    ///
    /// Pruning happens on the host: with sparse layers, no dense MLP matrix reaches the device.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::Config`] if the options do not fit each other or the weights;
    /// [`Gpt2Error::WeightFile`] for a tensor of another shape or type;
    /// [`Gpt2Error::ForeignCheckpoint`] if a run's record does not fit its own options.
    pub fn load(mut self, options: &LoadOptions, device: &Device) -> Result<Pretrained, Gpt2Error> {
        let stored = self.stored_mode();
        let mode = options.resolve(stored)?;
        if options.dropout.is_some() {
            self.config.model.attention_dropout = None;
            self.config.model.residual_dropout = None;
        }
        self.config.model.dropout = options.dropout.unwrap_or(self.config.model.dropout);
        match self.kind {
            Kind::Files(files) => load_files(&files, self.config, mode, options, device),
            Kind::Run {
                path,
                checkpoint,
                options: mut run,
            } => {
                run.model = self.config.model.clone();
                let model = restore_model(&run, checkpoint.model, device, &path)?;
                match mode == stored && options.pruning.is_none() {
                    true => Ok(Pretrained {
                        model,
                        config: self.config,
                        warnings: Vec::new(),
                    }),
                    false => convert_layers(model, self.config, mode, options, device),
                }
            }
        }
    }

    fn stored_mode(&self) -> MlpMode {
        match &self.kind {
            Kind::Run { options, .. } => options.model.mode,
            Kind::Files(files) => {
                let mut matrices = (0..self.config.model.layers)
                    .flat_map(|block| names::mlp_matrices(&self.config.model, block));
                match matrices.any(|(name, _)| !files.has(&name)) {
                    true => MlpMode::Sparse,
                    false => MlpMode::Dense,
                }
            }
        }
    }
}

/// The checkpoint of a run, if `path` is one or a folder with one.
fn find_run(path: &Path) -> Result<Option<PathBuf>, WeightFileError> {
    if path.extension().is_some_and(|extension| extension == "bpk") {
        return Ok(Some(path.to_owned()));
    }
    let Ok(run) = RunDir::open(path) else {
        return Ok(None);
    };
    let mut weights = [DENSE_FILE, INDEX_FILE, SPARSE_FILE].into_iter();
    match weights.find(|name| path.join(name).is_file()) {
        Some(name) => Err(WeightFileError::Ambiguous {
            dir: path.to_owned(),
            found: format!("checkpoint.bpk and {name}"),
        }),
        None => Ok(Some(run.checkpoint())),
    }
}

fn load_files(
    files: &WeightFiles,
    mut config: HfConfig,
    mode: MlpMode,
    options: &LoadOptions,
    device: &Device,
) -> Result<Pretrained, Gpt2Error> {
    let mut warnings = Vec::new();
    let mut used = BTreeSet::new();
    let matrices = read_matrices(files, &config.model, &mut used, &mut warnings)?;
    let matrices = options.prepare(matrices, mode, &mut config.model)?;
    let model = build_model(
        files,
        &config.model,
        matrices,
        &mut used,
        &mut warnings,
        device,
    )?;
    check_head(files, &config.model, &mut used)?;
    let names = files.unused(&used);
    if !names.is_empty() {
        warnings.push(LoadWarning::Unused { names });
    }
    Ok(Pretrained {
        model,
        config,
        warnings,
    })
}

/// Gives the MLP matrices of a model another storage.
fn convert_layers(
    mut model: Gpt2,
    mut config: HfConfig,
    mode: MlpMode,
    options: &LoadOptions,
    device: &Device,
) -> Result<Pretrained, Gpt2Error> {
    let matrices = MlpMatrix::of_model(&model);
    let mut matrices = options
        .prepare(matrices, mode, &mut config.model)?
        .into_iter();
    for block in &mut model.h {
        for layer in [&mut block.mlp.c_fc, &mut block.mlp.c_proj] {
            let (Some(matrix), Some(bias)) = (matrices.next(), layer.bias().cloned()) else {
                unreachable!("every layer of the model has a matrix and a bias")
            };
            *layer = matrix.into_layer(mode, bias, device);
        }
    }
    Ok(Pretrained {
        model,
        config,
        warnings: Vec::new(),
    })
}
