use crate::{ConfigError, DeviceChoice, GenerateError, TextError, Tokenizer, WeightFileError};
use example_support::{
    DeviceFailure, DeviceNotCompiled, FileError, FolderBusy, LogError, OutputError, RunDirError,
    TooLarge, catch_failure, counted,
};
use snack_burn::{
    dist::DistError,
    prelude::{CheckpointError, DstError},
};
use std::{io, path::PathBuf};
use thiserror::Error;

/// Everything that can stop a run.
#[derive(Debug, Error)]
pub enum Gpt2Error {
    /// An option has a value outside its range.
    #[error(transparent)]
    Config(#[from] ConfigError),

    /// The chosen device was not compiled in.
    #[error(
        "the device {device} is not part of this build (it has: {available}); build with \
         `--features {device}`, as in `cargo run --release --features {device} --example gpt2_dst`, \
         or choose another device"
    )]
    DeviceNotCompiled {
        /// The device that was asked for.
        device: DeviceChoice,
        /// The devices of this build.
        available: String,
    },

    /// The devices that train together cannot go on.
    #[error("training on several devices: {0}")]
    Ranks(#[from] DistError),

    /// The program has failed on one of several devices.
    #[error(
        "training on device {rank} of {ranks} failed: {failure}{}",
        hint(failure, TRAIN_WITH_LESS)
    )]
    RankPanicked {
        /// The device, counted from 0.
        rank: usize,
        /// Number of devices.
        ranks: usize,
        /// What it said.
        failure: DeviceFailure,
    },

    /// The device has failed, or the program on it.
    #[error("{}: {failure}{}", what_failed(failure), hint(failure, with_less))]
    Device {
        /// What it said.
        failure: DeviceFailure,
        /// What to do where it had too little memory.
        with_less: &'static str,
    },

    /// A model can never fit into the machine.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),

    /// A text cannot be read or turned into tokens.
    #[error(transparent)]
    Text(#[from] TextError),

    /// A tokenizer and a model do not belong together.
    #[error(
        "the tokenizer {tokenizer} has {} tokens, but the model has {vocabulary}; models of 256 tokens go with \
         --tokenizer bytes, of 50257 with --tokenizer gpt2, no others", tokenizer.vocabulary()
    )]
    VocabularyMismatch {
        /// The tokenizer.
        tokenizer: Tokenizer,
        /// Number of tokens of the model.
        vocabulary: usize,
    },

    /// A method of training does not suit the model.
    #[error("the topology of the run: {0}")]
    Topology(#[from] DstError),

    /// A text is too short to be judged.
    #[error(
        "the text {name} is too short: it has {found} tokens, but must have at least {needed} (one block)"
    )]
    TextTooShortToScore {
        /// Where the text came from.
        name: String,
        /// Its tokens.
        found: usize,
        /// Tokens that it must have.
        needed: usize,
    },

    /// A part of the text is shorter than one window.
    #[error(
        "the text {name} is too short: its {part} part has {found} of {total} {unit}s, but must \
         have at least {needed} (one window of --context {context} {unit}s and the {unit} after it)"
    )]
    TextTooShort {
        /// Where the text came from.
        name: String,
        /// What a token is called.
        unit: &'static str,
        /// `training` or `held-out`.
        part: &'static str,
        /// Tokens of that part.
        found: usize,
        /// Tokens of the whole text.
        total: usize,
        /// Tokens that the part must have.
        needed: usize,
        /// The context.
        context: usize,
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

    /// Weights to start from that nothing can be learnt from.
    #[error(
        "{count} of the {} of {name} in {} {} infinite or not a number, and so would the loss be; choose another \
         --init",
        counted(*total, "element"), path.display(), if *count == 1 { "is" } else { "are" }
    )]
    NonFiniteInit {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// How many of its elements.
        count: usize,
        /// How many elements it has.
        total: usize,
    },

    /// The checkpoint cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),

    /// Weights cannot be read from or written to files.
    #[error(transparent)]
    WeightFile(#[from] WeightFileError),

    /// The checkpoint can be read, but was not written by this program.
    #[error(
        "checkpoint {} was not written by this example: {reason}; choose a checkpoint that \
         gpt2_dst wrote", path.display()
    )]
    ForeignCheckpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
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
        "the loss became {loss} at step {step}; lower --learning-rate (now {learning_rate}) or \
         raise --warmup (now {warmup})"
    )]
    Diverged {
        /// The step.
        step: usize,
        /// The loss.
        loss: f64,
        /// The peak learning rate of the run.
        learning_rate: f64,
        /// The warm-up steps of the run.
        warmup: usize,
    },

    /// A text cannot be written, or not to its end.
    #[error(transparent)]
    Generate(#[from] GenerateError),

    /// The loss of a text is no number.
    #[error(
        "the loss of the text is {loss}; the weights of the model, or the activations that they lead \
         to, are no finite numbers"
    )]
    LossNotFinite {
        /// The sum over its tokens.
        loss: f64,
    },

    /// The tokens of a model are not those of any tokenizer.
    #[error(
        "the model has {vocabulary} tokens, but text becomes {} (bytes) or {} (gpt2); choose another \
         --model", Tokenizer::Bytes.vocabulary(), Tokenizer::Gpt2.vocabulary()
    )]
    NoTokenizer {
        /// Number of tokens of the model.
        vocabulary: usize,
    },

    /// A result cannot be printed.
    #[error(transparent)]
    Output(#[from] OutputError),

    /// The handler for Ctrl-C cannot be installed.
    #[error("cannot listen for Ctrl-C: {0}")]
    Interrupt(#[from] ctrlc::Error),
}

/// What takes less memory in training.
pub(crate) const TRAIN_WITH_LESS: &str =
    "a smaller --batch, which a larger --accumulate makes up for, and --checkpointing take less";

fn what_failed(failure: &DeviceFailure) -> &'static str {
    match failure.is_out_of_memory() {
        true => "the device is out of memory",
        false => "the device failed, or the program on it",
    }
}

