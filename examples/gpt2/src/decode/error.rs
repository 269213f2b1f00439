use thiserror::Error;

/// Tokens that a decoder does not take.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// A prompt has no tokens.
    #[error("prompt {sequence} is empty, but must have at least one token")]
    EmptyPrompt {
        /// The sequence of the batch, counted from 0.
        sequence: usize,
    },

    /// A prompt is longer than the context.
    #[error("the prompt has {tokens} tokens, but the context of the model is {context}")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Longest sequence of the model.
        context: usize,
    },

    /// The prompts of a batch have different lengths.
    #[error("prompt {sequence} has {found} tokens, but must have {expected}, as the first one has")]
    RaggedPrompts {
        /// The sequence of the batch, counted from 0.
        sequence: usize,
        /// Its tokens.
        found: usize,
        /// The tokens of the first prompt.
        expected: usize,
    },

    /// There are not as many sequences as the decoder was made for.
    #[error("got {found} sequences, but the decoder was made for {expected}")]
    WrongBatch {
        /// Sequences that were given.
        found: usize,
        /// Sequences of the decoder.
        expected: usize,
    },

    /// A number is no token of the model.
    #[error(
        "token {token} of sequence {sequence} is outside the vocabulary of the model, which has \
         {vocabulary} tokens"
    )]
    UnknownToken {
        /// The sequence of the batch, counted from 0.
        sequence: usize,
        /// The number.
        token: u32,
        /// Number of tokens of the model.
        vocabulary: usize,
    },

    /// There is no prompt yet.
    #[error("a step needs a prompt before it")]
    NoPrompt,

    /// The sequences fill the context.
    #[error(
        "the {context} tokens of the context are full; another token needs a shorter prompt or a \
         model with a longer context"
    )]
    ContextFull {
        /// Longest sequence of the model.
        context: usize,
    },
}
