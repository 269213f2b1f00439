use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};
use thiserror::Error;

/// The largest number of elements that a file may announce: 16 times the full training images.
const MOST: u64 = 16 * 60_000 * 28 * 28;

/// Bytes with a shape, as an idx file holds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idx {
    /// Sizes of the dimensions, outermost first.
    pub dims: Vec<usize>,
    /// The elements, the last dimension fastest.
    pub bytes: Vec<u8>,
}

/// What can be wrong with an idx file.
#[derive(Debug, Error)]
pub enum IdxError {
    /// The file is shorter than its header.
    #[error("it ends after {found} bytes, inside its header")]
    ShortHeader {
        /// Bytes found.
        found: usize,
    },
    /// The first four bytes are not those of an idx file.
    #[error(
        "its magic number is {found:#010x}, expected {expected:#010x} (unsigned bytes in \
         {dimensions} dimensions)"
    )]
    Magic {
        /// Number found.
        found: u32,
        /// Number expected.
        expected: u32,
        /// Dimensions expected.
        dimensions: usize,
    },
    /// The header announces more than any such data set has.
    #[error("its header announces {dims:?} elements, more than the allowed {MOST} in all")]
    TooLarge {
        /// Sizes announced.
        dims: Vec<u32>,
    },
    /// The file ends before its last element.
    #[error("it ends after {found} of the {expected} elements that its header announces")]
    Truncated {
        /// Elements found.
        found: usize,
        /// Elements announced.
        expected: usize,
    },
    /// The file goes on after its last element.
    #[error("it goes on after the {expected} elements that its header announces")]
    TooLong {
        /// Elements announced.
        expected: usize,
    },
    /// The compressed stream is damaged.
    #[error("its gzip stream is damaged: {0}")]
    Gzip(io::Error),
    /// Something follows the compressed stream.
    #[error("its gzip stream is followed by other bytes")]
    AfterGzip,
    /// The file cannot be read to its end.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
}

/// Reads an idx file of unsigned bytes, gzipped or not: four bytes `0 0 8 D`, then `D` sizes of four
/// bytes, most significant first, then the elements.
///
/// # Errors
///
/// [`IdxError`], which names what was found and what was expected. No more memory is taken than the
/// file has content, whatever its header says, and no more is read than its header says.
pub fn read_idx(mut content: impl BufRead, dimensions: usize) -> Result<Idx, IdxError> {
    // A buffer that is filled for the first time has more than one byte, if there are more.
    let begin = content.fill_buf().map_err(IdxError::Read)?;
    if !begin.starts_with(&[0x1f, 0x8b]) {
        return parse(&mut content, dimensions, IdxError::Read);
    }
    let mut decoder = GzDecoder::new(content);
    let parsed = parse(&mut decoder, dimensions, IdxError::Gzip);
    if let Err(IdxError::TooLong { .. }) | Ok(_) = parsed {
        // The checksum is at the end: what seems too long may be damaged.
        let limit = MOST.max(1);
        io::copy(&mut (&mut decoder).take(limit), &mut io::sink()).map_err(IdxError::Gzip)?;
    }
    let idx = parsed?;
    let rest = decoder.get_mut().fill_buf().map_err(IdxError::Read)?;
    match rest.is_empty() {
        true => Ok(idx),
        false => Err(IdxError::AfterGzip),
    }
}

