use crate::{
    DeviceChoice, Gpt2Error, LoadOptions, MagnitudePruning, MlpMode, Pretrained, PretrainedSource,
    PruneScope, print_err,
};
use burn::tensor::Device;
use std::path::PathBuf;

/// The flags of commands that use a trained model.
#[derive(Debug, Clone, clap::Args)]
pub struct ModelArgs {
    /// Folder or file with the weights, or folder or checkpoint.bpk of a run
    #[arg(long, value_name = "PATH")]
    pub model: PathBuf,
    /// Storage of the MLP matrices; without --sparsity, sparse and masked keep the non-zeros
    /// [default: that of the weights, or sparse with --sparsity]
    #[arg(long, value_enum)]
    pub mode: Option<MlpMode>,
    /// Share of the MLP weights to drop by magnitude, at least 0 and below 1 [default: drop none]
    #[arg(long, allow_negative_numbers = true)]
    pub sparsity: Option<f64>,
    /// Whether each matrix or all of them together get the sparsity [default: layer]
    #[arg(long, value_enum, requires = "sparsity")]
    pub scope: Option<PruneScope>,
    /// Back end; all but the compiled ones need `--features` of the same name [default: the first
    /// of cuda, metal, rocm, vulkan, wgpu, cpu, flex that is compiled in]
    #[arg(long, value_enum)]
    pub device: Option<DeviceChoice>,
}

impl ModelArgs {
    /// The device that computes.
    pub fn device(&self) -> DeviceChoice {
        self.device.unwrap_or_else(DeviceChoice::first)
    }

    /// Opens the weights; their tensors are not read yet.
    ///
    /// # Errors
    ///
    /// As [`PretrainedSource::open`].
    pub fn open(&self) -> Result<PretrainedSource, Gpt2Error> {
        PretrainedSource::open(&self.model)
    }

    /// Reads opened weights onto the device. Warnings go to standard error.
    ///
    /// # Errors
    ///
    /// As [`PretrainedSource::load`].
    pub fn load(&self, source: PretrainedSource, device: &Device) -> Result<Pretrained, Gpt2Error> {
        let options = LoadOptions {
            mode: self.mode,
            pruning: self.sparsity.map(|sparsity| MagnitudePruning {
                sparsity,
                scope: self.scope.unwrap_or_default(),
            }),
            dropout: None,
        };
        let pretrained = source.load(&options, device)?;
        for warning in &pretrained.warnings {
            print_err(format_args!("warning: {warning}"));
        }
        Ok(pretrained)
    }
}
