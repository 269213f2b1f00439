use crate::{Gpt2Error, Text, TextId, Tokenizer, Tokens};
use serde::{Deserialize, Serialize};

/// Tokens to learn from and tokens to judge by.
#[derive(Debug, Clone)]
pub struct Corpus {
    id: CorpusId,
    train: Tokens,
    held_out: Tokens,
}

/// What tells one corpus from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusId {
    /// The text to learn from.
    pub text: TextId,
    /// The text to judge by, if it is not the end of the other.
    pub valid: Option<TextId>,
}

impl Corpus {
    /// The seven plays by Shakespeare that ship with the example, a token for every byte.
    pub fn shakespeare() -> Self {
        Self::split(&Text::shakespeare(Tokenizer::Bytes))
    }

    /// Splits a text; its last twentieth is held out.
    pub fn split(text: &Text) -> Self {
        let tokens = text.tokens();
        let split = tokens.len() - tokens.len().div_ceil(20);
        Self {
            id: CorpusId {
                text: text.id().clone(),
                valid: None,
            },
            train: tokens.slice(0..split),
            held_out: tokens.slice(split..tokens.len()),
        }
    }

    /// Learns from all of `text`, and judges by all of `valid`.
    ///
    /// # Panics
    ///
    /// Panics if they were not made by the same tokenizer.
    pub fn with_valid(text: &Text, valid: &Text) -> Self {
        assert_eq!(
            text.id().tokenizer,
            valid.id().tokenizer,
            "Corpus::with_valid: both texts need one tokenizer"
        );
        Self {
            id: CorpusId {
                text: text.id().clone(),
                valid: Some(valid.id().clone()),
            },
            train: text.tokens().clone(),
            held_out: valid.tokens().clone(),
        }
    }

    /// What tells this corpus from another.
    pub fn id(&self) -> &CorpusId {
        &self.id
    }

    /// How the text became tokens.
    pub fn tokenizer(&self) -> Tokenizer {
        self.id.text.tokenizer
    }

    /// The tokens to learn from.
    pub fn train(&self) -> &Tokens {
        &self.train
    }

    /// The tokens to judge by.
    pub fn held_out(&self) -> &Tokens {
        &self.held_out
    }

    /// Checks that both parts hold a window of `context` tokens and the token after it.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::TextTooShort`] if one does not.
    pub fn check_length(&self, context: usize) -> Result<(), Gpt2Error> {
        let text = &self.id.text;
        let parts = [
            ("training", self.train(), text),
            (
                "held-out",
                self.held_out(),
                self.id.valid.as_ref().unwrap_or(text),
            ),
        ];
        let needed = context + 1;
        for (part, tokens, text) in parts {
            if tokens.len() < needed {
                return Err(Gpt2Error::TextTooShort {
                    name: text.name.clone(),
                    unit: text.tokenizer.unit(),
                    part,
                    found: tokens.len(),
                    total: text.tokens as usize,
                    needed,
                    context,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, bytes: &[u8], tokenizer: Tokenizer) -> Text {
        Text::encode(name, bytes, tokenizer).unwrap()
    }

    #[test]
    fn the_last_twentieth_is_held_out() {
        let bytes: Vec<u8> = (0..100).collect();
        let corpus = Corpus::split(&text("abc", &bytes, Tokenizer::Bytes));

        assert_eq!(corpus.train().len(), 95);
        assert_eq!(corpus.held_out().to_vec(), [95, 96, 97, 98, 99]);
    }

    #[test]
    fn another_text_can_be_held_out() {
        let learn = text("a", b"to be or not to be", Tokenizer::Gpt2);
        let judge = text("b", b" that is", Tokenizer::Gpt2);
        let corpus = Corpus::with_valid(&learn, &judge);

        assert_eq!(corpus.train().to_vec(), learn.tokens().to_vec());
        assert_eq!(corpus.held_out().len(), 2);
        assert_eq!(corpus.id().valid.as_ref(), Some(judge.id()));
    }

    #[test]
    fn the_shipped_text_is_whole() {
        let corpus = Corpus::shakespeare();
        assert_eq!(corpus.id().text.bytes, 939_929);
        assert_eq!(corpus.held_out().len(), 46_997);

        let tokens = Text::shakespeare(Tokenizer::Gpt2);
        assert_eq!(tokens.id().tokens, 292_979);
        assert_eq!(tokens.id().hash, corpus.id().text.hash);
    }

    #[test]
    fn short_texts_name_the_part() {
        let message = |bytes, context| {
            let corpus = Corpus::split(&text("t.txt", &vec![b'x'; bytes], Tokenizer::Bytes));
            corpus.check_length(context).map_err(|e| e.to_string())
        };

        assert_eq!(
            message(0, 8).unwrap_err(),
            "the text t.txt is too short: its training part has 0 of 0 bytes, but must have at \
             least 9 (one window of --context 8 bytes and the byte after it)"
        );
        assert!(
            message(100, 8)
                .unwrap_err()
                .contains("held-out part has 5 of 100")
        );
        assert_eq!(message(180, 8), Ok(()));
    }

    #[test]
    fn short_texts_count_their_tokens() {
        let learn = text("a", b"to be or not to be", Tokenizer::Gpt2);
        let judge = text("b", b" that is", Tokenizer::Gpt2);
        let corpus = Corpus::with_valid(&learn, &judge);

        assert_eq!(
            corpus.check_length(2).unwrap_err().to_string(),
            "the text b is too short: its held-out part has 2 of 2 tokens, but must have at least \
             3 (one window of --context 2 tokens and the token after it)"
        );
        assert!(corpus.check_length(1).is_ok());
    }
}
