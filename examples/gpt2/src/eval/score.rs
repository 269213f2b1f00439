use super::{EvalMethod, EvalPlan, EvalWindow};
use core::fmt;

/// What a model makes of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EvalScore {
    /// Which tokens were scored.
    pub method: EvalMethod,
    /// Length of the text in tokens.
    pub tokens: usize,
    /// Number of tokens that were scored.
    pub scored: usize,
    /// Their negative log likelihood, summed, in nats.
    pub nll: f64,
}

impl EvalPlan {
    /// Scores the text, `batch` windows at a time.
    ///
    /// `nll` gets windows and returns for each the sum of the negative log likelihoods of its
    /// scored tokens, in nats. All windows of a batch have the same length, unless the last of the
    /// text is shorter: that one comes alone.
    ///
    /// # Errors
    ///
    /// The first error of `nll`.
    ///
    /// # Panics
    ///
    /// Panics if `batch` is 0, or if `nll` returns another number of sums than it got windows.
    pub fn score<E>(
        &self,
        batch: usize,
        mut nll: impl FnMut(&[EvalWindow]) -> Result<Vec<f64>, E>,
    ) -> Result<EvalScore, E> {
        assert!(batch > 0, "EvalPlan::score: a batch needs a window");
        let (mut total, mut scored) = (0.0, 0);
        let mut pending: Vec<EvalWindow> = Vec::with_capacity(batch);
        let mut flush = |windows: &mut Vec<EvalWindow>| {
            if windows.is_empty() {
                return Ok(());
            }
            let sums = nll(windows)?;
            assert_eq!(
                sums.len(),
                windows.len(),
                "EvalPlan::score: sums for windows"
            );
            total += sums.iter().sum::<f64>();
            scored += windows.iter().map(|w| w.scored.len()).sum::<usize>();
            windows.clear();
            Ok(())
        };
        for window in self.windows() {
            let same = |first: &EvalWindow| first.tokens.len() == window.tokens.len();
            if pending.len() == batch || !pending.first().is_none_or(same) {
                flush(&mut pending)?;
            }
            pending.push(window);
        }
        flush(&mut pending)?;
        Ok(EvalScore {
            method: self.method(),
            tokens: self.tokens(),
            scored,
            nll: total,
        })
    }
}

impl EvalScore {
    /// Loss in nats per scored token.
    pub fn loss(&self) -> f64 {
        self.nll / self.scored as f64
    }

    /// Perplexity per token: `exp` of the loss. For blocks this is `exp` of the mean over their mean
    /// losses, since all of them score equally many tokens.
    pub fn perplexity(&self) -> f64 {
        self.loss().exp()
    }

    /// Perplexity per word, `exp(nll / words)`, which models with different tokenizers share.
    ///
    /// `words` counts the words of the whole text, see [`count_words`](crate::count_words). Nothing
    /// if tokens other than the first were left out, because their words would count all the same.
    pub fn word_perplexity(&self, words: u64) -> Option<f64> {
        let whole = self.scored + 1 == self.tokens && words > 0;
        whole.then(|| (self.nll / words as f64).exp())
    }
}

impl fmt::Display for EvalScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "perplexity {:.4} per token ({:.5} nats; {} of {} tokens scored, {})",
            self.perplexity(),
            self.loss(),
            self.scored,
            self.tokens,
            self.method
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;

    /// Token `t` costs `t` nats.
    fn cost(windows: &[EvalWindow]) -> Result<Vec<f64>, Infallible> {
        let sum = |window: &EvalWindow| window.scored.clone().map(|t| t as f64).sum();
        Ok(windows.iter().map(sum).collect())
    }

    fn strided(context: usize, stride: usize, tokens: usize) -> EvalPlan {
        EvalPlan::new(EvalMethod::Strided { context, stride }, tokens).unwrap()
    }

    #[test]
    fn the_sum_does_not_depend_on_the_batch() {
        let plan = strided(8, 3, 30);
        for batch in 1..=12 {
            let score = plan.score(batch, cost).unwrap();
            assert_eq!((score.scored, score.nll), (29, 435.0));
            assert_eq!(score.loss(), 15.0);
        }
    }

    #[test]
    fn windows_of_a_batch_have_one_length() {
        let mut lengths = Vec::new();
        strided(8, 8, 37)
            .score(3, |windows| {
                let batch: Vec<_> = windows.iter().map(|w| w.tokens.len()).collect();
                lengths.push(batch);
                cost(windows)
            })
            .unwrap();
        assert_eq!(lengths, [vec![8, 8, 8], vec![8], vec![5]]);
    }

    #[test]
    fn a_uniform_model_has_the_vocabulary_as_perplexity() {
        let uniform = |windows: &[EvalWindow]| {
            let nll = |w: &EvalWindow| w.scored.len() as f64 * 50257_f64.ln();
            Ok::<_, Infallible>(windows.iter().map(nll).collect())
        };
        let block = EvalPlan::new(EvalMethod::Block { size: 16 }, 100).unwrap();
        for plan in [block, strided(16, 5, 100)] {
            let score = plan.score(4, uniform).unwrap();
            assert!((score.perplexity() / 50257.0 - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn words_need_the_whole_text() {
        let score = strided(8, 4, 21).score(2, cost).unwrap();
        // 20 scored tokens of 210 nats in all, 70 words.
        assert_eq!(score.word_perplexity(70), Some(3_f64.exp()));
        assert_eq!(score.word_perplexity(0), None);

        let block = EvalPlan::new(EvalMethod::Block { size: 8 }, 21).unwrap();
        assert_eq!(block.score(2, cost).unwrap().word_perplexity(70), None);
        // A single block leaves out nothing but the first token.
        let one = EvalPlan::new(EvalMethod::Block { size: 21 }, 21).unwrap();
        assert!(one.score(2, cost).unwrap().word_perplexity(70).is_some());
    }

    #[test]
    fn the_text_says_method_and_tokens() {
        let score = EvalScore {
            method: EvalMethod::Block { size: 1024 },
            tokens: 249_735,
            scored: 248_589,
            nll: 248_589.0 * 2.0,
        };
        assert_eq!(
            score.to_string(),
            "perplexity 7.3891 per token (2.00000 nats; 248589 of 249735 tokens scored, blocks of \
             1024 tokens)"
        );
    }

    #[test]
    fn an_error_ends_the_scoring() {
        let failing = |_: &[EvalWindow]| Err("out of memory");
        assert_eq!(strided(8, 4, 21).score(2, failing), Err("out of memory"));
    }
}
