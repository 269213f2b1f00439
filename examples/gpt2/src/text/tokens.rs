use super::Token;
use memmap2::Mmap;
use std::{ops::Range, sync::Arc};

/// Bytes of one stored token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// One byte.
    One = 1,
    /// Two bytes, the lower one first.
    Two = 2,
}

impl Width {
    /// Number of bytes.
    pub fn bytes(self) -> usize {
        self as usize
    }
}

/// A row of tokens that never changes, in memory or in a mapped file.
///
/// A clone or a [slice](Self::slice) shares the tokens.
#[derive(Debug, Clone)]
pub struct Tokens {
    store: Arc<Store>,
    width: Width,
    /// First token and number of tokens in the store.
    start: usize,
    len: usize,
}

#[derive(Debug)]
enum Store {
    Memory(Vec<u8>),
    Mapped { map: Mmap, start: usize },
}

impl Store {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Memory(bytes) => bytes,
            Self::Mapped { map, start } => &map[*start..],
        }
    }
}

impl Tokens {
    /// Takes tokens as they are stored: `width` bytes each, the lower one first.
    ///
    /// # Panics
    ///
    /// Panics if the last token is cut off.
    pub fn from_stored(bytes: Vec<u8>, width: Width) -> Self {
        Self::new(Store::Memory(bytes), width)
    }

    /// Takes tokens.
    pub fn from_slice(tokens: &[Token]) -> Self {
        let bytes = tokens.iter().flat_map(|token| token.to_le_bytes());
        Self::from_stored(bytes.collect(), Width::Two)
    }

    /// Takes the tokens of a mapped file from byte `start` on.
    pub(super) fn from_map(map: Mmap, start: usize, width: Width) -> Self {
        Self::new(Store::Mapped { map, start }, width)
    }

    fn new(store: Store, width: Width) -> Self {
        let bytes = store.bytes().len();
        assert!(
            bytes.is_multiple_of(width.bytes()),
            "Tokens: {bytes} bytes are no whole number of tokens of {} bytes",
            width.bytes()
        );
        Self {
            len: bytes / width.bytes(),
            store: Arc::new(store),
            width,
            start: 0,
        }
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tokens of a range.
    ///
    /// # Panics
    ///
    /// Panics if the range leaves the tokens.
    pub fn iter(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = Token> + '_ {
        let Range { start, end } = self.inside(range);
        let width = self.width.bytes();
        self.store.bytes()[start * width..end * width]
            .chunks_exact(width)
            .map(|token| match *token {
                [low, high] => Token::from_le_bytes([low, high]),
                _ => token[0].into(),
            })
    }

    /// The tokens of a range, as tokens of their own.
    ///
    /// # Panics
    ///
    /// Panics if the range leaves the tokens.
    pub fn slice(&self, range: Range<usize>) -> Self {
        let Range { start, end } = self.inside(range);
        Self {
            start,
            len: end - start,
            ..self.clone()
        }
    }

    /// The tokens in memory.
    pub fn to_vec(&self) -> Vec<Token> {
        self.iter(0..self.len).collect()
    }

    /// A range of these tokens as a range of the store.
    fn inside(&self, range: Range<usize>) -> Range<usize> {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "Tokens: the range {range:?} leaves the {} tokens",
            self.len
        );
        self.start + range.start..self.start + range.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_widths_give_their_tokens() {
        let words = Tokens::from_slice(&[1, 50256, 515]);
        assert_eq!(words.to_vec(), [1, 50256, 515]);

        let bytes = Tokens::from_stored(vec![7, 255, 0], Width::One);
        assert_eq!(bytes.to_vec(), [7, 255, 0]);
        assert!(Tokens::from_slice(&[]).is_empty());
    }

    #[test]
    fn slices_of_slices_stay_inside() {
        let tokens = Tokens::from_slice(&[0, 1, 2, 3, 4, 5]);
        let middle = tokens.slice(1..5).slice(1..4);

        assert_eq!(middle.to_vec(), [2, 3, 4]);
        assert_eq!(middle.iter(1..2).collect::<Vec<_>>(), [3]);
        assert_eq!(middle.slice(3..3).len(), 0);
    }

    #[test]
    #[should_panic(expected = "the range 0..4 leaves the 3 tokens")]
    fn a_slice_does_not_reach_its_neighbours() {
        let tokens = Tokens::from_slice(&[0, 1, 2, 3, 4, 5]);
        let _ = tokens.slice(1..4).iter(0..4);
    }
}
