use super::{StreamDecoder, Width, split};
use crate::Gpt2Error;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tiktoken_rs::{CoreBPE, r50k_base_singleton};

/// The number of a token; both vocabularies fit into 16 bits.
pub type Token = u16;

/// How text becomes tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tokenizer {
    /// Every byte is a token; takes any file.
    #[default]
    Bytes,
    /// The byte pair encoding of GPT-2, 50257 tokens; takes UTF-8.
    ///
    /// Encoding treats `<|endoftext|>` as the ordinary text that it is in a file; token 50256
    /// decodes to it.
    Gpt2,
}

/// Bytes that the GPT-2 tokenizer does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("byte {position} is not part of a UTF-8 character")]
pub struct NotUtf8 {
    /// The first byte outside a character, counted from 0.
    pub position: usize,
}

/// A number that is no token of the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("token {token} is outside the vocabulary of the tokenizer {tokenizer}, which has {} tokens", tokenizer.vocabulary())]
pub struct UnknownToken {
    /// The number.
    pub token: Token,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
}

impl Tokenizer {
    /// Number of different tokens.
    pub fn vocabulary(self) -> usize {
        match self {
            Self::Bytes => 256,
            Self::Gpt2 => 50_257,
        }
    }

    /// The tokenizer of a model with so many tokens.
    pub fn of_vocabulary(vocabulary: usize) -> Option<Self> {
        let all = [Self::Bytes, Self::Gpt2];
        all.into_iter().find(|own| own.vocabulary() == vocabulary)
    }

    /// What a token is called: `byte` or `token`.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Bytes => "byte",
            Self::Gpt2 => "token",
        }
    }

    /// How its tokens are stored.
    pub fn width(self) -> Width {
        match self {
            Self::Bytes => Width::One,
            Self::Gpt2 => Width::Two,
        }
    }

    /// Checks that a model of `vocabulary` tokens reads the tokens of this tokenizer.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::VocabularyMismatch`] if it has another number of tokens.
    pub fn check_vocabulary(self, vocabulary: usize) -> Result<(), Gpt2Error> {
        if vocabulary == self.vocabulary() {
            Ok(())
        } else {
            Err(Gpt2Error::VocabularyMismatch {
                tokenizer: self,
                vocabulary,
            })
        }
    }

    /// Encodes a text.
    ///
    /// # Errors
    ///
    /// [`NotUtf8`] if the GPT-2 tokenizer does not take it.
    pub fn encode(self, text: &[u8]) -> Result<Vec<Token>, NotUtf8> {
        match self {
            Self::Bytes => Ok(text.iter().map(|&byte| byte.into()).collect()),
            Self::Gpt2 => match str::from_utf8(text) {
                Ok(text) => Ok(encode_gpt2(text)),
                Err(error) => Err(NotUtf8 {
                    position: error.valid_up_to(),
                }),
            },
        }
    }

    /// Decodes tokens into the bytes that they stand for, which need not be whole characters.
    ///
    /// # Errors
    ///
    /// [`UnknownToken`] if a number is outside the vocabulary.
    pub fn decode(self, tokens: &[Token]) -> Result<Vec<u8>, UnknownToken> {
        let unknown = |token| UnknownToken {
            token,
            tokenizer: self,
        };
        match self {
            Self::Bytes => tokens
                .iter()
                .map(|&token| u8::try_from(token).map_err(|_| unknown(token)))
                .collect(),
            Self::Gpt2 => {
                let ranks: Vec<u32> = tokens.iter().map(|&token| token.into()).collect();
                // The numbers came from 16 bits.
                gpt2()
                    .decode_bytes(&ranks)
                    .map_err(|error| unknown(error.token as Token))
            }
        }
    }

    /// Decodes tokens into text; bytes that are no character become U+FFFD.
    ///
    /// # Errors
    ///
    /// [`UnknownToken`] if a number is outside the vocabulary.
    pub fn decode_lossy(self, tokens: &[Token]) -> Result<String, UnknownToken> {
        let bytes = self.decode(tokens)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Decodes tokens one by one, as a model writes them.
    pub fn decoder(self) -> StreamDecoder {
        StreamDecoder::new(self)
    }
}

impl core::fmt::Display for Tokenizer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::Gpt2 => "gpt2",
        })
    }
}