fn parse(
    mut reader: impl Read,
    dimensions: usize,
    failed: fn(io::Error) -> IdxError,
) -> Result<Idx, IdxError> {
    let mut header = Vec::new();
    let length = 4 * (1 + dimensions);
    (&mut reader)
        .take(length as u64)
        .read_to_end(&mut header)
        .map_err(failed)?;
    let word = |index: usize| {
        let bytes = header.get(4 * index..4 * index + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().expect("four bytes")))
    };
    let short = IdxError::ShortHeader {
        found: header.len(),
    };
    let Some(found) = word(0) else {
        return Err(short);
    };
    let expected = 0x800 | dimensions as u32;
    if found != expected {
        return Err(IdxError::Magic {
            found,
            expected,
            dimensions,
        });
    }
    let Some(dims) = (1..=dimensions).map(word).collect::<Option<Vec<u32>>>() else {
        return Err(short);
    };
    let size = dims
        .iter()
        .try_fold(1_u64, |size, &dim| size.checked_mul(dim.into()))
        .filter(|&size| size <= MOST);
    let Some(size) = size else {
        return Err(IdxError::TooLarge { dims });
    };

    let mut bytes = Vec::new();
    reader
        .take(size + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let (found, expected) = (bytes.len(), size as usize);
    if found < expected {
        return Err(IdxError::Truncated { found, expected });
    }
    if found > expected {
        return Err(IdxError::TooLong { expected });
    }
    Ok(Idx {
        dims: dims.into_iter().map(|dim| dim as usize).collect(),
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    const FILE: [u8; 18] = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 7, 255];

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn message(content: &[u8]) -> String {
        let plain = read_idx(content, 3).unwrap_err().to_string();
        assert_eq!(
            read_idx(&gzip(content)[..], 3).unwrap_err().to_string(),
            plain
        );
        plain
    }

    #[test]
    fn plain_and_gzipped_files_are_the_same() {
        let idx = Idx {
            dims: vec![2, 1, 1],
            bytes: vec![7, 255],
        };
        assert_eq!(read_idx(&FILE[..], 3).unwrap(), idx);
        assert_eq!(read_idx(&gzip(&FILE)[..], 3).unwrap(), idx);
        let labels = [0, 0, 8, 1, 0, 0, 0, 3, 9, 8, 7];
        assert_eq!(read_idx(&labels[..], 1).unwrap().bytes, [9, 8, 7]);
    }

    #[test]
    fn an_empty_list_is_a_list() {
        let idx = read_idx(&[0, 0, 8, 1, 0, 0, 0, 0][..], 1).unwrap();
        assert_eq!((idx.dims, idx.bytes), (vec![0], vec![]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(message(&[]), "it ends after 0 bytes, inside its header");
        assert_eq!(
            message(&FILE[..11]),
            "it ends after 11 bytes, inside its header"
        );
        assert_eq!(
            message(&[0, 0, 8, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 7, 7]),
            "its magic number is 0x00000801, expected 0x00000803 (unsigned bytes in 3 dimensions)"
        );
        assert_eq!(
            message(&FILE[..17]),
            "it ends after 1 of the 2 elements that its header announces"
        );
        let mut long = FILE.to_vec();
        long.push(0);
        assert_eq!(
            message(&long),
            "it goes on after the 2 elements that its header announces"
        );
    }

    #[test]
    fn a_header_cannot_ask_for_all_memory() {
        let mut huge = FILE;
        huge[4..16].fill(0xff);
        assert_eq!(
            message(&huge),
            "its header announces [4294967295, 4294967295, 4294967295] elements, more than the \
             allowed 752640000 in all"
        );
        huge[4..16].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 28, 0, 0, 0, 28]);
        assert_eq!(
            message(&huge),
            "it ends after 2 of the 51380224 elements that its header announces"
        );
    }

    #[test]
    fn a_damaged_stream_is_named() {
        let mut packed = gzip(&FILE);
        let last = packed.len() - 5;
        packed[last] ^= 1;
        let message = read_idx(&packed[..], 3).unwrap_err().to_string();
        assert!(
            message.starts_with("its gzip stream is damaged:"),
            "{message}"
        );
        let message = read_idx(&packed[..12], 3).unwrap_err().to_string();
        assert!(
            message.starts_with("its gzip stream is damaged:"),
            "{message}"
        );
    }

    /// A stream of zeros without an end, as `/dev/zero` is.
    #[test]
    fn what_has_no_end_is_refused_by_its_header() {
        let zeros = std::io::BufReader::new(io::repeat(0));
        let message = read_idx(zeros, 3).unwrap_err().to_string();
        assert!(
            message.starts_with("its magic number is 0x00000000"),
            "{message}"
        );
        let endless = FILE[..16].chain(std::io::BufReader::new(io::repeat(7)));
        let message = read_idx(endless, 3).unwrap_err().to_string();
        assert_eq!(
            message,
            "it goes on after the 2 elements that its header announces"
        );
    }

    #[test]
    fn bytes_after_a_gzip_stream_are_named() {
        let mut packed = gzip(&FILE);
        packed.extend(b"and more");
        assert_eq!(
            read_idx(&packed[..], 3).unwrap_err().to_string(),
            "its gzip stream is followed by other bytes"
        );
    }

    /// A stream that is damaged and longer than its header says is damaged.
    #[test]
    fn damage_is_told_from_length() {
        let mut long = FILE.to_vec();
        long.extend([9; 100]);
        let mut packed = gzip(&long);
        let last = packed.len() - 5;
        packed[last] ^= 1;
        let message = read_idx(&packed[..], 3).unwrap_err().to_string();
        assert!(
            message.starts_with("its gzip stream is damaged:"),
            "{message}"
        );
    }
}
