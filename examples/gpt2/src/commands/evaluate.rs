use super::{EvaluateReport, ModelArgs, tokenizer::tokenizer_for};
use crate::{
    ConfigError, EvalMethod, EvalPlan, EvalScore, Gpt2, Gpt2Error, TextLoader, TextSource, Tokens,
    decode::for_inference, error::on_device, memory::check_pass, print_err, print_out,
};
use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{path::PathBuf, time::Instant};

/// Windows of a pass without `--batch`.
const DEFAULT_BATCH: usize = 8;

/// Measures the perplexity of a GPT-2 model on a text.
///
/// In three definitions, because a number means nothing without its own: per token in blocks that follow
/// each other, where a rest that fills no block is left out; per token in windows that overlap, so that all
/// tokens but the first are scored; and per word, from the same windows, which models of different tokens
/// share.
///
/// Exit codes: 0 done, 1 a file or folder that cannot be used, a model whose loss is no number, or a device
/// that failed or is out of memory, 2 a wrong option.
#[derive(Debug, Clone, Parser)]
#[command(name = "gpt2_eval", version)]
pub struct EvaluateArgs {
    /// The weights, and where they go.
    #[command(flatten)]
    pub weights: ModelArgs,
    /// Text to judge by: files (also .gz, .xz, .parquet) or folders, joined in the order of their paths
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    pub text: Vec<PathBuf>,
    /// Tokens of a block or window [default: the context of the model]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub context: Option<usize>,
    /// Tokens between the starts of two windows [default: half of --context]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub stride: Option<usize>,
    /// Blocks or windows of a pass [default: 8]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub batch: Option<usize>,
    /// Folder that keeps the tokens of texts for the next time [default: keep none]
    #[arg(long, value_name = "DIR")]
    pub token_cache: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Print only the result, warnings and errors
    #[arg(long)]
    pub quiet: bool,
}

impl EvaluateArgs {
    /// The length of a window and the distance of two.
    fn sizes(&self, context: usize) -> Result<(usize, usize), ConfigError> {
        let size = self.context.unwrap_or(context);
        if !(2..=context).contains(&size) {
            let allowed = format!("between 2 and {context}, the context of the model");
            return Err(ConfigError::new("--context", size, allowed));
        }
        let stride = self.stride.unwrap_or(size / 2);
        if !(1..=size).contains(&stride) {
            let allowed = format!("between 1 and {size}, the length of a window");
            return Err(ConfigError::new("--stride", stride, allowed));
        }
        Ok((size, stride))
    }
}

/// Runs `gpt2_eval`: options and text are checked before the weights are read.
///
/// # Errors
///
/// [`Gpt2Error::Config`] for options out of range and for a text that is shorter than a block;
/// [`Gpt2Error::Text`] for one that cannot be read; [`Gpt2Error::NoTokenizer`] for a model of other tokens;
/// [`Gpt2Error::TooLarge`] and [`Gpt2Error::Device`] for a batch or a model that the memory is too small for;
/// [`Gpt2Error::LossNotFinite`]; [`Gpt2Error::Output`]; any error of [`ModelArgs::open`] and [`ModelArgs::load`].
pub fn evaluate(args: &EvaluateArgs) -> Result<(), Gpt2Error> {
    let batch = args.batch.unwrap_or(DEFAULT_BATCH);
    crate::config::within("--batch", batch, 1, 1 << 16)?;
    let choice = args.weights.device();
    let device = choice.open()?;
    let source = args.weights.open()?;
    let model = &source.config().model;
    let tokenizer = tokenizer_for(model.vocabulary)?;
    let (size, stride) = args.sizes(model.context)?;

    let loader = TextLoader {
        cache: args.token_cache.clone(),
        quiet: args.quiet,
    };
    let (text, origin) = loader.load(&args.text, tokenizer)?;
    if let Some(warning) = origin.warning() {
        print_err(format_args!("warning: {warning}"));
    }
    let found = text.tokens().len();
    if found < size {
        return Err(Gpt2Error::TextTooShortToScore {
            name: text.id().name.clone(),
            found,
            needed: size,
        });
    }
    let words = TextSource::find(&args.text)?
        .count_words()
        .map_err(Gpt2Error::from)?;
    let plan = |method| EvalPlan::new(method, text.tokens().len());
    let block = plan(EvalMethod::Block { size })?;
    let context = size;
    let strided = plan(EvalMethod::Strided { context, stride })?;
    let most = block.windows().count().max(strided.windows().count());
    check_pass(choice, model, batch.min(most) * size)?;

    let with_less = "a smaller --batch or --context takes less";
    let report = on_device(with_less, || {
        let pretrained = args.weights.load(source, &device)?;
        let model = for_inference(&pretrained.model);
        let start = Instant::now();
        let score = |plan| score(&model, text.tokens(), plan, batch, args.quiet);
        Ok(EvaluateReport {
            model: args.weights.model.clone(),
            device: choice,
            mode: pretrained.config.model.mode,
            text: text.id().clone(),
            words,
            block: score(&block)?,
            strided: score(&strided)?,
            seconds: start.elapsed().as_secs_f64(),
        })
    })?;
    let printed = match args.json {
        true => print_out(report.to_json()),
        false => print_out(report),
    };
    Ok(printed?)
}

/// Scores a text and shows how far it is.
fn score(
    model: &Gpt2,
    text: &Tokens,
    plan: &EvalPlan,
    batch: usize,
    quiet: bool,
) -> Result<EvalScore, Gpt2Error> {
    let target = match quiet {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr(),
    };
    let style = ProgressStyle::with_template("{msg}  {bar:24} {pos}/{len}  ETA {eta}")
        .expect("the template is valid");
    let bar = ProgressBar::with_draw_target(Some(plan.windows().count() as u64), target)
        .with_style(style)
        .with_message(plan.method().to_string());
    let score = plan.score(batch, |windows| {
        let sums = model.window_nll(text, windows);
        bar.inc(windows.len() as u64);
        match sums.iter().find(|sum| !sum.is_finite()) {
            Some(&loss) => Err(Gpt2Error::LossNotFinite { loss }),
            None => Ok(sums),
        }
    });
    bar.finish_and_clear();
    score
}
