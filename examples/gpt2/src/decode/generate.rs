use super::{DecodeError, Decoder};
use crate::{SampleError, Sampler, sample::check};
use burn::tensor::Tensor;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long tokens may stay on the device until the host looks at them.
const READ_EVERY: Duration = Duration::from_millis(40);
/// Most tokens between two looks.
const MOST_UNREAD: usize = 64;

/// What stops a text before its end.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum GenerateError {
    /// The decoder does not take the tokens.
    #[error(transparent)]
    Decode(#[from] DecodeError),

    /// The logits say nothing about the next token.
    #[error(transparent)]
    Sample(#[from] SampleError),
}

/// The tokens that a model wrote, and the time it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// The tokens behind the prompt.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Seconds from the prompt to the first token.
    pub prefill_seconds: f64,
    /// Seconds for all tokens after the first.
    pub decode_seconds: f64,
    /// Tokens after the first that were computed, those behind the end of the text included.
    pub decoded: usize,
    /// Energy for them in millijoules, where the [decoder has a meter](Decoder::with_meter).
    pub decode_mj: Option<u64>,
}

impl Generation {
    /// Tokens of the prompt per second.
    pub fn prefill_speed(&self) -> f64 {
        self.prompt_tokens as f64 / self.prefill_seconds
    }

    /// Energy of a token after the first, in millijoules, if it was measured.
    pub fn mj_per_token(&self) -> Option<f64> {
        let used = self.decode_mj.filter(|_| self.decoded > 0)?;
        Some(used as f64 / self.decoded as f64)
    }

    /// Tokens per second after the first; nothing if there are none.
    pub fn decode_speed(&self) -> Option<f64> {
        (self.decoded > 0).then(|| self.decoded as f64 / self.decode_seconds)
    }
}

/// Writes up to `count` tokens behind a prompt, with a decoder for one sequence.
///
/// `emit` gets the tokens as they come. At temperature 0 they come in groups, because the device goes on
/// without the host. A token equal to `end` is the last one and is not emitted.
///
/// # Errors
///
/// [`GenerateError`] if prompt and tokens do not fit the decoder, or if logits are not finite.
///
/// # Panics
///
/// Panics if `count` is 0.
pub fn generate(
    decoder: &mut Decoder,
    prompt: &[u32],
    count: usize,
    end: Option<u32>,
    sampler: &mut Sampler,
    mut emit: impl FnMut(&[u32]),
) -> Result<Generation, GenerateError> {
    assert!(count > 0, "generate: expected at least one token");
    let start = Instant::now();
    let mut writer = Writer {
        tokens: Vec::with_capacity(count),
        end,
        emit: &mut emit,
    };
    let logits = read(&decoder.prefill(&[prompt])?);
    let mut open = match sampler.options().is_greedy() {
        true => {
            check(&logits)?;
            writer.take(&read_tokens(decoder, 1))
        }
        false => draw(decoder, sampler, &logits, &mut writer)?,
    };
    let prefill_seconds = start.elapsed().as_secs_f64();

    let energy = decoder.energy_mj();
    let start = Instant::now();
    let mut decoded = 0;
    let mut group = 1;
    while open && decoded + 1 < count {
        let begin = Instant::now();
        if sampler.options().is_greedy() {
            let steps = group.min(count - 1 - decoded);
            for _ in 1..steps {
                decoder.step()?;
            }
            // What is not finite stays so: the newest logits show it for all of the group.
            check(&read(decoder.step()?))?;
            open = writer.take(&read_tokens(decoder, steps));
            decoded += steps;
            group = match begin.elapsed() < READ_EVERY / 2 {
                true => (2 * group).min(MOST_UNREAD),
                false if begin.elapsed() > READ_EVERY => (group / 2).max(1),
                false => group,
            };
        } else {
            let logits = read(decoder.step()?);
            open = draw(decoder, sampler, &logits, &mut writer)?;
            decoded += 1;
        }
    }
    let decode_seconds = start.elapsed().as_secs_f64();
    let used = energy.zip(decoder.energy_mj());
    Ok(Generation {
        tokens: writer.tokens,
        prompt_tokens: prompt.len(),
        prefill_seconds,
        decode_seconds,
        decoded,
        decode_mj: used.map(|(before, after)| after.saturating_sub(before)),
    })
}

/// Draws the next token and puts it in its place.
fn draw(
    decoder: &mut Decoder,
    sampler: &mut Sampler,
    logits: &[f32],
    writer: &mut Writer,
) -> Result<bool, GenerateError> {
    let token = sampler.sample(logits)? as u32;
    decoder.feed(&[token])?;
    Ok(writer.take(&[token]))
}

/// The newest tokens of the only sequence.
fn read_tokens(decoder: &Decoder, count: usize) -> Vec<u32> {
    let end = decoder.position() + 1;
    decoder.tokens(end - count..end).swap_remove(0)
}

fn read(logits: &Tensor<2>) -> Vec<f32> {
    logits.to_data().iter::<f32>().collect()
}

struct Writer<'a> {
    tokens: Vec<u32>,
    end: Option<u32>,
    emit: &'a mut dyn FnMut(&[u32]),
}

impl Writer<'_> {
    /// Takes tokens up to the end of the text; whether it goes on.
    fn take(&mut self, tokens: &[u32]) -> bool {
        let end = tokens.iter().position(|&token| Some(token) == self.end);
        let tokens = &tokens[..end.unwrap_or(tokens.len())];
        self.tokens.extend(tokens);
        if !tokens.is_empty() {
            (self.emit)(tokens);
        }
        end.is_none()
    }
}
