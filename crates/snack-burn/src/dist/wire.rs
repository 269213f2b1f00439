//! Messages between ranks as bytes, little endian.

/// Builds a message.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    /// A list with its length in front.
    pub fn list<const N: usize>(&mut self, list: impl ExactSizeIterator<Item = [u8; N]>) {
        self.number(list.len() as u64);
        self.0.extend(list.flatten());
    }

    pub fn text(&mut self, text: &str) {
        self.list(text.bytes().map(|byte| [byte]));
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads a message from its beginning; `None` where it ends too early.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    pub fn list<const N: usize>(&mut self) -> Option<&'a [[u8; N]]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (list, rest) = self.0.split_at_checked(length.checked_mul(N)?)?;
        self.0 = rest;
        Some(list.as_chunks().0)
    }

    pub fn text(&mut self) -> Option<String> {
        let bytes = self.list::<1>()?.as_flattened();
        String::from_utf8(bytes.to_vec()).ok()
    }

    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let mut writer = Writer::default();
        writer.number(u64::MAX - 1);
        writer.text("blocks.0");
        writer.list([1.5f32, -0.0].iter().map(|number| number.to_le_bytes()));
        let bytes = writer.into_bytes();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.number(), Some(u64::MAX - 1));
        assert_eq!(reader.text().as_deref(), Some("blocks.0"));
        let list: Vec<f32> = reader
            .list()
            .unwrap()
            .iter()
            .copied()
            .map(f32::from_le_bytes)
            .collect();
        assert_eq!(list, [1.5, 0.0]);
        assert!(reader.is_at_end());
        assert_eq!(reader.number(), None);

        let mut cut = Reader::new(&bytes[..bytes.len() - 1]);
        cut.number().unwrap();
        cut.text().unwrap();
        assert_eq!(cut.list::<4>(), None);
        // A length that no memory has.
        assert_eq!(Reader::new(&[255; 16]).list::<8>(), None);
    }
}
