use super::{GenerateReport, ModelArgs, tokenizer::tokenizer_for};
use crate::{
    ConfigError, Decoder, DeviceChoice, Gpt2Error, GpuMeter, Sampler, SamplingOptions,
    StreamDecoder, Token, Tokenizer, error::on_device, generate, print_err, print_out,
};
use clap::Parser;
use example_support::{FileError, OutputError, write_out};
use std::{
    fs,
    io::{self, IsTerminal, Read},
    path::PathBuf,
    time::Instant,
};

/// Tokens without `--tokens`, where the context has room for them.
const DEFAULT_TOKENS: usize = 128;

/// Writes text with a GPT-2 model.
///
/// Takes the weights of a Hugging Face folder, of gpt2_convert or of a run of gpt2_dst. The text that
/// follows the prompt goes to standard output as it comes, speed and memory go to standard error. Models of
/// 256 tokens write bytes, those of 50257 the tokens of GPT-2, where <|endoftext|> ends the text early.
///
/// Exit codes: 0 done, 1 a file or folder that cannot be used, a model whose logits are no numbers, or a
/// device that failed or is out of memory, 2 a wrong option.
#[derive(Debug, Clone, Parser)]
#[command(name = "gpt2_generate", version)]
pub struct GenerateArgs {
    /// The weights, and where they go.
    #[command(flatten)]
    pub weights: ModelArgs,
    /// Text to go on from [default: standard input]
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_file")]
    pub prompt: Option<String>,
    /// File with the text to go on from
    #[arg(long, value_name = "FILE")]
    pub prompt_file: Option<PathBuf>,
    /// Tokens to write; prompt and text fill the context of the model at most [default: 128, or
    /// what the context has room for]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub tokens: Option<usize>,
    /// Divides the logits: below 1 likely tokens become likelier; 0 takes the most probable token
    /// [default: 1]
    #[arg(long, allow_negative_numbers = true)]
    pub temperature: Option<f64>,
    /// Choose among so many of the most probable tokens [default: all]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub top_k: Option<usize>,
    /// Choose among the fewest most probable tokens that have this share of the probability, above 0
    /// and at most 1 [default: 1]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f64>,
    /// Seed of the choices [default: 42]
    #[arg(long, allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// Launch every operation by itself, instead of replaying a token's as one hardware graph
    #[arg(long)]
    pub no_capture: bool,
    /// Print one JSON object with text, tokens, speed and memory, and no text before it
    #[arg(long)]
    pub json: bool,
    /// Print only the text, warnings and errors
    #[arg(long)]
    pub quiet: bool,
}

impl GenerateArgs {
    /// How tokens are chosen.
    pub fn sampling(&self) -> SamplingOptions {
        let default = SamplingOptions::default();
        SamplingOptions {
            temperature: self.temperature.unwrap_or(default.temperature),
            top_k: self.top_k,
            top_p: self.top_p.unwrap_or(default.top_p),
            seed: self.seed.unwrap_or(default.seed),
        }
    }

    /// The flag that gives the prompt, and its text.
    fn prompt(&self) -> Result<(&'static str, Vec<u8>), Gpt2Error> {
        let flag = "--prompt";
        if let Some(prompt) = &self.prompt {
            return Ok((flag, prompt.clone().into_bytes()));
        }
        if let Some(path) = &self.prompt_file {
            let prompt = fs::read(path).map_err(FileError::of("read the prompt", path))?;
            return Ok(("--prompt-file", prompt));
        }
        if io::stdin().is_terminal() {
            let allowed = "given; or name a --prompt-file, or pipe a text to standard input";
            return Err(ConfigError::new(flag, "absent", allowed).into());
        }
        let mut prompt = Vec::new();
        io::stdin()
            .read_to_end(&mut prompt)
            .map_err(FileError::of("read the prompt from", "standard input"))?;
        Ok(("the prompt on standard input", prompt))
    }

    /// The number of tokens to write.
    fn count(
        &self,
        flag: &'static str,
        prompt: usize,
        context: usize,
    ) -> Result<usize, ConfigError> {
        if prompt == 0 {
            return Err(ConfigError::new(flag, "empty", "at least one token long"));
        }
        if prompt > context {
            let allowed = format!("at most the {context} of the model's context");
            return Err(ConfigError::new(
                flag,
                format!("{prompt} tokens long"),
                allowed,
            ));
        }
        // The last token is written, but not read.
        let room = context - prompt + 1;
        match self.tokens {
            None => Ok(DEFAULT_TOKENS.min(room)),
            Some(tokens) if (1..=room).contains(&tokens) => Ok(tokens),
            Some(tokens) => {
                let allowed = format!(
                    "between 1 and {room}: the context of {context} tokens has {prompt} of the prompt"
                );
                Err(ConfigError::new("--tokens", tokens, allowed))
            }
        }
    }
}

