use crate::ConfigError;
use core::{fmt, ops::Range};

/// Which tokens of a text a model scores, and how much of the text before them it sees.
///
/// Perplexities of one model on one text differ by several per cent between the methods, so a
/// number means something only with its method and its number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvalMethod {
    /// Blocks of `size` tokens that follow each other, as the language-modelling scripts of Hugging
    /// Face cut them. Every block scores all of its tokens but the first; a rest that fills no block
    /// is dropped.
    Block {
        /// Tokens of a block.
        size: usize,
    },
    /// Windows of up to `context` tokens, one every `stride` tokens, as in the perplexity guide of
    /// Hugging Face. Every window scores the tokens that the window before does not reach. With a
    /// stride below the context every token of the text but the first is scored once; with a stride
    /// of the context the windows are blocks, and a shorter last one is kept.
    Strided {
        /// Most tokens of a window.
        context: usize,
        /// Tokens between the starts of two windows, at most the context.
        stride: usize,
    },
}

impl fmt::Display for EvalMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block { size } => write!(f, "blocks of {size} tokens"),
            Self::Strided { context, stride } => {
                write!(f, "windows of {context} tokens, stride {stride}")
            }
        }
    }
}

/// One forward pass: a stretch of text, and the tokens of it whose predictions count.
///
/// The model reads all tokens but the last and predicts all but the first, which nothing precedes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalWindow {
    /// The tokens of the window, as places in the text.
    pub tokens: Range<usize>,
    /// Those of them that are scored, as places in the text; the first token of the window is never
    /// one of them.
    pub scored: Range<usize>,
}

impl EvalWindow {
    /// The scored ones among the predictions of the window: prediction `i` is that of token
    /// `tokens.start + i + 1`.
    pub fn predictions(&self) -> Range<usize> {
        let first = self.tokens.start + 1;
        self.scored.start - first..self.scored.end - first
    }
}

/// The windows that score a text of some length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvalPlan {
    method: EvalMethod,
    tokens: usize,
}

impl EvalPlan {
    /// Plans to score a text of `tokens` tokens.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a block or context is shorter than two tokens, if the stride is 0 or
    /// above the context, or if the text is too short to score one token.
    pub fn new(method: EvalMethod, tokens: usize) -> Result<Self, ConfigError> {
        let (name, length) = match method {
            EvalMethod::Block { size } => ("block size", size),
            EvalMethod::Strided { context, .. } => ("context", context),
        };
        if length < 2 {
            return Err(ConfigError::new(name, length, "at least 2"));
        }
        if let EvalMethod::Strided { context, stride } = method
            && !(1..=context).contains(&stride)
        {
            let allowed = format!("between 1 and the context {context}");
            return Err(ConfigError::new("stride", stride, allowed));
        }
        let least = match method {
            EvalMethod::Block { size } => size,
            EvalMethod::Strided { .. } => 2,
        };
        if tokens < least {
            let allowed = format!("at least {least} to score {method}");
            return Err(ConfigError::new("length of the text", tokens, allowed));
        }
        Ok(Self { method, tokens })
    }

    /// Which tokens are scored, and how.
    pub fn method(&self) -> EvalMethod {
        self.method
    }

