use burn::config::Config;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How the matrices that [`SparseScope`] names are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum WeightMode {
    /// Plain dense layers: the baseline.
    Dense,
    /// Dense layers times a binary mask: the same function as `Sparse`, at dense cost.
    Masked,
    /// Truly sparse layers: only the non-zeros exist.
    Sparse,
}

/// Which matrices [`WeightMode`] governs; all others are dense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum SparseScope {
    /// The square matrix of the feature head.
    Head,
    /// The `hidden x hidden` matrices of the hop transforms and of the output network.
    Hidden,
    /// Both.
    All,
}

/// The non-linearity of the attention scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum ScoreActivation {
    /// `max(x, 0)`.
    Relu,
    /// `x` above zero, `0.2 x` below.
    LeakyRelu,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
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
    pub allowed: &'static str,
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

    /// Checks sizes and rates.
    ///
    /// # Errors
    ///
    /// The first one that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let fault = |name, value: String, allowed| {
            Err(ConfigError {
                name,
                value,
                allowed,
            })
        };
        let sizes = [
            ("features", Some(self.features)),
            ("classes", Some(self.classes)),
            ("hidden", Some(self.hidden)),
            ("output layers", Some(self.output_layers)),
            ("label layers", Some(self.label_layers)),
            ("head", self.head),
        ];
        for (name, size) in sizes {
            if size == Some(0) {
                return fault(name, "0".into(), "at least 1");
            }
        }
        let rates = [
            ("dropout", self.dropout),
            ("input dropout", self.input_dropout),
            ("attention dropout", self.attention_dropout),
            ("label dropout", self.label_dropout),
            ("sparsity", self.sparsity),
        ];
        for (name, rate) in rates {
            if !(0.0..1.0).contains(&rate) {
                return fault(name, rate.to_string(), "at least 0 and below 1");
            }
        }
        if !(0.0..=1.0).contains(&self.alpha) {
            return fault("alpha", self.alpha.to_string(), "between 0 and 1");
        }
        if self.residual && self.hop_width() != self.hidden {
            return fault(
                "hidden",
                self.hidden.to_string(),
                "the number of features, if there is a residual but no network per hop",
            );
        }
        Ok(())
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
            "hidden is 0, but must be at least 1"
        );
        assert_eq!(
            message(config.clone().with_head(Some(0))),
            "head is 0, but must be at least 1"
        );
        assert_eq!(
            message(config.clone().with_label_dropout(1.0)),
            "label dropout is 1, but must be at least 0 and below 1"
        );
        assert_eq!(
            message(config.clone().with_sparsity(f64::NAN)),
            "sparsity is NaN, but must be at least 0 and below 1"
        );
        assert_eq!(
            message(config.clone().with_alpha(1.5)),
            "alpha is 1.5, but must be between 0 and 1"
        );
        assert!(message(config.with_pre_process(false)).starts_with("hidden is 512"));
    }
}
