use crate::{
    ConfigError, DeviceChoice, EdgeRule, FeatureSource, GamlpConfig, GamlpError, GraphSource, Part,
    Recipe, ScoreActivation, SparseScope, SyntheticSize, TrainOptions, WeightMode,
    train::method_parser,
};
use clap::{ArgAction, Parser};
use snack_burn::dst::Preset;
use std::path::PathBuf;

/// Trains R_GAMLP_RLU to classify the nodes of a graph, its wide feature head sparse from birth to
/// checkpoint.
///
/// Without options: a 90 % sparse head, a twentieth of it replaced every 5 epochs, on a small graph
/// that ships with the example. Log, checkpoint and pictures go to a new folder runs/gamlp-dst-NNN.
/// Ctrl-C finishes the step, saves and exits with code 130; --resume continues.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "gamlp_dst", version)]
pub struct Args {
    /// Where the options come from that are not given; their defaults below are those of small
    /// [default: small]
    #[arg(long, value_enum, conflicts_with = "resume")]
    pub recipe: Option<Recipe>,

    /// Graph to learn instead of the shipped one
    #[command(flatten)]
    pub graph: GraphArgs,

    /// Storage of the matrices that --scope names [default: sparse]
    #[arg(long, value_enum)]
    pub mode: Option<WeightMode>,
    /// Which matrices --mode is about [default: head, or hidden if there is no feature head]
    #[arg(long, value_enum)]
    pub scope: Option<SparseScope>,
    /// Share of their weights that does not exist, at least 0 and below 1 [default: 0.9]
    #[arg(long, allow_negative_numbers = true)]
    pub sparsity: Option<f64>,
    /// How the sparse pattern changes; only sparse layers can [default: snack-gamlp]
    #[arg(long, value_parser = method_parser())]
    pub method: Option<Preset>,
    /// Share of the connections that an update replaces [default: that of the method, 0.05 for
    /// snack-gamlp]
    #[arg(long, allow_negative_numbers = true)]
    pub drop_fraction: Option<f64>,
    /// Epochs between topology updates [default: 5]
    #[arg(long, allow_negative_numbers = true)]
    pub update_every: Option<usize>,
    /// Epoch of the last topology update of a stage [default: five eighths of the stage]
    #[arg(long, allow_negative_numbers = true)]
    pub update_stop: Option<usize>,

    /// Width of the feature head; 0: the output network of the published model [default: 512]
    #[arg(long, allow_negative_numbers = true)]
    pub head: Option<usize>,
    /// Width of the hidden layers [default: 64]
    #[arg(long, allow_negative_numbers = true)]
    pub hidden: Option<usize>,
    /// Number of times that features are propagated [default: 3]
    #[arg(long, allow_negative_numbers = true)]
    pub hops: Option<usize>,
    /// Number of times that labels are propagated [default: 5]
    #[arg(long, allow_negative_numbers = true)]
    pub label_hops: Option<usize>,
    /// Layers of the output network, where there is no feature head [default: 2]
    #[arg(long, allow_negative_numbers = true)]
    pub output_layers: Option<usize>,
    /// Layers of the label network [default: 2]
    #[arg(long, allow_negative_numbers = true)]
    pub label_layers: Option<usize>,
    /// Non-linearity of the attention scores [default: leaky-relu]
    #[arg(long, value_enum)]
    pub activation: Option<ScoreActivation>,
    /// Share of the first activation that middle layers of the output network mix in [default: 0.5]
    #[arg(long, allow_negative_numbers = true)]
    pub alpha: Option<f64>,
    /// Dropout of hidden layers [default: 0.5]
    #[arg(long, allow_negative_numbers = true)]
    pub dropout: Option<f64>,
    /// Dropout of the propagated features [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    pub input_dropout: Option<f64>,
    /// Dropout of whole hops in the attention [default: 0.5]
    #[arg(long, allow_negative_numbers = true)]
    pub attention_dropout: Option<f64>,
    /// Dropout of the label embedding [default: 0.5]
    #[arg(long, allow_negative_numbers = true)]
    pub label_dropout: Option<f64>,

    /// Epochs of every stage, with commas between: each stage after the first starts anew and also
    /// learns the nodes that the one before is certain of [default: 40]
    #[arg(long, value_delimiter = ',', allow_negative_numbers = true, action = ArgAction::Set)]
    pub epochs: Vec<usize>,
    /// Nodes per step [default: 32]
    #[arg(long, allow_negative_numbers = true)]
    pub batch: Option<usize>,
    /// Leave out the last batch of an epoch if it is smaller: on a GPU every product would be tuned for
    /// one more shape
    #[arg(long)]
    pub drop_last: bool,
    /// Learning rate of Adam [default: 0.003]
    #[arg(long, allow_negative_numbers = true)]
    pub learning_rate: Option<f64>,
    /// Penalty of the squares of all weights, added to the gradient [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    pub weight_decay: Option<f32>,
    /// Epochs without a better validation accuracy after which a stage ends [default: never]
    #[arg(long, allow_negative_numbers = true)]
    pub patience: Option<usize>,
    /// Probability of its class above which a node is reliable [default: 0.85]
    #[arg(long, allow_negative_numbers = true)]
    pub threshold: Option<f32>,
    /// What logits are divided by before those probabilities are computed [default: 1]
    #[arg(long, allow_negative_numbers = true)]
    pub temperature: Option<f32>,
    /// Weight of the loss of reliable nodes [default: 0.1]
    #[arg(long, allow_negative_numbers = true)]
    pub gamma: Option<f64>,

