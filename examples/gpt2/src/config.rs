use burn::config::Config;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use snack_burn::pattern::Profile;
use thiserror::Error;

/// How the two MLP matrices of every block are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum MlpMode {
    /// Plain dense layers: the baseline.
    Dense,
    /// Dense layers times a binary mask: the same function as `Sparse`, at dense cost.
    Masked,
    /// Truly sparse layers: only the non-zeros exist.
    Sparse,
}

impl core::fmt::Display for MlpMode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Dense => "dense",
            Self::Masked => "masked",
            Self::Sparse => "sparse",
        })
    }
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

/// The sizes of a GPT-2 model and the storage of its MLP layers.
#[derive(Config, Debug, PartialEq)]
pub struct Gpt2Config {
    /// Number of blocks.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Number of attention heads; divides `width`.
    pub heads: usize,
    /// Longest sequence, in tokens.
    pub context: usize,
    /// Number of different tokens.
    #[config(default = 256)]
    pub vocabulary: usize,
    /// Storage of the MLP matrices.
    #[config(default = "MlpMode::Sparse")]
    pub mode: MlpMode,
    /// Share of the MLP weights that does not exist. Without effect on dense layers.
    #[config(default = 0.9)]
    pub sparsity: f64,
    /// How many inputs the units of sparse and masked layers start with.
    #[config(default = "Profile::Free")]
    pub profile: Profile,
    /// Dropout of embeddings, attention weights and residual branches.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Dropout of attention weights; `dropout` if absent.
    pub attention_dropout: Option<f64>,
    /// Dropout of residual branches; `dropout` if absent.
    pub residual_dropout: Option<f64>,
    /// Width of the hidden layer of every MLP; `4 width` if absent.
    pub inner_width: Option<usize>,
    /// Added to the variance in every layer norm.
    #[config(default = 1e-5)]
    pub epsilon: f64,
}

impl Gpt2Config {
    /// GPT-2 small: 12 blocks of width 768, 50257 tokens, context 1024, dense.
    pub fn small() -> Self {
        Self::new(12, 768, 12, 1024)
            .with_vocabulary(50257)
            .with_mode(MlpMode::Dense)
            .with_dropout(0.1)
    }

    /// Width of the hidden layer of every MLP.
    pub fn inner(&self) -> usize {
        self.inner_width.unwrap_or(4 * self.width)
    }

    /// Dropout of the embeddings, the attention weights and the residual branches.
    pub fn dropouts(&self) -> [f64; 3] {
        [
            self.dropout,
            self.attention_dropout.unwrap_or(self.dropout),
            self.residual_dropout.unwrap_or(self.dropout),
        ]
    }

    /// Number of weights in one MLP matrix that exist.
    pub fn mlp_nnz(&self) -> usize {
        let slots = self.width * self.inner();
        match self.mode {
            MlpMode::Dense => slots,
            MlpMode::Masked | MlpMode::Sparse => {
                ((1.0 - self.sparsity) * slots as f64).round() as usize
            }
        }
    }

    /// Number of weights in all MLP matrices of the dense model.
    pub fn dense_mlp_weights(&self) -> usize {
        2 * self.layers * self.width * self.inner()
    }

    /// Number of trainable parameters of the dense model of these sizes, computed without
    /// building it. The tied head counts once.
    pub fn dense_parameter_count(&self) -> usize {
        let d = self.width;
        let norm = 2 * d;
        let attention = d * 3 * d + 3 * d + d * d + d;
        let mlp = d * self.inner() + self.inner() + self.inner() * d + d;
        let embeddings = (self.vocabulary + self.context) * d;

        embeddings + self.layers * (2 * norm + attention + mlp) + norm
    }

    /// Number of non-zero trainable parameters at the configured sparsity.
    pub fn parameter_count(&self) -> usize {
        let absent = self.width * self.inner() - self.mlp_nnz();
        self.dense_parameter_count() - 2 * self.layers * absent
    }

