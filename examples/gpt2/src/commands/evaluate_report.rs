use crate::{DeviceChoice, EvalMethod, EvalScore, MlpMode, TextId};
use core::fmt;
use example_support::grouped;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The perplexities of a model on a text.
#[derive(Debug, Clone, PartialEq)]
pub struct EvaluateReport {
    /// Where the weights came from.
    pub model: PathBuf,
    /// Where it computed.
    pub device: DeviceChoice,
    /// Storage of the MLP matrices.
    pub mode: MlpMode,
    /// The text.
    pub text: TextId,
    /// Words of the text, ends of lines included.
    pub words: u64,
    /// Blocks that follow each other.
    pub block: EvalScore,
    /// Windows that overlap.
    pub strided: EvalScore,
    /// Seconds for both.
    pub seconds: f64,
}

impl EvaluateReport {
    /// Perplexity per word, of the windows that overlap; nothing if they leave out tokens.
    pub fn word_perplexity(&self) -> Option<f64> {
        self.strided.word_perplexity(self.words)
    }

    /// One JSON object; a definition that does not apply is `null`.
    pub fn to_json(&self) -> Value {
        let score = |score: &EvalScore| {
            let mut value = json!({
                "perplexity": score.perplexity(),
                "loss": score.loss(),
                "scored_tokens": score.scored,
            });
            match score.method {
                EvalMethod::Block { size } => value["size"] = size.into(),
                EvalMethod::Strided { context, stride } => {
                    value["context"] = context.into();
                    value["stride"] = stride.into();
                }
            }
            value
        };
        json!({
            "model": self.model.to_string_lossy(),
            "device": self.device,
            "mode": self.mode.to_string(),
            "text": self.text.name,
            "tokenizer": self.text.tokenizer,
            "bytes": self.text.bytes,
            "tokens": self.text.tokens,
            "words": self.words,
            "block": score(&self.block),
            "strided": score(&self.strided),
            "word": { "perplexity": self.word_perplexity(), "words": self.words },
            "seconds": self.seconds,
        })
    }
}

impl fmt::Display for EvaluateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} bytes, {} tokens ({}), {} words",
            self.text.name,
            grouped(self.text.bytes),
            grouped(self.text.tokens),
            self.text.tokenizer,
            grouped(self.words)
        )?;
        writeln!(f, "block:   {}", self.block)?;
        writeln!(f, "strided: {}", self.strided)?;
        match self.word_perplexity() {
            Some(perplexity) => write!(
                f,
                "words:   perplexity {perplexity:.4} per word ({} words, {})",
                grouped(self.words),
                self.strided.method
            ),
            None => write!(
                f,
                "words:   not measured, since the windows leave out tokens; give a smaller --stride"
            ),
        }
    }
}