/// `r50k_base` is the vocabulary of GPT-2 under OpenAI's name.
fn gpt2() -> &'static CoreBPE {
    r50k_base_singleton()
}

/// The GPT-2 tokens of a text.
pub(super) fn encode_gpt2(text: &str) -> Vec<Token> {
    split::around_long_white_space(text)
        .flat_map(|part| gpt2().encode_ordinary(part))
        .map(|rank| Token::try_from(rank).expect("the ranks of GPT-2 fit into 16 bits"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_gpt2_tokens() {
        let encode = |text: &str| Tokenizer::Gpt2.encode(text.as_bytes()).unwrap();

        assert_eq!(encode("Hello world"), [15496, 995]);
        assert_eq!(
            encode(" The @-@ quick brown fox"),
            [383, 2488, 12, 31, 2068, 7586, 21831]
        );
        assert!(encode("").is_empty());
        assert_eq!(encode("<|endoftext|>").len(), 7);
        assert_eq!(
            Tokenizer::Gpt2.decode_lossy(&[50256]).unwrap(),
            "<|endoftext|>"
        );
    }

    #[test]
    fn encoding_equals_the_ordinary_one() {
        let texts = [
            "I'll say it's  we've\n\n\tdone 1234 times!?  ",
            "a<|endoftext|>b <|endoftext|>",
            "\u{a0}x\u{3000}\u{2028} na\u{ef}ve \u{1f600}\u{1f600}",
        ];
        for text in texts {
            let ordinary = gpt2().encode_ordinary(text);
            let own: Vec<u32> = Tokenizer::Gpt2
                .encode(text.as_bytes())
                .unwrap()
                .into_iter()
                .map(u32::from)
                .collect();
            assert_eq!(own, ordinary, "{text:?}");
        }
    }

    #[test]
    fn decoding_undoes_encoding() {
        let text = "caf\u{e9} \u{1f600}\r\n  To be, or not to be;\t".as_bytes();
        for tokenizer in [Tokenizer::Bytes, Tokenizer::Gpt2] {
            let tokens = tokenizer.encode(text).unwrap();
            assert_eq!(tokenizer.decode(&tokens).unwrap(), text);
        }
    }

    #[test]
    fn every_token_decodes_and_no_other_number_does() {
        for tokenizer in [Tokenizer::Bytes, Tokenizer::Gpt2] {
            let vocabulary = tokenizer.vocabulary() as Token;
            for token in 0..vocabulary {
                assert!(!tokenizer.decode(&[token]).unwrap().is_empty());
            }
            let error = tokenizer.decode(&[0, vocabulary]).unwrap_err();
            assert_eq!(error.token, vocabulary);
        }
        assert_eq!(
            Tokenizer::Gpt2.decode(&[60000]).unwrap_err().to_string(),
            "token 60000 is outside the vocabulary of the tokenizer gpt2, which has 50257 tokens"
        );
    }

    #[test]
    fn text_that_is_not_taken_is_an_error() {
        assert_eq!(
            Tokenizer::Gpt2.encode(b"ab\xffcd"),
            Err(NotUtf8 { position: 2 })
        );
        assert_eq!(Tokenizer::Bytes.encode(b"\xff"), Ok(vec![255]));
    }

    #[test]
    fn long_white_space_is_encoded_as_any_other() {
        // As many as the pattern itself can take.
        for spaces in [0, 1, 2, 255, 256, 257, 258, 5000] {
            for (before, after) in [
                ("x", "y"),
                ("", "y"),
                ("x", ""),
                ("x\n", "\ny"),
                ("x", "\n"),
            ] {
                let text = format!("{before}{}{after}", " ".repeat(spaces));
                let ordinary = gpt2().encode_ordinary(&text);
                let own: Vec<u32> = encode_gpt2(&text).into_iter().map(u32::from).collect();
                assert_eq!(own, ordinary, "{spaces} spaces, {before:?} {after:?}");
            }
        }
        // Far more.
        let text = format!("x{}y", " ".repeat(2_000_000));
        let tokens = encode_gpt2(&text);
        assert_eq!(Tokenizer::Gpt2.decode(&tokens).unwrap(), text.as_bytes());
        assert_eq!(tokens[tokens.len() - 1], encode_gpt2(" y")[0]);
    }
}
