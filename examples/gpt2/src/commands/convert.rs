use crate::{
    ConfigError, DeviceChoice, Gpt2Error, LoadOptions, MagnitudePruning, MlpMode, PretrainedSource,
    PruneScope, SaveOptions, StorageReport, WeightDtype, WeightFormat, check_output_folder,
    print_err, print_out, save_pretrained,
};
use clap::{Parser, ValueEnum};
use std::path::{Path, PathBuf};

/// Files that belong to a model beside its weights and `config.json`.
const COMPANIONS: [&str; 8] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
];

/// Converts GPT-2 weights between the files of Hugging Face, sparse files and runs of gpt2_dst.
///
/// Reads a Hugging Face folder (config.json with model.safetensors or its shards), a folder that this
/// command wrote, or a run of gpt2_dst. With --sparsity, the smallest weights of the MLP matrices mlp.c_fc
/// and mlp.c_proj are dropped by magnitude; all other tensors stay as they are. Nothing that exists is
/// replaced unless --overwrite is given, and never before its successor is complete.
///
/// Exit codes: 0 done, 1 a file or folder that cannot be used, 2 a wrong option.
#[derive(Debug, Clone, Parser)]
#[command(name = "gpt2_convert", version)]
pub struct ConvertArgs {
    /// Folder or file with the weights, or folder or checkpoint.bpk of a run
    #[arg(long, value_name = "PATH")]
    pub from: PathBuf,
    /// Folder for the result
    #[arg(long, value_name = "DIR", required_unless_present = "report")]
    pub to: Option<PathBuf>,
    /// Layout of the result: hf is what transformers loads [default: hf]
    #[arg(long, value_enum, requires = "to")]
    pub format: Option<WeightFormat>,
    /// Storage of the MLP matrices; without --sparsity, sparse and masked keep the non-zeros
    /// [default: that of the source, or sparse with --sparsity]
    #[arg(long, value_enum)]
    pub mode: Option<MlpMode>,
    /// Share of the MLP weights to drop by magnitude, at least 0 and below 1 [default: drop none]
    #[arg(long, allow_negative_numbers = true)]
    pub sparsity: Option<f64>,
    /// Whether each matrix or all of them together get the sparsity [default: layer]
    #[arg(long, value_enum, requires = "sparsity")]
    pub scope: Option<PruneScope>,
    /// Number type of the weights in the result [default: f32]
    #[arg(long, value_enum)]
    pub dtype: Option<WeightDtype>,
    /// Print shape, non-zeros and bytes of every MLP matrix
    #[arg(
        long,
        value_enum,
        value_name = "FORM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "table"
    )]
    pub report: Option<ReportForm>,
    /// Replace the weights in --to
    #[arg(long, requires = "to")]
    pub overwrite: bool,
    /// Print only the report, warnings and errors
    #[arg(long)]
    pub quiet: bool,
}

/// How a report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportForm {
    /// For people.
    Table,
    /// One JSON object.
    Json,
}

/// Runs `gpt2_convert`: reads, converts, writes and reports. Warnings go to standard error.
///
/// # Errors
///
/// Any of [`PretrainedSource::open`], [`PretrainedSource::load`] and [`save_pretrained`];
/// [`Gpt2Error::Config`] for options that do not fit each other; [`Gpt2Error::Output`] if the report cannot
/// be printed, after the weights have been written.
pub fn convert(args: &ConvertArgs) -> Result<(), Gpt2Error> {
    if let Some(to) = &args.to {
        check_output_folder(to, args.overwrite)?;
    }
    let options = LoadOptions {
        mode: args.mode,
        pruning: args.sparsity.map(|sparsity| MagnitudePruning {
            sparsity,
            scope: args.scope.unwrap_or_default(),
        }),
        dropout: None,
    };
    let source = PretrainedSource::open(&args.from)?;
    let companions = companions(source.dir(), args.to.as_deref());
    let pretrained = source.load(&options, &host().open()?)?;
    for warning in &pretrained.warnings {
        print_err(format_args!("warning: {warning}"));
    }
    let dtype = args.dtype.unwrap_or_default();
    if let Some(to) = &args.to {
        let format = args.format.unwrap_or_default();
        let mode = pretrained.config.model.mode;
        if format == WeightFormat::Sparse && mode == MlpMode::Dense {
            let allowed = "hf for dense layers; add --mode sparse or --sparsity";
            return Err(ConfigError::new("--format", "sparse", allowed).into());
        }
        let options = SaveOptions {
            format,
            dtype,
            overwrite: args.overwrite,
            companions,
        };
        save_pretrained(&pretrained.model, &pretrained.config, to, &options)?;
        if !args.quiet {
            let path = to.join(format.file_name());
            print_err(format_args!("wrote {}", path.display()));
        }
    }
    if let Some(form) = args.report {
        let report = StorageReport::new(&pretrained.model, &pretrained.config, dtype);
        match form {
            ReportForm::Table => print_out(report)?,
            ReportForm::Json => {
                print_out(serde_json::to_string(&report).expect("all keys are strings"))?;
            }
        }
    }
    Ok(())
}

/// The device that needs no transfers, where there is one.
fn host() -> DeviceChoice {
    match DeviceChoice::available().contains(&DeviceChoice::Flex) {
        true => DeviceChoice::Flex,
        false => DeviceChoice::first(),
    }
}

/// The files of a tokenizer and the like in the folder of the source.
fn companions(from: &Path, to: Option<&Path>) -> Vec<PathBuf> {
    let same = |to: &Path| match (from.canonicalize(), to.canonicalize()) {
        (Ok(from), Ok(to)) => from == to,
        _ => false,
    };
    if to.is_none_or(same) {
        return Vec::new();
    }
    let paths = COMPANIONS.iter().map(|name| from.join(name));
    paths.filter(|path| path.is_file()).collect()
}
