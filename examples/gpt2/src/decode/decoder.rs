use super::{
    DecodeError, DecodeMemory, DecodeState,
    cached_block::{prefill, step},
    inference::for_inference,
};
use crate::{Gpt2, GpuMeter};
use burn::tensor::{Device, Int, Tensor, TensorData};
use snack_burn::capture::Captured;
use std::{cell::RefCell, ops::Range, rc::Rc};

/// A shorter context cannot hold the steps that warm up a recording.
pub(crate) const LEAST_CONTEXT_TO_RECORD: usize = 8;

/// Writes tokens, one after the other, for several sequences at once.
///
/// Keys and values of all earlier tokens stay in a [`DecodeState`], so that a token costs one pass over
/// the weights. The most probable token goes on by itself, without leaving the device;
/// [`feed`](Self::feed) puts another one in its place. All computation is in the precision of the
/// weights, whatever the [`precision`](Gpt2::precision) of the model.
///
/// # Example
///
/// ```
/// use burn::tensor::Device;
/// use gpt2::{Decoder, Gpt2Config};
///
/// let device = Device::default();
/// let model = Gpt2Config::new(1, 16, 2, 8).init(1, &device);
/// let mut decoder = Decoder::new(&model, 1, false);
/// decoder.prefill(&[b"to".map(u32::from)])?;
/// decoder.step()?;
/// decoder.step()?;
/// assert_eq!(decoder.tokens(0..5)[0].len(), 5);
/// # Ok::<(), gpt2::DecodeError>(())
/// ```
pub struct Decoder {
    session: Rc<RefCell<Session>>,
    step: Step,
    batch: usize,
    context: usize,
    vocabulary: usize,
    /// Tokens in the caches.
    position: usize,
    meter: Option<GpuMeter>,
}

/// What a recorded step and the decoder share. Replays see what the decoder writes in between, because
/// both have the same tensors, not clones of them.
struct Session {
    model: Gpt2,
    state: DecodeState,
}

enum Step {
    /// Runs operation by operation; holds the newest logits.
    Eager(Option<Tensor<2>>),
    Recorded(Captured<Tensor<2>>),
}

impl Decoder {
    /// Prepares to write `batch` sequences as long as the context of the model; see
    /// [`with_context`](Self::with_context).
    ///
    /// # Panics
    ///
    /// Panics if `batch` is 0.
    pub fn new(model: &Gpt2, batch: usize, record: bool) -> Self {
        let [context, _] = model.wpe.weight.dims();
        Self::with_context(model, batch, context, record)
    }

    /// Prepares to write `batch` sequences of at most `context` tokens, for which there will be room.
    ///
    /// With `record`, the step is [captured](Captured), which runs it a few times; where the device cannot
    /// record, and with contexts of less than 8 tokens, this only costs that time. While it records, other
    /// threads must leave the device alone.
    ///
    /// # Panics
    ///
    /// Panics if `batch` is 0, or if `context` is 0 or more than that of the model.
    pub fn with_context(model: &Gpt2, batch: usize, context: usize, record: bool) -> Self {
        assert!(batch > 0, "Decoder: a batch needs a sequence");
        let [most, _] = model.wpe.weight.dims();
        assert!(
            (1..=most).contains(&context),
            "Decoder: expected a context of 1 to {most} tokens, got {context}"
        );
        let model = for_inference(model);
        let [vocabulary, _] = model.wte.weight.dims();
        let state = DecodeState::new(&model, batch, context);
        let device = state.device();
        let session = Rc::new(RefCell::new(Session { model, state }));
        let step = match record && context >= LEAST_CONTEXT_TO_RECORD {
            false => Step::Eager(None),
            true => {
                let session = session.clone();
                Step::Recorded(Captured::new(&device, move || session.borrow_mut().step()))
            }
        };
        Self {
            session,
            step,
            batch,
            context,
            vocabulary,
            position: 0,
            meter: None,
        }
    }

    /// Reads the energy of the GPU that it runs on from `meter`.
    pub fn with_meter(mut self, meter: Option<GpuMeter>) -> Self {
        self.meter = meter;
        self
    }

    /// Energy that the GPU has used so far, in millijoules, if there is a meter.
    pub(super) fn energy_mj(&self) -> Option<u64> {
        Some(self.meter.as_ref()?.read()?.energy_mj)
    }

