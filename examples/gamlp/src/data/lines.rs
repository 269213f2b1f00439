//! Gzipped text line by line: one thread unpacks, the others parse.

use super::{DataError, LineFault};
use flate2::bufread::MultiGzDecoder;
use rayon::prelude::*;
use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

/// What some editors start a file with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Unpacked bytes that are parsed by one thread at once.
const BLOCK: usize = 1 << 20;
/// The longest line; 1 433 features take 6 kB.
const LONGEST: usize = 1 << 26;
/// A gzip stream expands at most by this factor.
const EXPANSION: u64 = 1032;

/// The most values of at least `bytes` bytes of text each that a file can hold, so that memory for as
/// many as its header promises can be taken at once.
pub(super) fn most_values(path: &Path, bytes: u64) -> usize {
    let length = path.metadata().map_or(0, |metadata| metadata.len());
    usize::try_from(length.saturating_mul(EXPANSION) / bytes).unwrap_or(usize::MAX)
}

/// Parses every line of a file, in parallel, and hands over what `parse` appended, block by block and in
/// the order of the file. Returns the number of lines.
///
/// Lines end in `\n` or `\r\n`, the last may have no end; a byte order mark is left out. The first fault in the order of the file is the
/// one reported.
pub(super) fn read_lines<T: Send>(
    path: &Path,
    parse: impl Fn(&[u8], &mut Vec<T>) -> Result<(), LineFault> + Sync,
    mut take: impl FnMut(Vec<T>),
) -> Result<u64, DataError> {
    let file = File::open(path).map_err(DataError::read(path))?;
    let threads = rayon::current_num_threads();
    let (sender, receiver) = sync_channel(threads);
    thread::scope(|scope| {
        // Ends with this closure, before the thread is waited for: it may wait for room to send.
        let receiver = receiver;
        scope.spawn(move || unpack(file, &sender));
        let mut lines = 0;
        while let Ok(first) = receiver.recv() {
            let (blocks, end) = more_blocks(first, &receiver, threads);
            let parsed: Vec<_> = blocks
                .par_iter()
                .map(|block| parse_block(block, &parse))
                .collect();
            for block in parsed {
                let (values, count, fault) = block;
                lines += count;
                if let Some(fault) = fault {
                    return Err(DataError::Line {
                        path: path.into(),
                        line: lines + 1,
                        fault,
                    });
                }
                take(values);
            }
            match end {
                None => {}
                Some(Failure::TooLong) => {
                    return Err(DataError::Line {
                        path: path.into(),
                        line: lines + 1,
                        fault: LineFault::TooLong { max: LONGEST },
                    });
                }
                Some(Failure::Unpack(source)) if source.raw_os_error().is_some() => {
                    return Err(DataError::read(path)(source));
                }
                Some(Failure::Unpack(source)) => {
                    return Err(DataError::Gzip {
                        path: path.into(),
                        line: lines + 1,
                        source,
                    });
                }
            }
        }
        Ok(lines)
    })
}

type Block = Result<Vec<u8>, Failure>;

/// Why there are no more blocks.
enum Failure {
    TooLong,
    Unpack(io::Error),
}

/// The first message and those that wait behind it, at most `most` in all.
fn more_blocks(
    first: Block,
    receiver: &Receiver<Block>,
    most: usize,
) -> (Vec<Vec<u8>>, Option<Failure>) {
    let mut blocks = Vec::new();
    let mut next = Some(first);
    while let Some(message) = next {
        match message {
            Ok(block) => blocks.push(block),
            Err(failure) => return (blocks, Some(failure)),
        }
        next = match blocks.len() < most {
            true => receiver.try_recv().ok(),
            false => None,
        };
    }
    (blocks, None)
}

/// Sends blocks of whole lines until the file ends or nobody listens.
fn unpack(file: File, sender: &SyncSender<Block>) {
    let mut decoder = MultiGzDecoder::new(BufReader::with_capacity(1 << 17, file));
    let mut rest = Vec::new();
    let mut first = true;
    loop {
        let mut block = core::mem::take(&mut rest);
        let wanted = BLOCK.max(2 * block.len());
        let room = (wanted - block.len()) as u64;
        let read = (&mut decoder).take(room).read_to_end(&mut block);
        let ended = matches!(read, Ok(0));
        if !ended {
            let whole = block.iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
            rest = block.split_off(whole);
        }
        if core::mem::take(&mut first) && block.starts_with(BYTE_ORDER_MARK) {
            block.drain(..BYTE_ORDER_MARK.len());
        }
        // An unfinished line before a failure is no line.
        if !block.is_empty() && sender.send(Ok(block)).is_err() {
            return;
        }
        let failure = match read {
            Err(error) => Failure::Unpack(error),
            Ok(_) if rest.len() > LONGEST => Failure::TooLong,
            Ok(_) if ended => return,
            Ok(_) => continue,
        };
        // Nobody may listen any more: then another fault came first.
        sender.send(Err(failure)).ok();
        return;
    }
}

/// What was parsed, the number of lines without fault, and the first fault.
fn parse_block<T>(
    block: &[u8],
    parse: &impl Fn(&[u8], &mut Vec<T>) -> Result<(), LineFault>,
) -> (Vec<T>, u64, Option<LineFault>) {
    let mut values = Vec::new();
    let mut count = 0;
    for line in block
        .strip_suffix(b"\n")
        .unwrap_or(block)
        .split(|&b| b == b'\n')
    {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Err(fault) = parse(line, &mut values) {
            return (values, count, Some(fault));
        }
        count += 1;
    }
    (values, count, None)
}
