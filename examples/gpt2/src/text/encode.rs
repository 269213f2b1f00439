use super::{TextError, TextFile, TextSource, Token, Tokenizer, split, tokenizer::encode_gpt2};
use indicatif::ProgressBar;
use rayon::prelude::*;
use std::{
    hash::Hasher,
    io::{self, Read},
};
use twox_hash::XxHash3_64;

/// Bytes of text in memory at a time, if it has white space.
const CHUNK: usize = 4 << 20;
/// Bytes of text that one thread encodes at a time.
const PIECE: usize = 1 << 16;

/// What a text turned out to be, read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSummary {
    /// Its length, unpacked.
    pub bytes: u64,
    /// XXH3 hash of its bytes.
    pub hash: u64,
    /// Its number of tokens.
    pub tokens: u64,
}

/// Why encoding stopped.
#[derive(Debug)]
pub enum EncodeFailure {
    /// The text cannot be read or encoded.
    Text(TextError),
    /// The tokens cannot be stored.
    Store(io::Error),
}

impl From<TextError> for EncodeFailure {
    fn from(error: TextError) -> Self {
        Self::Text(error)
    }
}

/// Encodes a text and gives its tokens to `store`, part by part, as [`Tokens`](super::Tokens) holds
/// them.
///
/// The tokens are those of the joined files as a whole. Memory is bounded by the chunk, or by the
/// longest stretch without white space if that is longer.
pub fn encode_source(
    source: &TextSource,
    tokenizer: Tokenizer,
    progress: &ProgressBar,
    store: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<TextSummary, EncodeFailure> {
    encode_chunks(source, tokenizer, progress, CHUNK, store)
}

fn encode_chunks(
    source: &TextSource,
    tokenizer: Tokenizer,
    progress: &ProgressBar,
    chunk: usize,
    store: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<TextSummary, EncodeFailure> {
    let mut encoder = Encoder {
        tokenizer,
        store,
        text: Vec::new(),
        valid: 0,
        start: 0,
        hasher: XxHash3_64::new(),
        stored: 0,
    };
    for file in source.files() {
        let mut reader = file.open(progress)?;
        let mut read = 0;
        loop {
            let old = encoder.text.len();
            // More than is left over, so that text without a place to cut is not searched for one
            // again and again.
            let wanted = chunk.max(old) as u64;
            let new = (&mut reader)
                .take(wanted)
                .read_to_end(&mut encoder.text)
                .map_err(TextError::read(file.path()))?;
            encoder.hasher.write(&encoder.text[old..]);
            read += new as u64;
            let end = (new as u64) < wanted;
            if tokenizer == Tokenizer::Gpt2 {
                encoder.validate(file, read, end)?;
            }
            encoder.encode(false)?;
            if end {
                break;
            }
        }
    }
    encoder.encode(true)?;
    Ok(TextSummary {
        bytes: encoder.start,
        hash: encoder.hasher.finish(),
        tokens: encoder.stored / tokenizer.width().bytes() as u64,
    })
}

struct Encoder<'a> {
    tokenizer: Tokenizer,
    store: &'a mut dyn FnMut(&[u8]) -> io::Result<()>,
    /// Text that is not encoded yet; its first `valid` bytes are whole characters.
    text: Vec<u8>,
    valid: usize,
    /// Bytes of the text before that.
    start: u64,
    hasher: XxHash3_64,
    /// Bytes of the tokens so far.
    stored: u64,
}

impl Encoder<'_> {
    /// Checks that the new part of `text`, which ends `read` bytes into the file, is UTF-8.
    fn validate(&mut self, file: &TextFile, read: u64, end: bool) -> Result<(), TextError> {
        let new = &self.text[self.valid..];
        let Err(error) = str::from_utf8(new) else {
            self.valid = self.text.len();
            return Ok(());
        };
        let bad = error.valid_up_to();
        if error.error_len().is_some() || end {
            return Err(TextError::NotUtf8 {
                path: file.path().to_owned(),
                position: read - (new.len() - bad) as u64,
                found: new[bad],
                cut_off: error.error_len().is_none(),
            });
        }
        self.valid += bad;
        Ok(())
    }

    /// Encodes all text up to the last place where it may be cut, or all text at its end.
    fn encode(&mut self, end: bool) -> Result<(), EncodeFailure> {
        let done = match self.tokenizer {
            Tokenizer::Bytes => {
                (self.store)(&self.text).map_err(EncodeFailure::Store)?;
                self.stored += self.text.len() as u64;
                self.text.len()
            }
            Tokenizer::Gpt2 => {
                let text = str::from_utf8(&self.text[..self.valid]).expect("it was checked");
                let cut = match end {
                    true => text.len(),
                    false => split::cut_before(text, text.len()).unwrap_or(0),
                };
                for tokens in encode_pieces(&text[..cut]) {
                    (self.store)(&tokens).map_err(EncodeFailure::Store)?;
                    self.stored += tokens.len() as u64;
                }
                cut
            }
        };
        self.text.drain(..done);
        self.valid = self.valid.saturating_sub(done);
        self.start += done as u64;
        Ok(())
    }
}

