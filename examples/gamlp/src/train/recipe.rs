use super::TrainOptions;
use crate::{DeviceChoice, GamlpConfig, GraphSource, Part, SparseScope, WeightMode};
use clap::ValueEnum;
use core::fmt;
use snack_burn::dst::Preset;

/// Where the options come from that are not given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Recipe {
    /// A network for the small graph of the example and a CPU.
    #[default]
    Small,
    /// The runs of the SNACK paper: hidden width 512, a feature head of 5000, one stage of 40 epochs.
    Snack,
    /// The published R_GAMLP_RLU for ogbn-products: dense, no feature head, four stages.
    Published,
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Small => "small",
            Self::Snack => "snack",
            Self::Published => "published",
        })
    }
}

impl Recipe {
    /// The options of a run on the shipped graph; the numbers of features and classes are 1 until the
    /// graph is known.
    pub fn options(self) -> TrainOptions {
        let snack = TrainOptions {
            model: GamlpConfig::new(1, 1)
                .with_output_layers(2)
                .with_label_layers(2)
                .with_head(Some(5000))
                .with_mode(WeightMode::Sparse),
            graph: GraphSource::Shipped,
            method: Preset::SnackGamlp,
            device: DeviceChoice::first(),
            label_hops: 9,
            seed: 42,
            batch: 4096,
            drop_last: false,
            epochs: vec![40],
            learning_rate: 1e-3,
            weight_decay: 0.0,
            drop_fraction: None,
            update_every: 5,
            update_stop: None,
            eval_every: 1,
            eval_parts: Part::ALL.into(),
            checkpoint_every: 10,
            patience: None,
            threshold: 0.85,
            temperature: 1.0,
            gamma: 0.1,
        };
        match self {
            Self::Small => TrainOptions {
                model: snack
                    .model
                    .clone()
                    .with_hidden(64)
                    .with_hops(3)
                    .with_head(Some(512)),
                label_hops: 5,
                batch: 32,
                learning_rate: 3e-3,
                ..snack
            },
            Self::Snack => snack,
            Self::Published => TrainOptions {
                model: GamlpConfig {
                    features: 1,
                    classes: 1,
                    ..GamlpConfig::products().with_scope(SparseScope::Hidden)
                },
                method: Preset::Static,
                batch: 50_000,
                epochs: vec![400, 300, 300, 300],
                eval_every: 10,
                patience: Some(300),
                ..snack
            },
        }
    }
}
