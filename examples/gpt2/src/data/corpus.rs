use crate::Gpt2Error;
use serde::{Deserialize, Serialize};
use std::{fs, path::Path};

/// The plays that ship with the example; `data/README.md` says where they come from.
static SHAKESPEARE: &[u8] = include_bytes!("../../data/shakespeare7.txt");

/// A text, split into a training part and a held-out part.
#[derive(Debug, Clone)]
pub struct Corpus {
    id: CorpusId,
    text: Vec<u8>,
    split: usize,
}

/// What tells one text from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusId {
    /// Where the text came from.
    pub name: String,
    /// Its length.
    pub bytes: usize,
    /// FNV-1a hash of its bytes.
    pub hash: u64,
}

impl CorpusId {
    /// Whether both name the same bytes; the place does not matter.
    pub fn same_text(&self, other: &Self) -> bool {
        (self.bytes, self.hash) == (other.bytes, other.hash)
    }
}

impl core::fmt::Display for CorpusId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} ({} bytes, hash {:016x})",
            self.name, self.bytes, self.hash
        )
    }
}

impl Corpus {
    /// The seven plays by Shakespeare that ship with the example.
    pub fn shakespeare() -> Self {
        Self::new("shakespeare7.txt (shipped)", SHAKESPEARE.to_vec())
    }

    /// Reads a text file; every byte is a token.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::ReadText`] if the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Self, Gpt2Error> {
        let text = fs::read(path).map_err(|source| Gpt2Error::ReadText {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::new(path.display().to_string(), text))
    }

    /// Splits a text; its last twentieth is held out.
    pub fn new(name: impl Into<String>, text: Vec<u8>) -> Self {
        let split = text.len() * 19 / 20;
        let id = CorpusId {
            name: name.into(),
            bytes: text.len(),
            hash: fnv1a(&text),
        };
        Self { id, text, split }
    }

    /// What tells this text from another.
    pub fn id(&self) -> &CorpusId {
        &self.id
    }

    /// The bytes to learn from.
    pub fn train(&self) -> &[u8] {
        &self.text[..self.split]
    }

    /// The bytes to judge by.
    pub fn held_out(&self) -> &[u8] {
        &self.text[self.split..]
    }

    /// Checks that both parts hold a window of `context` bytes and the byte after it.
    ///
    /// # Errors
    ///
    /// [`Gpt2Error::TextTooShort`] if one does not.
    pub fn check_length(&self, context: usize) -> Result<(), Gpt2Error> {
        let parts = [("training", self.train()), ("held-out", self.held_out())];
        let needed = context + 1;
        for (part, bytes) in parts {
            if bytes.len() < needed {
                return Err(Gpt2Error::TextTooShort {
                    name: self.id.name.clone(),
                    part,
                    found: bytes.len(),
                    total: self.text.len(),
                    needed,
                    context,
                });
            }
        }
        Ok(())
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_twentieth_is_held_out() {
        let corpus = Corpus::new("abc", (0..100).collect());

        assert_eq!(corpus.train().len(), 95);
        assert_eq!(corpus.held_out(), [95, 96, 97, 98, 99]);
    }

    #[test]
    fn the_shipped_text_is_whole() {
        let corpus = Corpus::shakespeare();

        assert_eq!(corpus.id().bytes, 939_929);
        assert_eq!(corpus.held_out().len(), 46_997);
    }

    #[test]
    fn hash_is_fnv1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn short_texts_name_the_part() {
        let message = |bytes, context| {
            let corpus = Corpus::new("t.txt", vec![b'x'; bytes]);
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
}