    /// Back end; all but the compiled ones need `--features` of the same name [default: the first
    /// of cuda, metal, rocm, vulkan, wgpu, cpu, flex that is compiled in]
    #[arg(long, value_enum)]
    pub device: Option<DeviceChoice>,
    /// Seed of initial values, batches, dropout and topology updates [default: 42]
    #[arg(long, allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Epochs between evaluations; 0: only at the end of a stage [default: 1]
    #[arg(long, allow_negative_numbers = true)]
    pub eval_every: Option<usize>,
    /// Parts of the nodes whose accuracy an evaluation measures; that of valid, which selects the
    /// best epoch, always is [default: train,valid,test]
    #[arg(long, value_enum, value_delimiter = ',', action = ArgAction::Set)]
    pub eval_parts: Vec<Part>,
    /// Epochs between checkpoints; 0: only at the end of a stage [default: 10]
    #[arg(long, allow_negative_numbers = true)]
    pub checkpoint_every: Option<usize>,
    /// Folder for log and checkpoint [default: the next free runs/gamlp-dst-NNN]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue the run in --out, or else the newest runs/gamlp-dst-NNN; options not given are the
    /// checkpoint's
    #[arg(long, conflicts_with = "overwrite")]
    pub resume: bool,
    /// Replace the run in --out
    #[arg(long, requires = "out")]
    pub overwrite: bool,
    /// Only read and propagate the graph, so that the next run with --host-mb 0 finds the matrices in
    /// --cache
    #[arg(long, conflicts_with_all = ["resume", "out"])]
    pub prepare: bool,
    /// Print only the final table, and errors
    #[arg(long)]
    pub quiet: bool,
}

/// Which graph, and how it is read.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct GraphArgs {
    /// Graph to learn instead of the shipped one: a folder in the layout of the Open Graph Benchmark
    #[arg(long, value_name = "DIR", conflicts_with = "synthetic")]
    pub data: Option<PathBuf>,
    /// Name of the split of --data [default: the only one]
    #[arg(long, requires = "data")]
    pub split: Option<String>,
    /// What a stored edge of --data stands for [default: add-reverse]
    #[arg(long, value_enum, requires = "data")]
    pub edges: Option<EdgeRule>,
    /// Where the features of --data come from [default: file]
    #[arg(long, value_enum, requires = "data")]
    pub features: Option<FeatureSource>,
    /// Learn a random graph: products for the sizes of ogbn-products, or NODES,EDGES,FEATURES,CLASSES
    #[arg(long, value_name = "SIZES")]
    pub synthetic: Option<SyntheticSize>,
    /// Folder that keeps what was read of --data, and propagated matrices that do not fit into
    /// --host-mb, for the next run [default: runs/graphs]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Most memory for propagated matrices, in MB; 0: always keep them in files [default: half of what
    /// is free]
    #[arg(long, value_name = "MB")]
    pub host_mb: Option<u64>,
    /// Most memory of the device for inputs of nodes, in MB: those to learn from first, then those to
    /// select by, then the others, as far as they fit whole. All others come from the host in every
    /// step [default: 2048, on the CPU 0]
    #[arg(long, value_name = "MB")]
    pub device_mb: Option<u64>,
}

impl GraphArgs {
    /// The graph that is asked for, `base` if none is.
    pub fn source(&self, base: GraphSource) -> GraphSource {
        match (&self.data, self.synthetic) {
            (_, Some(size)) => GraphSource::Synthetic(size),
            (Some(path), None) => {
                let mut options = crate::ReadOptions {
                    split: self.split.clone(),
                    ..Default::default()
                };
                options.rule = self.edges.unwrap_or(options.rule);
                options.features = self.features.unwrap_or(options.features);
                GraphSource::Folder {
                    path: path.clone(),
                    options,
                }
            }
            (None, None) => base,
        }
    }
}

impl Args {
    /// The options of a new run: those given, and for the others those of the recipe.
    pub fn new_options(&self) -> TrainOptions {
        let mut base = self.recipe.unwrap_or_default().options();
        let mode = self.mode.unwrap_or(base.model.mode);
        base.method = match mode {
            WeightMode::Sparse => Preset::SnackGamlp,
            WeightMode::Dense | WeightMode::Masked => Preset::Static,
        };
        let options = self.options(base);
        if self.scope.is_some() {
            return options;
        }
        let scope = match options.model.head {
            Some(_) => SparseScope::Head,
            None => SparseScope::Hidden,
        };
        TrainOptions {
            model: options.model.with_scope(scope),
            ..options
        }
    }

