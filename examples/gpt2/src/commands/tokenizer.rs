use crate::Gpt2Error;

/// How the tokens of a model stand for text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tokenizer {
    /// Every byte is a token.
    Bytes,
}

/// The tokenizer of a model with so many tokens.
///
/// # Errors
///
/// [`Gpt2Error::NoTokenizer`] if there is none.
pub(super) fn tokenizer_for(vocabulary: usize) -> Result<Tokenizer, Gpt2Error> {
    match vocabulary {
        256 => Ok(Tokenizer::Bytes),
        vocabulary => Err(Gpt2Error::NoTokenizer {
            vocabulary,
            known: "bytes: 256",
        }),
    }
}

impl Tokenizer {
    /// Encodes a text.
    pub fn encode(self, text: &[u8]) -> Vec<u32> {
        match self {
            Self::Bytes => text.iter().map(|&byte| byte.into()).collect(),
        }
    }

    /// Decodes tokens one by one.
    pub fn decoder(self) -> TextStream {
        match self {
            Self::Bytes => TextStream::default(),
        }
    }
}

/// Text whose characters come in parts.
#[derive(Debug, Default)]
pub(super) struct TextStream {
    /// The start of a character.
    pending: Vec<u8>,
}

impl TextStream {
    /// Takes one more token and returns the characters that are whole with it.
    pub fn push(&mut self, token: u32) -> String {
        self.pending.push(token as u8);
        let (mut text, mut rest) = (String::new(), Vec::new());
        let mut chunks = self.pending.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let unfinished =
                str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            match chunks.peek().is_none() && unfinished {
                true => rest = invalid.to_vec(),
                false if invalid.is_empty() => {}
                false => text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        self.pending = rest;
        text
    }

    /// What is left of a character that never became whole.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_come_whole() {
        let mut stream = Tokenizer::Bytes.decoder();
        let mut push = |byte: u32| stream.push(byte);

        assert_eq!([push(0xe2), push(0x82), push(0xac)], ["", "", "\u{20ac}"]);
        assert_eq!([push(0xc3), push(0x41)], ["", "\u{fffd}A"]);
        assert_eq!(push(0x80), "\u{fffd}");
        assert_eq!(push(0xf0), "");
        assert_eq!(stream.finish(), "\u{fffd}");
    }

    #[test]
    fn vocabularies_without_tokenizer_are_named() {
        assert_eq!(tokenizer_for(256).unwrap(), Tokenizer::Bytes);
        let message = tokenizer_for(11).unwrap_err().to_string();
        assert!(message.starts_with("the model has 11 tokens, which no tokenizer"));
    }
}