    /// Starts anew with these prompts and returns the logits of the next token.
    ///
    /// # Shapes
    ///
    /// - output: `[batch, vocabulary]`
    ///
    /// # Errors
    ///
    /// Any [`DecodeError`] that is about prompts; nothing changes then.
    pub fn prefill<P: AsRef<[u32]>>(&mut self, prompts: &[P]) -> Result<Tensor<2>, DecodeError> {
        self.check_batch(prompts.len())?;
        let length = prompts[0].as_ref().len();
        for (sequence, prompt) in prompts.iter().enumerate() {
            let prompt = prompt.as_ref();
            if prompt.is_empty() {
                return Err(DecodeError::EmptyPrompt { sequence });
            }
            if prompt.len() != length {
                return Err(DecodeError::RaggedPrompts {
                    sequence,
                    found: prompt.len(),
                    expected: length,
                });
            }
            for &token in prompt {
                self.check_token(sequence, token)?;
            }
        }
        if length > self.context {
            return Err(DecodeError::PromptTooLong {
                tokens: length,
                context: self.context,
            });
        }
        let tokens = prompts.iter().flat_map(|prompt| prompt.as_ref());
        let mut session = self.session.borrow_mut();
        let prompt = upload(tokens, [self.batch, length], &session.state.device());
        let Session { model, state } = &mut *session;
        let logits = prefill(model, state, prompt);
        drop(session);
        self.position = length;
        Ok(logits)
    }

    /// Reads the token that comes next in every sequence, and returns the logits of the one after it. They
    /// are gone with the next step.
    ///
    /// # Shapes
    ///
    /// - output: `[batch, vocabulary]`
    ///
    /// # Errors
    ///
    /// [`DecodeError::NoPrompt`] before the first [`prefill`](Self::prefill);
    /// [`DecodeError::ContextFull`] at the end of the context.
    pub fn step(&mut self) -> Result<&Tensor<2>, DecodeError> {
        if self.position == 0 {
            return Err(DecodeError::NoPrompt);
        }
        if self.position == self.context {
            return Err(DecodeError::ContextFull {
                context: self.context,
            });
        }
        self.position += 1;
        Ok(match &mut self.step {
            Step::Recorded(captured) => captured.replay(),
            Step::Eager(logits) => logits.insert(self.session.borrow_mut().step()),
        })
    }

    /// Sets the tokens that come next, in place of the most probable ones.
    ///
    /// # Errors
    ///
    /// [`DecodeError::NoPrompt`] before the first prompt; [`DecodeError::WrongBatch`] and
    /// [`DecodeError::UnknownToken`] for tokens that do not fit. Nothing changes then.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<(), DecodeError> {
        if self.position == 0 {
            return Err(DecodeError::NoPrompt);
        }
        self.check_batch(tokens.len())?;
        for (sequence, &token) in tokens.iter().enumerate() {
            self.check_token(sequence, token)?;
        }
        let state = &mut self.session.borrow_mut().state;
        let tokens = upload(tokens, [self.batch, 1], &state.device());
        state.propose(tokens);
        Ok(())
    }

    /// Reads a range of the tokens of every sequence, prompt and next token included.
    ///
    /// # Panics
    ///
    /// Panics if the range leaves the `position() + 1` tokens there are.
    pub fn tokens(&self, range: Range<usize>) -> Vec<Vec<u32>> {
        assert!(
            self.position > 0 && range.start < range.end && range.end <= self.position + 1,
            "Decoder::tokens: the range {range:?} leaves the tokens, of which there are {}",
            self.position + 1
        );
        let tokens = self.session.borrow().state.tokens();
        let length = range.len();
        let data = tokens.narrow(1, range.start, length).into_data();
        let tokens: Vec<u32> = data.iter::<u32>().collect();
        tokens.chunks(length).map(<[u32]>::to_vec).collect()
    }

    /// Tokens read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Longest sequence.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Whether a step is replayed as one hardware graph.
    pub fn is_recorded(&self) -> bool {
        matches!(&self.step, Step::Recorded(captured) if captured.is_hardware())
    }

    /// Memory of model and state.
    pub fn memory(&self) -> DecodeMemory {
        let session = self.session.borrow();
        DecodeMemory::new(&session.model, &session.state, self.meter.as_ref())
    }

    fn check_batch(&self, found: usize) -> Result<(), DecodeError> {
        match found == self.batch {
            true => Ok(()),
            false => Err(DecodeError::WrongBatch {
                found,
                expected: self.batch,
            }),
        }
    }

    fn check_token(&self, sequence: usize, token: u32) -> Result<(), DecodeError> {
        match (token as usize) < self.vocabulary {
            true => Ok(()),
            false => Err(DecodeError::UnknownToken {
                sequence,
                token,
                vocabulary: self.vocabulary,
            }),
        }
    }
}

impl Session {
    fn step(&mut self) -> Tensor<2> {
        step(&self.model, &mut self.state)
    }
}

fn upload<'a>(
    tokens: impl IntoIterator<Item = &'a u32>,
    shape: [usize; 2],
    device: &Device,
) -> Tensor<2, Int> {
    let tokens: Vec<i32> = tokens.into_iter().map(|&token| token as i32).collect();
    Tensor::from_data(TensorData::new(tokens, shape), device)
}
