use thiserror::Error;

/// Logits that say nothing about the next token.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum SampleError {
    /// A logit is `NaN` or infinite.
    #[error(
        "the model gives token {token} the logit {value}, which must be below infinity; its weights \
         or the activations that they lead to are no finite numbers"
    )]
    NotFinite {
        /// The token.
        token: usize,
        /// Its logit.
        value: f32,
    },

    /// No token can follow: all logits are minus infinity, or there are none.
    #[error("none of the {tokens} tokens has a probability above zero")]
    NoCandidate {
        /// Number of logits.
        tokens: usize,
    },
}
