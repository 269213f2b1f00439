use burn::config::Config;
use clap::ValueEnum;
use core::fmt;
use serde::{Deserialize, Serialize};
use snack_burn::pattern::Profile;
use thiserror::Error;

/// How the matrices that [`SparseScope`] names are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightMode {
    /// Plain dense layers: the baseline.
    Dense,
    /// Dense layers times a binary mask: the same function as sparse ones, at dense cost.
    Masked,
    /// Truly sparse layers: only the non-zeros exist.
    Sparse,
}

/// Which matrices [`WeightMode`] governs; all others are dense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SparseScope {
    /// The square matrix of the feature head.
    Head,
    /// The `hidden x hidden` matrices of the hop transforms and of the output network.
    Hidden,
    /// Both.
    All,
}

/// The non-linearity of the attention scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreActivation {
    /// `max(x, 0)`.
    Relu,
    /// `x` above zero, `0.2 x` below.
    LeakyRelu,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
}

impl ScoreActivation {
    /// Slope of [`LeakyRelu`](Self::LeakyRelu) below zero.
    pub const LEAK: f64 = 0.2;
}

/// A model size that cannot be built.
#[derive(Debug, Error, PartialEq)]
#[error("{name} is {value}, but must be {allowed}")]
pub struct ConfigError {
    /// The name of the option.
    pub name: &'static str,
    /// The value it was given.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

impl ConfigError {
    pub(crate) fn new(
        name: &'static str,
        value: impl ToString,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            name,
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }
}

impl fmt::Display for WeightMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Dense => "dense",
            Self::Masked => "masked",
            Self::Sparse => "sparse",
        })
    }
}

impl fmt::Display for SparseScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Head => "head",
            Self::Hidden => "hidden",
            Self::All => "all",
        })
    }
}

impl fmt::Display for ScoreActivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Relu => "relu",
            Self::LeakyRelu => "leaky-relu",
            Self::Sigmoid => "sigmoid",
        })
    }
}

/// The sizes and rates of an R_GAMLP_RLU network.
#[derive(Config, Debug, PartialEq)]
pub struct GamlpConfig {
    /// Number of features of a node.
    pub features: usize,
    /// Number of classes.
    pub classes: usize,
    /// Width of the hidden layers.
    #[config(default = 512)]
    pub hidden: usize,
    /// Number of times that features are propagated; the network sees one matrix more.
    #[config(default = 5)]
    pub hops: usize,
    /// Layers of the output network.
    #[config(default = 4)]
    pub output_layers: usize,
    /// Layers of the label network.
    #[config(default = 4)]
    pub label_layers: usize,
    /// The non-linearity of the attention scores.
    #[config(default = "ScoreActivation::LeakyRelu")]
    pub activation: ScoreActivation,
    /// Dropout of hidden layers.
    #[config(default = 0.5)]
    pub dropout: f64,
    /// Dropout of the propagated features.
    #[config(default = 0.0)]
    pub input_dropout: f64,
    /// Dropout of the attention weights.
    #[config(default = 0.5)]
    pub attention_dropout: f64,
    /// Dropout of the label embedding.
    #[config(default = 0.5)]
    pub label_dropout: f64,
    /// Share of the first activation that every middle layer of the output network mixes in.
    #[config(default = 0.5)]
    pub alpha: f64,
    /// If every hop has a network of its own before the attention.
    #[config(default = true)]
    pub pre_process: bool,
    /// If the features as given are added, after a linear layer, to the combined hops.
    #[config(default = true)]
    pub residual: bool,
    /// If the networks of the hops normalize over the batch. Those of labels and output always do.
    #[config(default = true)]
    pub batch_norm: bool,
    /// If the input of the output network is dropped out.
    #[config(default = false)]
    pub pre_dropout: bool,
    /// Width of the feature head that takes the place of the output network, if any.
    pub head: Option<usize>,
    /// Storage of the matrices that `scope` names.
    #[config(default = "WeightMode::Dense")]
    pub mode: WeightMode,
    /// Which matrices `mode` governs.
    #[config(default = "SparseScope::Head")]
    pub scope: SparseScope,
    /// Share of the weights of those matrices that does not exist. Without effect on dense ones.
    #[config(default = 0.9)]
    pub sparsity: f64,
    /// How many inputs the units of sparse and masked layers start with.
    #[config(default = "Profile::Free")]
    pub profile: Profile,
}

impl GamlpConfig {
    /// The published setting for ogbn-products: 100 features, 47 classes, 3 335 831 parameters.
    pub fn products() -> Self {
        Self::new(100, 47)
            .with_input_dropout(0.2)
            .with_label_dropout(0.0)
    }

