use super::{Token, Tokenizer, UnknownToken};

/// Turns tokens into text one by one.
///
/// A token may end inside a character. Its bytes wait until the character is whole, so that the
/// texts of all tokens, joined, are what [`Tokenizer::decode_lossy`] makes of all of them.
#[derive(Debug, Clone)]
pub struct StreamDecoder {
    tokenizer: Tokenizer,
    /// The start of a character, at most three bytes.
    pending: Vec<u8>,
}

impl StreamDecoder {
    pub(super) fn new(tokenizer: Tokenizer) -> Self {
        Self {
            tokenizer,
            pending: Vec::new(),
        }
    }

    /// Takes one more token and returns the text that is complete with it, which may be empty.
    ///
    /// # Errors
    ///
    /// [`UnknownToken`] if the number is outside the vocabulary; nothing changes then.
    pub fn push(&mut self, token: Token) -> Result<String, UnknownToken> {
        let bytes = self.tokenizer.decode(&[token])?;
        self.pending.extend(bytes);
        let whole = self.pending.len() - unfinished(&self.pending);
        let rest = self.pending.split_off(whole);
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending = rest;
        Ok(text)
    }

    /// Ends the text: U+FFFD for a character that was never finished, or nothing.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// Number of bytes at the end that may be the start of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let chunk = bytes.utf8_chunks().last();
    let rest = chunk.map_or(&[][..], |chunk| chunk.invalid());
    match str::from_utf8(rest) {
        Err(error) if error.error_len().is_none() => rest.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(tokenizer: Tokenizer, tokens: &[Token]) -> String {
        let mut decoder = tokenizer.decoder();
        let mut text: String = tokens
            .iter()
            .map(|&token| decoder.push(token).unwrap())
            .collect();
        text.push_str(&decoder.finish());
        text
    }

    #[test]
    fn characters_come_whole() {
        let mut decoder = Tokenizer::Bytes.decoder();
        let mut push = |byte| decoder.push(byte).unwrap();

        assert_eq!(push(0x61), "a");
        assert_eq!([push(0xf0), push(0x9f), push(0x98)], ["", "", ""]);
        assert_eq!(push(0x80), "\u{1f600}");
        assert_eq!(push(0xc3), "");
        assert_eq!(push(0x62), "\u{fffd}b");
    }

    #[test]
    fn any_bytes_decode_as_all_at_once() {
        let mut state = 1_u32;
        for _ in 0..2000 {
            let tokens: Vec<Token> = (0..12)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // Mostly bytes that occur in characters of more than one byte.
                    let choices = [0x61, 0x80, 0x9f, 0xbf, 0xc3, 0xe2, 0xed, 0xf0, 0xf4, 0xff];
                    choices[(state >> 16) as usize % choices.len()]
                })
                .collect();
            let expected = Tokenizer::Bytes.decode_lossy(&tokens).unwrap();
            assert_eq!(joined(Tokenizer::Bytes, &tokens), expected, "{tokens:x?}");
        }
    }

    #[test]
    fn gpt2_tokens_end_inside_characters() {
        let text = "\u{1f600} \u{4e2d}\u{6587} caf\u{e9}";
        let tokens = Tokenizer::Gpt2.encode(text.as_bytes()).unwrap();
        let first = Tokenizer::Gpt2.decode(&tokens[..1]).unwrap();

        assert!(str::from_utf8(&first).is_err());
        assert_eq!(joined(Tokenizer::Gpt2, &tokens), text);
        assert_eq!(joined(Tokenizer::Gpt2, &tokens[..1]), "\u{fffd}");
    }

    #[test]
    fn unknown_tokens_change_nothing() {
        let mut decoder = Tokenizer::Bytes.decoder();
        decoder.push(0xc3).unwrap();
        assert!(decoder.push(256).is_err());
        assert_eq!(decoder.push(0xa9).unwrap(), "\u{e9}");
    }
}