    /// Checks every size against its allowed range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        within("--layers", self.layers, 1, 192)?;
        within("--width", self.width, 1, 16_384)?;
        within("--heads", self.heads, 1, self.width)?;
        within("--context", self.context, 1, 65_536)?;
        within("vocabulary", self.vocabulary, 1, 1 << 20)?;
        within("inner width", self.inner(), 1, 65_536)?;

        if !self.width.is_multiple_of(self.heads) {
            return Err(ConfigError::new(
                "--heads",
                self.heads,
                format!("a divisor of --width {}", self.width),
            ));
        }
        if !(0.0..1.0).contains(&self.sparsity) {
            return Err(ConfigError::new(
                "--sparsity",
                self.sparsity,
                "at least 0 and below 1",
            ));
        }
        if self.mlp_nnz() == 0 {
            let slots = self.width * self.inner();
            return Err(ConfigError::new(
                "--sparsity",
                self.sparsity,
                format!("low enough to keep one of the {slots} weights of an MLP matrix"),
            ));
        }
        let dropouts = self.dropouts();
        match dropouts.iter().find(|p| !(0.0..1.0).contains(*p)) {
            Some(p) => Err(ConfigError::new("--dropout", p, "at least 0 and below 1")),
            None => Ok(()),
        }
    }
}

pub(crate) fn within(
    name: &'static str,
    value: usize,
    min: usize,
    max: usize,
) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(ConfigError::new(
            name,
            value,
            format!("between {min} and {max}"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpt2_small_has_the_published_size() {
        assert_eq!(Gpt2Config::small().dense_parameter_count(), 124_439_808);
        assert_eq!(Gpt2Config::small().parameter_count(), 124_439_808);
    }

    #[test]
    fn ninety_percent_sparse_mlps_drop_41_percent_of_gpt2_small() {
        let config = Gpt2Config::small().with_mode(MlpMode::Sparse);
        let absent = config.dense_parameter_count() - config.parameter_count();

        assert_eq!(absent, 2 * 12 * (768 * 3072 - 235_930));
        assert!((absent as f64 / 124_439_808.0 - 0.41).abs() < 0.001);
    }

    #[test]
    fn records_without_the_optional_sizes_are_read() {
        let config = Gpt2Config::new(2, 16, 4, 8).with_dropout(0.5);
        let mut value = serde_json::to_value(&config).unwrap();
        let keys = value.as_object_mut().unwrap();
        for key in ["attention_dropout", "residual_dropout", "inner_width"] {
            assert!(keys.remove(key).is_some());
        }
        assert_eq!(serde_json::from_value::<Gpt2Config>(value).unwrap(), config);
        assert_eq!(config.dropouts(), [0.5; 3]);
        assert_eq!(config.inner(), 64);
    }

    #[test]
    fn out_of_range_sizes_are_named() {
        let ok = Gpt2Config::new(2, 16, 4, 8);
        assert_eq!(ok.validate(), Ok(()));

        let message = |config: Gpt2Config| config.validate().unwrap_err().to_string();
        assert_eq!(
            message(ok.clone().with_sparsity(1.0)),
            "--sparsity is 1, but must be at least 0 and below 1"
        );
        assert_eq!(
            message(ok.clone().with_sparsity(f64::NAN)),
            "--sparsity is NaN, but must be at least 0 and below 1"
        );
        assert_eq!(
            message(Gpt2Config::new(0, 16, 4, 8)),
            "--layers is 0, but must be between 1 and 192"
        );
        assert_eq!(
            message(Gpt2Config::new(2, 16, 3, 8)),
            "--heads is 3, but must be a divisor of --width 16"
        );
        assert_eq!(
            message(Gpt2Config::new(2, 1, 1, 8).with_sparsity(0.9)),
            "--sparsity is 0.9, but must be low enough to keep one of the 4 weights of an MLP matrix"
        );
    }
}