/// Runs `gpt2_generate`: options and prompt are checked before the weights are read.
///
/// # Errors
///
/// [`Gpt2Error::Config`] for options out of range, and for prompts and numbers of tokens that the context
/// cannot hold; [`Gpt2Error::NoTokenizer`] for a model of other tokens; [`Gpt2Error::Generate`] if its
/// logits are not finite; [`Gpt2Error::Device`] if the device fails; [`Gpt2Error::Output`]; any error of [`ModelArgs::open`] and [`ModelArgs::load`].
pub fn write_text(args: &GenerateArgs) -> Result<(), Gpt2Error> {
    let mut sampler = Sampler::new(args.sampling())?;
    let choice = args.weights.device();
    let device = choice.open()?;
    let source = args.weights.open()?;
    let config = source.config().model.clone();
    let tokenizer = tokenizer_for(config.vocabulary)?;
    let (flag, prompt) = args.prompt()?;
    let prompt = encode(tokenizer, flag, &prompt)?;
    let count = args.count(flag, prompt.len(), config.context)?;

    let with_less = "fewer --tokens, or a model with a higher --sparsity, take less";
    let report = on_device(with_less, || {
        let pretrained = args.weights.load(source, &device)?;
        let (model, mode) = (pretrained.model, pretrained.config.model.mode);
        let start = Instant::now();
        // The last token is written, but not read.
        let room =
            (prompt.len() + count - 1).max(crate::LEAST_CONTEXT_TO_RECORD.min(config.context));
        let mut decoder = Decoder::with_context(&model, 1, room, !args.no_capture)
            .with_meter(GpuMeter::open(0).filter(|_| choice == DeviceChoice::Cuda));
        drop(model);
        let prepare_seconds = start.elapsed().as_secs_f64();

        let mut out = Output::new(tokenizer, args.json);
        let end = end_of_text(tokenizer);
        let result = generate(&mut decoder, &prompt, count, end, &mut sampler, |tokens| {
            out.write(tokens);
        });
        let text = out.finish(result.is_ok());
        let generation = result?;
        let text = text?;
        Ok(GenerateReport {
            model: args.weights.model.clone(),
            device: choice,
            mode,
            sampling: args.sampling(),
            text,
            prepare_seconds,
            recorded: decoder.is_recorded(),
            memory: decoder.memory(),
            generation,
        })
    })?;
    if args.json {
        print_out(report.to_json())?;
    } else if !args.quiet {
        print_err(report);
    }
    Ok(())
}

/// The tokens of a prompt.
fn encode(
    tokenizer: Tokenizer,
    flag: &'static str,
    prompt: &[u8],
) -> Result<Vec<u32>, ConfigError> {
    let tokens = tokenizer.encode(prompt).map_err(|error| {
        let found = format!("not UTF-8 ({error})");
        ConfigError::new(flag, found, "UTF-8 for a model of GPT-2 tokens")
    })?;
    Ok(tokens.into_iter().map(u32::from).collect())
}

/// The token `<|endoftext|>`, behind which another text begins.
fn end_of_text(tokenizer: Tokenizer) -> Option<u32> {
    match tokenizer {
        Tokenizer::Bytes => None,
        Tokenizer::Gpt2 => Some(50_256),
    }
}

/// The text as it comes.
struct Output {
    stream: StreamDecoder,
    text: String,
    hidden: bool,
    /// The first failure to write; nothing is written after it.
    written: Result<(), OutputError>,
}

impl Output {
    fn new(tokenizer: Tokenizer, hidden: bool) -> Self {
        Self {
            stream: tokenizer.decoder(),
            text: String::new(),
            hidden,
            written: Ok(()),
        }
    }

    fn write(&mut self, tokens: &[u32]) {
        for &token in tokens {
            let token = Token::try_from(token).expect("both vocabularies fit into a token");
            let text = self.stream.push(token);
            let text = text.expect("the model has the vocabulary of the tokenizer");
            self.show(&text);
            self.text.push_str(&text);
        }
    }

    /// All of the text. Its line ends here, unless there is none because writing it failed.
    fn finish(mut self, complete: bool) -> Result<String, OutputError> {
        let rest = self.stream.clone().finish();
        self.text.push_str(&rest);
        let end = match complete || !self.text.is_empty() {
            true => "\n",
            false => "",
        };
        self.show(&format!("{rest}{end}"));
        self.written.map(|()| self.text)
    }

    fn show(&mut self, text: &str) {
        if !self.hidden && self.written.is_ok() && !text.is_empty() {
            self.written = write_out(text);
        }
    }
}
