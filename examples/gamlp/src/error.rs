use crate::{CacheError, ConfigError, DataError, DeviceChoice, SyntheticError};
use example_support::{
    DeviceNotCompiled, EXIT_INTERRUPTED, FileError, FolderBusy, LogError, OutputError, RunDirError,
    TooLarge,
};
use snack_burn::{
    error::SparseError,
    prelude::{CheckpointError, DstError},
};
use std::path::PathBuf;
use thiserror::Error;

/// Everything that can stop a run.
#[derive(Debug, Error)]
pub enum GamlpError {
    /// An option has a value outside its range.
    #[error(transparent)]
    Config(#[from] ConfigError),

    /// The chosen device was not compiled in.
    #[error(
        "the device {device} is not part of this build (it has: {available}); build with \
         `--features {device}`, as in `cargo run --release -p gamlp --features {device} --example ...`, \
         or choose another --device"
    )]
    DeviceNotCompiled {
        /// The device that was asked for.
        device: DeviceChoice,
        /// The devices of this build.
        available: String,
    },

    /// Another process writes into the output folder.
    #[error(transparent)]
    FolderBusy(#[from] FolderBusy),

    /// The output folder is not one that the run can have.
    #[error(transparent)]
    RunDir(#[from] RunDirError),

    /// The log of a run cannot be read or written.
    #[error(transparent)]
    Log(#[from] LogError),

    /// A file or folder of the run cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),

    /// A graph cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),

    /// There is no folder with a graph.
    #[error("there is no folder {}", path.display())]
    NoFolder {
        /// The folder that was looked for.
        path: PathBuf,
    },

    /// A graph has no features, and none were chosen that are made from the rest.
    #[error("there is no file {}; a graph without features needs --features degree or one-hot", path.display())]
    NoFeatures {
        /// The file that was looked for.
        path: PathBuf,
    },

    /// A graph cannot be made.
    #[error("--synthetic: {0}")]
    Synthetic(#[from] SyntheticError),

    /// A graph or a model can never fit into the machine.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),

    /// A graph is too large for a sparse matrix.
    #[error("the graph {name}: {source}")]
    Graph {
        /// Where the graph came from.
        name: String,
        /// What does not fit.
        source: SparseError,
    },

    /// Propagated matrices do not fit into memory, and cannot be kept in files.
    #[error(
        "propagated features do not fit into --host-mb and cannot be kept in {}: {source}; choose \
         another --cache, or a larger --host-mb", folder.display()
    )]
    HopFiles {
        /// The folder.
        folder: PathBuf,
        /// What went wrong.
        source: CacheError,
    },

    /// There are too few nodes to learn from.
    #[error(
        "the graph {name} has {found} node to learn from, but batch normalization needs at least two"
    )]
    TooFewNodes {
        /// Where the graph came from.
        name: String,
        /// Number of nodes.
        found: usize,
    },

    /// A method of training does not suit the model.
    #[error("the topology of the run: {0}")]
    Topology(#[from] DstError),

    /// The checkpoint cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),

    /// A folder holds no run.
    #[error("there is no run in {}: it has no checkpoint.bpk", dir.display())]
    NoRun {
        /// The folder.
        dir: PathBuf,
    },

    /// A run has no best model.
    #[error(
        "the run of checkpoint {} has not been evaluated yet, so it has no best model; continue it \
         with gamlp_dst --resume", path.display()
    )]
    NotEvaluated {
        /// The checkpoint.
        path: PathBuf,
    },

    /// The checkpoint can be read, but was not written by this program.
    #[error(
        "checkpoint {} was not written by this example: {reason}; choose a checkpoint that \
         gamlp_dst wrote", path.display()
    )]
    ForeignCheckpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },

    /// A best model has been replaced by that of another run.
    #[error(
        "the model {} is not of the run whose checkpoint.bpk is beside it; put back the file of that \
         run, or start a new run", path.display()
    )]
    ForeignBest {
        /// The file.
        path: PathBuf,
    },

    /// The checkpoint belongs to a run with other options.
    #[error(
        "checkpoint {} does not fit: {flag} is {given}, but the checkpoint was written with \
         {flag} {stored}; leave the flag out to use the checkpoint's value, or start a new run",
        path.display()
    )]
    CheckpointMismatch {
        /// The file.
        path: PathBuf,
        /// The option that differs.
        flag: &'static str,
        /// The value that was given.
        given: String,
        /// The value in the checkpoint.
        stored: String,
    },

    /// The loss is no longer a number.
    #[error(
        "the loss became {loss} in epoch {epoch} of stage {stage}; lower --learning-rate (now \
         {learning_rate}), or scale features of large magnitude"
    )]
    Diverged {
        /// The stage, from 0.
        stage: usize,
        /// The epoch, from 1.
        epoch: usize,
        /// The loss.
        loss: f64,
        /// The learning rate of the run.
        learning_rate: f64,
    },

    /// A result cannot be printed.
    #[error(transparent)]
    Output(#[from] OutputError),

    /// A request to stop came before the first step.
    #[error(
        "stopped while the graph was prepared, before the first step; nothing of a run has changed"
    )]
    Interrupted,

    /// The handler for Ctrl-C cannot be installed.
    #[error("cannot listen for Ctrl-C: {0}")]
    Interrupt(#[from] ctrlc::Error),

    /// A device fails.
    #[error("the device failed: {reason}")]
    Device {
        /// What it says.
        reason: String,
    },
}

impl From<DeviceNotCompiled> for GamlpError {
    fn from(error: DeviceNotCompiled) -> Self {
        let DeviceNotCompiled { device, available } = error;
        Self::DeviceNotCompiled { device, available }
    }
}

impl GamlpError {
    /// Exit code of a command that ends so: 2 if the command line is at fault, that of Ctrl-C after it,
    /// 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::DeviceNotCompiled { .. }
            | Self::Synthetic(_)
            | Self::TooLarge(_) => 2,
            Self::Interrupted => EXIT_INTERRUPTED,
            _ => 1,
        }
    }
}