/// Encodes text in pieces, in order, into GPT-2 tokens of two bytes.
fn encode_pieces(text: &str) -> Vec<Vec<u8>> {
    split::pieces(text, PIECE)
        .into_par_iter()
        .map(|piece| {
            let tokens = encode_gpt2(piece).into_iter();
            tokens.flat_map(Token::to_le_bytes).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tokens;
    use std::fs;

    fn encode(
        parts: &[&[u8]],
        tokenizer: Tokenizer,
        chunk: usize,
    ) -> Result<(Vec<Token>, TextSummary), String> {
        let dir = tempfile::tempdir().unwrap();
        for (index, part) in parts.iter().enumerate() {
            fs::write(dir.path().join(format!("{index}.txt")), part).unwrap();
        }
        let source = TextSource::find(&[dir.path().into()]).unwrap();
        let mut stored = Vec::new();
        let mut store = |tokens: &[u8]| {
            stored.extend_from_slice(tokens);
            Ok(())
        };
        match encode_chunks(
            &source,
            tokenizer,
            &ProgressBar::hidden(),
            chunk,
            &mut store,
        ) {
            Ok(summary) => {
                let tokens = Tokens::from_stored(stored, tokenizer.width());
                Ok((tokens.to_vec(), summary))
            }
            Err(EncodeFailure::Text(error)) => Err(error.to_string()),
            Err(EncodeFailure::Store(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn any_chunk_gives_the_tokens_of_the_whole() {
        let text = "To be, or not  to be:\n\n that\u{a0}is \u{1f600}the question\u{3000}\u{3000} caf\u{e9}'s  ";
        let whole = Tokenizer::Gpt2.encode(text.as_bytes()).unwrap();
        for chunk in 1..=text.len() + 1 {
            let (tokens, summary) = encode(&[text.as_bytes()], Tokenizer::Gpt2, chunk).unwrap();
            assert_eq!(tokens, whole, "chunks of {chunk}");
            assert_eq!(summary.bytes, text.len() as u64);
            assert_eq!(summary.tokens, whole.len() as u64);
            assert_eq!(summary.hash, XxHash3_64::oneshot(text.as_bytes()));
        }
    }

    #[test]
    fn words_go_on_in_the_next_file() {
        let parts: [&[u8]; 3] = [b"a qu", b"", b"estion"];
        let whole = Tokenizer::Gpt2.encode(b"a question").unwrap();
        assert_eq!(encode(&parts, Tokenizer::Gpt2, 3).unwrap().0, whole);

        let bytes = encode(&parts, Tokenizer::Bytes, 3).unwrap();
        assert_eq!(bytes.0, b"a question".map(Token::from));
        assert_eq!(bytes.1.tokens, 10);
    }

    #[test]
    fn no_text_has_no_tokens() {
        let (tokens, summary) = encode(&[b""], Tokenizer::Gpt2, 8).unwrap();
        assert!(tokens.is_empty());
        assert_eq!((summary.bytes, summary.tokens), (0, 0));
    }

    #[test]
    fn bytes_that_are_no_character_are_named_with_file_and_position() {
        for chunk in [1, 2, 3, 100] {
            let message = |parts: &[&[u8]]| encode(parts, Tokenizer::Gpt2, chunk).unwrap_err();

            let bad = message(&[b"fine text", b"ab cd \xff ef"]);
            assert!(
                bad.contains("1.txt is not UTF-8: byte 6 is 0xff; convert"),
                "{bad}"
            );
            // Joined, the two files would be UTF-8.
            let cut = message(&[b"ab caf\xc3", b"\xa9"]);
            assert!(
                cut.contains("0.txt is not UTF-8: byte 6 is 0xc3, the start of a character"),
                "{cut}"
            );
        }
        assert!(encode(&[b"\xff\xfe"], Tokenizer::Bytes, 8).is_ok());
    }

    #[test]
    fn a_store_that_fails_stops() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, "some text").unwrap();
        let source = TextSource::find(&[path]).unwrap();
        let mut store = |_: &[u8]| Err(io::Error::other("full"));
        let progress = ProgressBar::hidden();
        let outcome = encode_source(&source, Tokenizer::Gpt2, &progress, &mut store);
        assert!(matches!(outcome, Err(EncodeFailure::Store(e)) if e.to_string() == "full"));
    }
}
