//! Unpacking texts, with errors that say whether a file is cut short, damaged or of another kind.

use super::TextFormat;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use std::io::{self, BufRead, Cursor, ErrorKind, Read};

/// Most memory that unpacking .xz may take, in KiB: the file asks for it, so it needs a bound.
const XZ_MEMORY_KIB: u32 = 2 << 20;

/// Unpacks gzip or xz; anything else is read as it is.
///
/// # Errors
///
/// An error if the file does not begin as its format does, or cannot be read.
pub(super) fn unpack(
    mut packed: impl BufRead + 'static,
    format: TextFormat,
) -> io::Result<Box<dyn Read>> {
    let (kind, magic): (_, &[u8]) = match format {
        TextFormat::Plain | TextFormat::Parquet => return Ok(Box::new(packed)),
        TextFormat::Gzip => ("gzip", &[0x1f, 0x8b]),
        TextFormat::Xz => ("xz", b"\xfd7zXZ\0"),
    };
    let mut start = Vec::new();
    let length = magic.len() as u64;
    packed.by_ref().take(length).read_to_end(&mut start)?;
    if start.is_empty() {
        return Err(cut_short(format!("it is empty, and thus no {kind} file")));
    }
    if !magic.starts_with(&start) {
        let reason = format!("it is no {kind} file: it does not begin as one does");
        return Err(io::Error::new(ErrorKind::InvalidData, reason));
    }
    let packed = Cursor::new(start).chain(packed);
    let text: Box<dyn Read> = match format {
        TextFormat::Gzip => Box::new(MultiGzDecoder::new(packed)),
        _ => Box::new(XzReader::new_mem_limit(packed, true, XZ_MEMORY_KIB)),
    };
    Ok(Box::new(Unpacked { text, kind }))
}

/// The text of a packed file.
struct Unpacked {
    text: Box<dyn Read>,
    kind: &'static str,
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let kind = self.kind;
        self.text.read(buffer).map_err(|error| match error.kind() {
            // What the system says about the file has nothing to do with its content.
            _ if error.raw_os_error().is_some() => error,
            ErrorKind::UnexpectedEof => {
                cut_short(format!("it is cut short: its {kind} data do not end"))
            }
            ErrorKind::InvalidData | ErrorKind::InvalidInput => {
                let reason = format!("its {kind} data are damaged: {error}");
                io::Error::new(ErrorKind::InvalidData, reason)
            }
            _ => error,
        })
    }
}

fn cut_short(reason: String) -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, reason)
}