    /// Width of what the attention combines.
    pub fn hop_width(&self) -> usize {
        match self.pre_process {
            true => self.hidden,
            false => self.features,
        }
    }

    /// Whether any dropout is active in training.
    pub fn has_dropout(&self) -> bool {
        let rates = [
            self.dropout,
            self.input_dropout,
            self.attention_dropout,
            self.label_dropout,
        ];
        rates.iter().any(|&rate| rate > 0.0)
    }

    /// Number of weights that a `width x width` matrix of the configured sparsity has.
    pub fn sparse_nnz(&self, width: usize) -> usize {
        ((1.0 - self.sparsity) * (width * width) as f64).round() as usize
    }

    /// Checks sizes and rates.
    ///
    /// # Errors
    ///
    /// The first one that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        within("the number of features", self.features, 1, 1 << 20)?;
        within("the number of classes", self.classes, 1, 1 << 20)?;
        within("--hidden", self.hidden, 1, 1 << 16)?;
        within("--hops", self.hops, 0, 100)?;
        within("--output-layers", self.output_layers, 1, 100)?;
        within("--label-layers", self.label_layers, 1, 100)?;
        if let Some(head) = self.head {
            within("--head", head, 1, 1 << 16)?;
        }
        let rates = [
            ("--dropout", self.dropout),
            ("--input-dropout", self.input_dropout),
            ("--attention-dropout", self.attention_dropout),
            ("--label-dropout", self.label_dropout),
            ("--sparsity", self.sparsity),
        ];
        for (name, rate) in rates {
            if !(0.0..1.0).contains(&rate) {
                return Err(ConfigError::new(name, rate, "at least 0 and below 1"));
            }
        }
        if !(0.0..=1.0).contains(&self.alpha) {
            return Err(ConfigError::new("--alpha", self.alpha, "between 0 and 1"));
        }
        if self.residual && self.hop_width() != self.hidden {
            let allowed = "the number of features, if there is a residual but no network per hop";
            return Err(ConfigError::new("--hidden", self.hidden, allowed));
        }
        match self.mode {
            WeightMode::Dense => Ok(()),
            WeightMode::Masked | WeightMode::Sparse => self.validate_scope(),
        }
    }

    /// Refuses a scope without matrices, and matrices without weights.
    fn validate_scope(&self) -> Result<(), ConfigError> {
        let width = match (self.scope, self.head) {
            (SparseScope::Head, None) => {
                let allowed = "hidden or all without a feature head";
                return Err(ConfigError::new("--scope", self.scope, allowed));
            }
            (SparseScope::Head, Some(head)) => head,
            (SparseScope::Hidden, _) | (SparseScope::All, None) => self.hidden,
            (SparseScope::All, Some(head)) => head.min(self.hidden),
        };
        match self.sparse_nnz(width) {
            0 => Err(ConfigError::new(
                "--sparsity",
                self.sparsity,
                format!(
                    "low enough to keep one of the {} weights of a matrix",
                    width * width
                ),
            )),
            _ => Ok(()),
        }
    }
}

pub(crate) fn within(
    name: &'static str,
    value: usize,
    min: usize,
    max: usize,
) -> Result<(), ConfigError> {
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(ConfigError::new(
            name,
            value,
            format!("between {min} and {max}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_built_is_named() {
        let config = GamlpConfig::products();
        assert_eq!(config.validate(), Ok(()));
        let message = |config: GamlpConfig| config.validate().unwrap_err().to_string();
        assert_eq!(
            message(config.clone().with_hidden(0)),
            "--hidden is 0, but must be between 1 and 65536"
        );
        assert_eq!(
            message(config.clone().with_head(Some(0))),
            "--head is 0, but must be between 1 and 65536"
        );
        assert_eq!(
            message(config.clone().with_label_dropout(1.0)),
            "--label-dropout is 1, but must be at least 0 and below 1"
        );
        assert_eq!(
            message(config.clone().with_sparsity(f64::NAN)),
            "--sparsity is NaN, but must be at least 0 and below 1"
        );
        assert_eq!(
            message(config.clone().with_alpha(1.5)),
            "--alpha is 1.5, but must be between 0 and 1"
        );
        let sparse = config.clone().with_mode(WeightMode::Sparse);
        assert_eq!(
            message(sparse.clone()),
            "--scope is head, but must be hidden or all without a feature head"
        );
        assert_eq!(
            message(sparse.with_head(Some(3)).with_sparsity(0.99)),
            "--sparsity is 0.99, but must be low enough to keep one of the 9 weights of a matrix"
        );
        assert!(message(config.with_pre_process(false)).starts_with("--hidden is 512"));
    }
}
