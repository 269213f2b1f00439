use std::{io, path::PathBuf};
use thiserror::Error;

/// A text that cannot be turned into tokens.
#[derive(Debug, Error)]
pub enum TextError {
    /// A file cannot be read; a compressed one may be damaged or cut off.
    #[error("cannot read the text {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },

    /// A file is not UTF-8, which the GPT-2 tokenizer needs.
    #[error(
        "the text {} is not UTF-8: byte {position} is 0x{found:02x}{}; convert it, or take \
         bytes as tokens, which may be any",
        path.display(),
        if *cut_off { ", the start of a character that the file does not finish" } else { "" }
    )]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The first byte that is not part of a character, counted from 0; in the unpacked text of
        /// a compressed file.
        position: u64,
        /// That byte.
        found: u8,
        /// Whether the file ends inside the character.
        cut_off: bool,
    },

    /// A folder holds no text.
    #[error(
        "the folder {} holds no text: no file ends in .txt, .tokens or .raw (alone or with .gz or \
         .xz) or in .parquet", path.display()
    )]
    NoTextInFolder {
        /// The folder.
        path: PathBuf,
    },

    /// A folder holds the splits of a data set, which must not be joined.
    #[error(
        "the folder {} holds different splits ({first} and {second}); name the files of one, and \
         give those to judge by to --valid", path.display()
    )]
    MixedSplits {
        /// The folder.
        path: PathBuf,
        /// A file of one split.
        first: String,
        /// A file of another.
        second: String,
    },

    /// A file is an archive of a kind that is not read.
    #[error(
        "the text {} is a .{extension} file, which is not read; unpack it (.gz and .xz are read \
         as they are)", path.display()
    )]
    UnsupportedArchive {
        /// The file.
        path: PathBuf,
        /// The end of its name.
        extension: String,
    },

    /// A Parquet file, and a build without the feature that reads it.
    #[error(
        "the text {} is a Parquet file, which this build does not read; build with `--features \
         parquet`", path.display()
    )]
    ParquetNotCompiled {
        /// The file.
        path: PathBuf,
    },
}

impl TextError {
    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Read { path, source }
    }
}