    /// The options given, and `base` for the others.
    pub fn options(&self, base: TrainOptions) -> TrainOptions {
        let model = base.model;
        TrainOptions {
            model: GamlpConfig {
                hidden: self.hidden.unwrap_or(model.hidden),
                hops: self.hops.unwrap_or(model.hops),
                output_layers: self.output_layers.unwrap_or(model.output_layers),
                label_layers: self.label_layers.unwrap_or(model.label_layers),
                activation: self.activation.unwrap_or(model.activation),
                dropout: self.dropout.unwrap_or(model.dropout),
                input_dropout: self.input_dropout.unwrap_or(model.input_dropout),
                attention_dropout: self.attention_dropout.unwrap_or(model.attention_dropout),
                label_dropout: self.label_dropout.unwrap_or(model.label_dropout),
                alpha: self.alpha.unwrap_or(model.alpha),
                head: match self.head {
                    Some(width) => Some(width).filter(|&width| width > 0),
                    None => model.head,
                },
                mode: self.mode.unwrap_or(model.mode),
                scope: self.scope.unwrap_or(model.scope),
                sparsity: self.sparsity.unwrap_or(model.sparsity),
                ..model
            },
            graph: self.graph.source(base.graph),
            method: self.method.unwrap_or(base.method),
            device: self.device.unwrap_or(base.device),
            label_hops: self.label_hops.unwrap_or(base.label_hops),
            seed: self.seed.unwrap_or(base.seed),
            batch: self.batch.unwrap_or(base.batch),
            drop_last: self.drop_last || base.drop_last,
            epochs: match self.epochs.is_empty() {
                true => base.epochs,
                false => self.epochs.clone(),
            },
            learning_rate: self.learning_rate.unwrap_or(base.learning_rate),
            weight_decay: self.weight_decay.unwrap_or(base.weight_decay),
            drop_fraction: self.drop_fraction.or(base.drop_fraction),
            update_every: self.update_every.unwrap_or(base.update_every),
            update_stop: self.update_stop.or(base.update_stop),
            eval_every: self.eval_every.unwrap_or(base.eval_every),
            eval_parts: match self.eval_parts.is_empty() {
                true => base.eval_parts,
                false => self.eval_parts.clone(),
            },
            checkpoint_every: self.checkpoint_every.unwrap_or(base.checkpoint_every),
            patience: self.patience.or(base.patience),
            threshold: self.threshold.unwrap_or(base.threshold),
            temperature: self.temperature.unwrap_or(base.temperature),
            gamma: self.gamma.unwrap_or(base.gamma),
        }
    }

    /// Checks the options of a run, and refuses those that have no effect in it.
    ///
    /// # Errors
    ///
    /// [`GamlpError::Config`] for the first one.
    pub(crate) fn check(&self, options: &TrainOptions) -> Result<(), GamlpError> {
        options.validate()?;
        Ok(self.check_effect(options)?)
    }

    fn check_effect(&self, options: &TrainOptions) -> Result<(), ConfigError> {
        let ignored = |name, value: Option<String>, reason: &str| match value {
            Some(value) => Err(ConfigError::new(
                name,
                value,
                format!("left out with {reason}"),
            )),
            None => Ok(()),
        };
        let text = |number: Option<usize>| number.map(|number| number.to_string());
        let mode = options.model.mode;
        if mode == WeightMode::Dense {
            let reason = "--mode dense, where all weights exist";
            let sparsity = self.sparsity.map(|value| value.to_string());
            ignored("--sparsity", sparsity, reason)?;
            let scope = self.scope.map(|value| value.to_string());
            ignored("--scope", scope, reason)?;
        }
        if !options.updates_topology() {
            let reason = match mode {
                WeightMode::Sparse => "--method static, whose pattern stays".to_string(),
                _ => format!("--mode {mode}, whose pattern cannot change"),
            };
            let share = self.drop_fraction.map(|value| value.to_string());
            ignored("--drop-fraction", share, &reason)?;
            ignored("--update-every", text(self.update_every), &reason)?;
            ignored("--update-stop", text(self.update_stop), &reason)?;
        }
        if options.model.head.is_some() {
            let reason = "a feature head, which takes the place of the output network";
            ignored("--output-layers", text(self.output_layers), reason)?;
            let alpha = self.alpha.map(|value| value.to_string());
            ignored("--alpha", alpha, reason)?;
        }
        if options.stages() == 1 {
            let reason = "one number of --epochs, where no stage learns from another";
            let number = |value: Option<f32>| value.map(|value| value.to_string());
            ignored("--threshold", number(self.threshold), reason)?;
            ignored("--temperature", number(self.temperature), reason)?;
            let gamma = self.gamma.map(|value| value.to_string());
            ignored("--gamma", gamma, reason)?;
        }
        Ok(())
    }
}