fn hint(failure: &DeviceFailure, with_less: &str) -> String {
    match failure.is_out_of_memory() {
        true => format!("; {with_less}"),
        false => String::new(),
    }
}

/// Runs `act`, which computes on one device. What takes less memory is said where it had too little.
///
/// # Errors
///
/// [`Gpt2Error::Device`] if it panics, by which back ends say that a device has failed; any error of `act`.
pub(crate) fn on_device<T>(
    with_less: &'static str,
    act: impl FnOnce() -> Result<T, Gpt2Error>,
) -> Result<T, Gpt2Error> {
    catch_failure(act).unwrap_or_else(|failure| Err(Gpt2Error::Device { failure, with_less }))
}

impl Gpt2Error {
    /// Exit code of a command that ends so: 2 if the command line is at fault, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::DeviceNotCompiled { .. }
            | Self::TooLarge(_)
            | Self::VocabularyMismatch { .. } => 2,
            _ => 1,
        }
    }
}

impl From<DeviceNotCompiled> for Gpt2Error {
    fn from(error: DeviceNotCompiled) -> Self {
        let DeviceNotCompiled { device, available } = error;
        Self::DeviceNotCompiled { device, available }
    }
}

/// An error of the crate tempfile without the path that it adds: the temporary name of a file says nothing
/// to those who asked for another one.
pub(crate) fn without_path(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path \"") {
        Some((reason, _)) if error.get_ref().is_some() => io::Error::new(error.kind(), reason),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_of_a_device_are_errors() {
        let error = |text: &'static str| {
            on_device::<()>("less takes less", || panic!("{text}")).unwrap_err()
        };
        let full = error("An out-of-memory error happened during launch");
        assert_eq!(
            full.to_string(),
            "the device is out of memory: An out-of-memory error happened during launch; less takes less"
        );
        assert_eq!(full.exit_code(), 1);
        assert_eq!(
            error("a bug").to_string(),
            "the device failed, or the program on it: a bug"
        );
        let loss = || Err::<(), _>(Gpt2Error::LossNotFinite { loss: f64::NAN });
        let kept = on_device("", loss).unwrap_err();
        assert!(matches!(kept, Gpt2Error::LossNotFinite { .. }));
        assert!(matches!(on_device("", || Ok(3)), Ok(3)));
    }

    #[test]
    fn wrong_options_have_an_exit_code_of_their_own() {
        let config = ConfigError::new("--steps", 0, "positive");
        assert_eq!(Gpt2Error::from(config).exit_code(), 2);
        let mismatch = Gpt2Error::VocabularyMismatch {
            tokenizer: Tokenizer::Bytes,
            vocabulary: 7,
        };
        assert_eq!(mismatch.exit_code(), 2);
        assert_eq!(Gpt2Error::LossNotFinite { loss: 0.0 }.exit_code(), 1);
    }

    #[test]
    fn temporary_paths_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let absent = dir.path().join("absent");
        let expected = std::fs::read_dir(&absent).unwrap_err();
        let error = tempfile::NamedTempFile::new_in(&absent).unwrap_err();
        assert!(error.to_string().contains("absent"), "{error}");

        let error = without_path(error);
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(error.to_string(), expected.to_string());
        assert!(without_path(expected).raw_os_error().is_some());
    }
}
