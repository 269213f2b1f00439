use crate::{ConfigError, DeviceChoice, EpochRecord, IdxError, ImagesError, Options};
use example_support::DeviceNotCompiled;
use snack_burn::dst::DstError;
use std::{io, path::PathBuf};
use thiserror::Error;

/// Everything that can stop a run.
#[derive(Debug, Error)]
pub enum FashionError {
    /// An option has a value outside its range.
    #[error(transparent)]
    Config(#[from] ConfigError),

    /// The chosen device was not compiled in.
    #[error(
        "the device {device} is not part of this build (it has: {available}); build with \
         `--features {device}`, as in `cargo run --release --features {device} --example \
         fashion_mnist -- --device {device}`, or choose another --device"
    )]
    DeviceNotCompiled {
        /// The device that was asked for.
        device: DeviceChoice,
        /// The devices of this build.
        available: String,
    },

    /// A file of the data set is not there.
    #[error(
        "there is no {} (nor the same without .gz); the folder must hold the four files of \
         Fashion-MNIST, which Debian's package dataset-fashion-mnist puts into \
         /usr/share/datasets/fashion-mnist; leave --data out for the 3,000 images that ship with \
         the example", path.display()
    )]
    MissingFile {
        /// The file that was looked for last.
        path: PathBuf,
    },

    /// A file of the data set cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// A file of the data set is not an idx file.
    #[error("{} cannot be used: {source}", path.display())]
    Idx {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: IdxError,
    },

    /// Images and labels do not belong together.
    #[error("{} and its labels cannot be used: {source}", path.display())]
    Images {
        /// The file of the images.
        path: PathBuf,
        /// What is wrong.
        source: ImagesError,
    },

    /// Training and test images differ in size.
    #[error(
        "{} cannot be used: training images have {} x {} pixels, test images {} x {}",
        folder.display(), train[0], train[1], test[0], test[1]
    )]
    Sizes {
        /// The folder of the data.
        folder: PathBuf,
        /// Height and width of training images.
        train: [usize; 2],
        /// Height and width of test images.
        test: [usize; 2],
    },

    /// The topology cannot be set up or updated.
    #[error(transparent)]
    Topology(#[from] DstError),

    /// The output folder holds other results.
    #[error(
        "the folder {} already holds results; add --overwrite to replace them, or choose another \
         --out", dir.display()
    )]
    FolderInUse {
        /// The folder.
        dir: PathBuf,
    },

    /// A file or folder of the run cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// The results cannot be printed.
    #[error(
        "cannot write the results to standard output: {source}; they are in {}", dir.display()
    )]
    Output {
        /// The folder in which the results are.
        dir: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// The loss is no longer a number.
    #[error(
        "the loss became {loss} in epoch {epoch} of {method} with seed {seed}; lower \
         --learning-rate (now {learning_rate})"
    )]
    Diverged {
        /// The training rule.
        method: String,
        /// The seed.
        seed: u64,
        /// The epoch, counted from 1.
        epoch: usize,
        /// The loss.
        loss: f64,
        /// The learning rate.
        learning_rate: f64,
    },

    /// Burn's `Learner` stopped.
    #[error("the Learner stopped: {0}")]
    Learner(String),
}

impl From<DeviceNotCompiled> for FashionError {
    fn from(error: DeviceNotCompiled) -> Self {
        let DeviceNotCompiled { device, available } = error;
        Self::DeviceNotCompiled { device, available }
    }
}

impl FashionError {
    pub(crate) fn diverged(options: &Options, seed: u64, record: &EpochRecord) -> Self {
        Self::Diverged {
            method: options.method.to_string(),
            seed,
            epoch: record.epoch,
            loss: record.train_loss,
            learning_rate: options.learning_rate,
        }
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
