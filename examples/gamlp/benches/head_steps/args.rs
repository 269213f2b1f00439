//! The options.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use gamlp::{DeviceChoice, WeightMode};

/// What a single node is sent through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The square matrix of the head alone.
    Head,
    /// The whole network.
    Network,
}

#[derive(Debug, Parser)]
#[command(name = "head_steps")]
pub struct Args {
    /// Back end; all but flex need the feature of that name [default: the first that is compiled in]
    #[arg(long, value_enum)]
    device: Option<DeviceChoice>,
    /// Storage of the head.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "dense,masked,sparse"
    )]
    mode: Vec<WeightMode>,
    /// Sparsities of masked and sparse ones.
    #[arg(long, value_delimiter = ',', default_value = "0.9,0.95,0.99")]
    sparsity: Vec<f64>,
    /// Width of the head.
    #[arg(long, default_value_t = 5000)]
    pub head: usize,
    /// Width of the hidden layers.
    #[arg(long, default_value_t = 512)]
    pub hidden: usize,
    /// Nodes per step.
    #[arg(long, default_value_t = 4096)]
    pub batch: usize,
    /// Steps that are timed; 0: none.
    #[arg(long, default_value_t = 20)]
    pub steps: usize,
    /// Steps before them that are not.
    #[arg(long, default_value_t = 5)]
    pub warmup: usize,
    /// Runs on a single node that are timed; 0: none.
    #[arg(long, default_value_t = 2000)]
    pub samples: usize,
    /// What is timed on a single node; the network takes a while to tune where it is new.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "head,network"
    )]
    pub parts: Vec<Part>,
    /// Runs in the graph that device times are measured with.
    #[arg(long, default_value_t = 20)]
    pub chain: usize,
    /// Writes the rows to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Given by cargo to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    pub fn check(&self) -> Result<(), String> {
        match self.batch < 2 || self.chain == 0 {
            true => Err("expected a batch of at least two nodes and a chain of one run".into()),
            false => Ok(()),
        }
    }

    /// Whether single nodes are sent through the part.
    pub fn serves(&self, part: Part) -> bool {
        self.samples > 0 && self.parts.contains(&part)
    }

    pub fn device(&self) -> DeviceChoice {
        self.device.unwrap_or_else(DeviceChoice::first)
    }

    /// Storages and sparsities in the order of the rows; a dense head has none.
    pub fn cases(&self) -> impl Iterator<Item = (WeightMode, Option<f64>)> {
        self.mode.iter().flat_map(|&mode| {
            let sparsities = match mode {
                WeightMode::Dense => vec![None],
                _ => self.sparsity.iter().copied().map(Some).collect(),
            };
            sparsities.into_iter().map(move |sparsity| (mode, sparsity))
        })
    }
}