    /// Length of the text.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The windows, first to last.
    pub fn windows(&self) -> impl Iterator<Item = EvalWindow> + '_ {
        let (count, stride) = match self.method {
            EvalMethod::Block { size } => (self.tokens / size, size),
            // The first window that reaches the end is the last.
            EvalMethod::Strided { context, stride } => {
                let rest = self.tokens.saturating_sub(context);
                (rest.div_ceil(stride) + 1, stride)
            }
        };
        (0..count)
            .map(move |index| self.window(index * stride, stride))
            .filter(|window| !window.scored.is_empty())
    }

    fn window(&self, start: usize, stride: usize) -> EvalWindow {
        let length = match self.method {
            EvalMethod::Block { size } => size,
            EvalMethod::Strided { context, .. } => context,
        };
        let end = (start + length).min(self.tokens);
        // Where the window before ends.
        let reached = match start {
            0 => 0,
            _ => start - stride + length,
        };
        EvalWindow {
            tokens: start..end,
            scored: reached.max(start + 1).min(end)..end,
        }
    }

    /// Number of tokens that are scored.
    pub fn scored(&self) -> usize {
        self.windows().map(|window| window.scored.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(method: EvalMethod, tokens: usize) -> EvalPlan {
        EvalPlan::new(method, tokens).unwrap()
    }

    /// How often every token is scored, after checking that every window makes sense.
    fn counts(plan: &EvalPlan, longest: usize) -> Vec<usize> {
        let mut counts = vec![0; plan.tokens()];
        for window in plan.windows() {
            let EvalWindow { tokens, scored } = window.clone();
            assert!(
                tokens.len() <= longest && tokens.end <= counts.len(),
                "{window:?}"
            );
            assert!(
                scored.start > tokens.start && scored.end == tokens.end,
                "{window:?}"
            );
            assert!(!scored.is_empty(), "{window:?}");
            assert_eq!(window.predictions().len(), scored.len());
            assert_eq!(window.predictions().end, tokens.len() - 1);
            counts[scored].iter_mut().for_each(|count| *count += 1);
        }
        assert_eq!(counts.iter().sum::<usize>(), plan.scored());
        counts
    }

    #[test]
    fn strides_below_the_context_score_every_token_but_the_first_once() {
        for context in 2..=9 {
            for stride in 1..context {
                for tokens in 2..=40 {
                    let plan = plan(EvalMethod::Strided { context, stride }, tokens);
                    let counts = counts(&plan, context);
                    let expected = (0..tokens).map(|token| usize::from(token > 0));
                    assert!(counts.into_iter().eq(expected), "{plan:?}");
                }
            }
        }
    }

    /// The loop of the guide, token by token.
    #[test]
    fn strided_windows_are_those_of_the_guide() {
        for context in 2..=9 {
            for stride in 1..=context {
                for tokens in 2..=40 {
                    let mut expected = Vec::new();
                    let mut previous_end = 0;
                    for begin in (0..tokens).step_by(stride) {
                        let end = (begin + context).min(tokens);
                        let target = end - previous_end;
                        let scored = (end - target).max(begin + 1)..end;
                        if !scored.is_empty() {
                            let tokens = begin..end;
                            expected.push(EvalWindow { tokens, scored });
                        }
                        previous_end = end;
                        if end == tokens {
                            break;
                        }
                    }
                    let plan = plan(EvalMethod::Strided { context, stride }, tokens);
                    assert!(plan.windows().eq(expected), "{plan:?}");
                }
            }
        }
    }

    #[test]
    fn blocks_score_all_but_their_first_token_and_drop_the_rest() {
        for size in 2..=9 {
            for tokens in size..=40 {
                let plan = plan(EvalMethod::Block { size }, tokens);
                let counts = counts(&plan, size);
                let whole = tokens / size * size;
                let expected =
                    (0..tokens).map(|token| usize::from(token < whole && token % size > 0));
                assert!(counts.into_iter().eq(expected), "{plan:?}");
                assert_eq!(plan.scored(), tokens / size * (size - 1));
            }
        }
    }

    #[test]
    fn a_stride_of_the_context_gives_the_blocks_and_their_rest() {
        for tokens in 4..=40 {
            let blocks = plan(EvalMethod::Block { size: 4 }, tokens);
            let strided = EvalMethod::Strided {
                context: 4,
                stride: 4,
            };
            let strided: Vec<_> = plan(strided, tokens).windows().collect();
            let blocks: Vec<_> = blocks.windows().collect();
            assert_eq!(strided[..blocks.len()], blocks);
            let rest = usize::from(tokens % 4 > 1);
            assert_eq!(strided.len(), blocks.len() + rest);
        }
    }

    #[test]
    fn what_cannot_be_planned_is_named() {
        let message = |method, tokens| EvalPlan::new(method, tokens).unwrap_err().to_string();
        let strided = |context, stride| EvalMethod::Strided { context, stride };

        assert_eq!(
            message(EvalMethod::Block { size: 1 }, 9),
            "block size is 1, but must be at least 2"
        );
        assert_eq!(
            message(strided(8, 9), 20),
            "stride is 9, but must be between 1 and the context 8"
        );
        assert_eq!(
            message(strided(8, 0), 20),
            "stride is 0, but must be between 1 and the context 8"
        );
        assert_eq!(
            message(EvalMethod::Block { size: 8 }, 7),
            "length of the text is 7, but must be at least 8 to score blocks of 8 tokens"
        );
        assert!(message(strided(8, 4), 1).contains("at least 2 to score windows of 8 tokens"));
    }
}
