use crate::{
    Args, ConfigError, Gpt2Config, Gpt2Error, LoadOptions, LoadWarning, MagnitudePruning, MlpMode,
    Pretrained, PretrainedSource, TrainOptions, print_err,
};
use burn::tensor::Device;
use std::path::{Path, PathBuf};

/// The weights that `gpt2_dst --init` starts from.
pub(crate) struct InitialWeights {
    path: PathBuf,
    source: PretrainedSource,
}

impl InitialWeights {
    /// Opens the weights; their tensors are not read yet.
    pub fn open(path: &Path) -> Result<Self, Gpt2Error> {
        Ok(Self {
            path: path.to_owned(),
            source: PretrainedSource::open(path)?,
        })
    }

    /// The model of the run, before flags that may change it: sizes and dropouts of the weights, mode
    /// and sparsity that [`load`](Self::load) will give them.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for a flag that the weights contradict or that has no effect.
    pub fn model(&self, args: &Args) -> Result<Gpt2Config, ConfigError> {
        let model = &self.source.config().model;
        let path = self.path.display();
        let sizes = [
            ("--layers", args.layers, model.layers),
            ("--width", args.width, model.width),
            ("--heads", args.heads, model.heads),
            ("--context", args.context, model.context),
        ];
        for (flag, given, found) in sizes {
            if let Some(given) = given.filter(|&given| given != found) {
                let allowed = format!("{found} or left out: --init {path} has that size");
                return Err(ConfigError::new(flag, given, allowed));
            }
        }
        let options = self.load_options(args);
        if let (Some(scope), None) = (args.scope, options.pruning) {
            let allowed = "left out where nothing is pruned; give --sparsity";
            return Err(ConfigError::new("--scope", scope, allowed));
        }
        let sparsity = options.pruning.map(|pruning| pruning.sparsity);
        Ok(model
            .clone()
            .with_mode(mode(args))
            .with_sparsity(sparsity.unwrap_or(0.0)))
    }

    /// Reads the weights onto `device` with autodiff. Warnings go to standard error if `warns`.
    pub fn load(&self, args: &Args, device: &Device, warns: bool) -> Result<Pretrained, Gpt2Error> {
        let options = self.load_options(args);
        // Each of several devices takes the weights away.
        let source = PretrainedSource::open(&self.path)?;
        let pretrained = source.load(&options, &device.clone().autodiff())?;
        for warning in &pretrained.warnings {
            if let LoadWarning::NonFinite {
                path,
                name,
                count,
                total,
            } = warning
            {
                return Err(Gpt2Error::NonFiniteInit {
                    path: path.clone(),
                    name: name.clone(),
                    count: *count,
                    total: *total,
                });
            }
            if warns {
                print_err(format_args!("warning: {warning}"));
            }
        }
        if warns && !args.quiet {
            let pruned = match options.pruning {
                Some(pruning) => format!(
                    ", its MLPs pruned by magnitude to a sparsity of {}",
                    pruning.sparsity
                ),
                None => String::new(),
            };
            print_err(format_args!(
                "starting from {}{pruned}",
                self.path.display()
            ));
        }
        Ok(pretrained)
    }

    /// Without `--sparsity`, dense weights get the default and sparse ones keep what they have.
    fn load_options(&self, args: &Args) -> LoadOptions {
        let default = match mode(args) == MlpMode::Dense || self.source.is_sparse() {
            true => None,
            false => Some(TrainOptions::default().model.sparsity),
        };
        LoadOptions {
            mode: Some(mode(args)),
            pruning: args.sparsity.or(default).map(|sparsity| MagnitudePruning {
                sparsity,
                scope: args.scope.unwrap_or_default(),
            }),
            dropout: args.dropout,
        }
    }
}

/// The storage of the MLP matrices in the run.
fn mode(args: &Args) -> MlpMode {
    args.mode.unwrap_or(TrainOptions::default().model.mode)
}
