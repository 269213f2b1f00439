use super::{SourceId, TextSource, TextSummary, Tokenizer, Tokens};
use crate::error::without_path;
use memmap2::Mmap;
use std::{
    fs::{self, File},
    hash::Hasher,
    io::{self, BufWriter, Seek, Write},
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::NamedTempFile;
use thiserror::Error;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"GPT2TOKN";
const VERSION: u32 = 1;
/// Bytes of the header: eight of magic, and eight numbers of eight bytes.
const HEADER: usize = 72;
/// Start and end of the name of a cache that is being written.
const TEMPORARY: (&str, &str) = ("tokens-", ".tmp");
const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// A file of tokens that cannot be used.
#[derive(Debug, Error)]
pub enum CacheError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is another kind of file.
    #[error("it does not start as a token cache does")]
    Foreign,
    /// Another version of this program wrote it.
    #[error("its version is {found}, not {VERSION}")]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// Its header is damaged.
    #[error("its header is damaged: the hash is {found:016x}, not {expected:016x}")]
    DamagedHeader {
        /// The hash of the header.
        found: u64,
        /// The hash in the header.
        expected: u64,
    },
    /// It is shorter or longer than its header says.
    #[error("it has {found} bytes, but must have {expected}")]
    Length {
        /// The length of the file.
        found: u64,
        /// The length that the header says.
        expected: u64,
    },
    /// Its tokens are damaged.
    #[error("its tokens are damaged: the hash is {found:016x}, not {expected:016x}")]
    DamagedTokens {
        /// The hash of the tokens.
        found: u64,
        /// The hash in the header.
        expected: u64,
    },
    /// The text has changed since.
    #[error("the text has changed since it was written")]
    Stale,
    /// It holds the tokens of another tokenizer.
    #[error("it holds the tokens of another tokenizer")]
    OtherTokenizer,
}

/// The tokens of a text, kept in a file.
///
/// The file starts with a header of 72 bytes, all numbers with the lowest byte first: the magic
/// `GPT2TOKN`; version (4 bytes); tokenizer (1 byte: 0 for bytes, 1 for GPT-2); bytes of a token
/// (1 byte); 2 bytes of zero; length and hash of the source files; length, hash and number of
/// tokens of the text; hash of the tokens; hash of the header before it (8 bytes each). The tokens
/// follow. Hashes are XXH3 of 64 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenCache {
    path: PathBuf,
    tokenizer: Tokenizer,
    source: SourceId,
}

impl TokenCache {
    /// The cache of a text in `folder`. The name of the file depends on tokenizer and paths, so
    /// that the cache of a text that changes is replaced.
    pub fn new(folder: &Path, text: &TextSource, source: SourceId, tokenizer: Tokenizer) -> Self {
        let first = text.files().first().and_then(|f| f.path().file_name());
        let stem = first.unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("{stem}-{tokenizer}-{:016x}.cache", text.path_hash());
        Self {
            path: folder.join(name),
            tokenizer,
            source,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Maps the tokens into memory after checking all of them; nothing if there is no file.
    ///
    /// # Errors
    ///
    /// Any [`CacheError`].
    pub fn open(&self) -> Result<Option<(Tokens, TextSummary)>, CacheError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let found = file.metadata()?.len();
        if found < HEADER as u64 {
            return Err(CacheError::Length {
                found,
                expected: HEADER as u64,
            });
        }
        // SAFETY: a mapping is sound as long as nobody changes the file under it. This program
        // never does: it writes a cache under another name and renames it, which leaves the old
        // file, and thus the mapping, as it was.
        let map = unsafe { Mmap::map(&file)? };
        let (header, tokens) = map.split_at(HEADER);
        let header: &[u8; HEADER] = header.try_into().expect("it was cut to this length");
        let summary = self.check(header, tokens)?;
        let tokens = Tokens::from_map(map, HEADER, self.tokenizer.width());
        Ok(Some((tokens, summary)))
    }

    fn check(&self, header: &[u8; HEADER], tokens: &[u8]) -> Result<TextSummary, CacheError> {
        if header[..8] != MAGIC {
            return Err(CacheError::Foreign);
        }
        let version = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
        if version != VERSION {
            return Err(CacheError::Version { found: version });
        }
        let number = |index: usize| {
            let bytes = &header[8 * index..8 * index + 8];
            u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
        };
        let (found, expected) = (XxHash3_64::oneshot(&header[..HEADER - 8]), number(8));
        if found != expected {
            return Err(CacheError::DamagedHeader { found, expected });
        }
        let summary = TextSummary {
            bytes: number(4),
            hash: number(5),
            tokens: number(6),
        };
        let data_hash = number(7);
        if header[8..16] != head(self.tokenizer) {
            return Err(CacheError::OtherTokenizer);
        }
        let source = SourceId {
            bytes: number(2),
            hash: number(3),
        };
        if source != self.source {
            return Err(CacheError::Stale);
        }
        let width = self.tokenizer.width().bytes() as u64;
        let expected = (HEADER as u64).saturating_add(summary.tokens.saturating_mul(width));
        let found = (HEADER + tokens.len()) as u64;
        if found != expected {
            return Err(CacheError::Length { found, expected });
        }
        let found = XxHash3_64::oneshot(tokens);
        if found != data_hash {
            return Err(CacheError::DamagedTokens {
                found,
                expected: data_hash,
            });
        }
        Ok(summary)
    }

    /// Starts to write the cache, to a temporary file in the same folder.
    ///
    /// # Errors
    ///
    /// An error if the folder cannot be made or written to.
    pub fn create(&self) -> io::Result<CacheWriter> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        remove_leftovers(folder);
        let temporary = tempfile::Builder::new()
            .prefix(TEMPORARY.0)
            .suffix(TEMPORARY.1)
            .tempfile_in(folder)
            .map_err(without_path)?;
        let mut file = BufWriter::with_capacity(1 << 20, temporary);
        file.write_all(&[0; HEADER]).map_err(without_path)?;
        Ok(CacheWriter {
            cache: self.clone(),
            file,
            hasher: XxHash3_64::new(),
        })
    }
}

/// A cache that is being written. Dropped unfinished, it leaves nothing behind.
pub struct CacheWriter {
    cache: TokenCache,
    file: BufWriter<NamedTempFile>,
    hasher: XxHash3_64,
}

impl CacheWriter {
    /// Appends tokens as they are stored.
    ///
    /// # Errors
    ///
    /// An error if the file cannot be written.
    pub fn write(&mut self, tokens: &[u8]) -> io::Result<()> {
        self.hasher.write(tokens);
        self.file.write_all(tokens).map_err(without_path)
    }

    /// Writes the header, and puts the file in its place in one step.
    ///
    /// # Errors
    ///
    /// An error if the file cannot be written; a cache that was there stays.
    pub fn finish(self, summary: &TextSummary) -> io::Result<()> {
        let Self {
            cache,
            file,
            hasher,
        } = self;
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..16].copy_from_slice(&head(cache.tokenizer));
        let numbers = [
            cache.source.bytes,
            cache.source.hash,
            summary.bytes,
            summary.hash,
            summary.tokens,
            hasher.finish(),
        ];
        for (slot, number) in header[16..].chunks_exact_mut(8).zip(numbers) {
            slot.copy_from_slice(&number.to_le_bytes());
        }
        let hash = XxHash3_64::oneshot(&header[..HEADER - 8]);
        header[HEADER - 8..].copy_from_slice(&hash.to_le_bytes());

        let file = file.into_inner();
        let mut file = file.map_err(|error| without_path(error.into_error()))?;
        file.rewind().map_err(without_path)?;
        file.write_all(&header).map_err(without_path)?;
        file.as_file().sync_all()?;
        file.persist(&cache.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Removes the temporary files of runs that were killed, as far as that is possible. Younger ones
/// may belong to a run that is at work.
fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = name
            .to_str()
            .is_some_and(|name| name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1));
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        let old = changed.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LEFTOVER_AGE));
        if ours && old {
            fs::remove_file(entry.path()).ok();
        }
    }
}

/// The eight bytes after the magic: version, tokenizer, bytes of a token, and two of zero.
fn head(tokenizer: Tokenizer) -> [u8; 8] {
    let mut head = [0; 8];
    head[..4].copy_from_slice(&VERSION.to_le_bytes());
    head[4] = match tokenizer {
        Tokenizer::Bytes => 0,
        Tokenizer::Gpt2 => 1,
    };
    head[5] = tokenizer.width().bytes() as u8;
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::ProgressBar;

    struct Fixture {
        dir: tempfile::TempDir,
        cache: TokenCache,
        summary: TextSummary,
    }

    fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, "abc").unwrap();
        let text = TextSource::find(&[path]).unwrap();
        let source = text.id(&ProgressBar::hidden()).unwrap();
        let folder = dir.path().join("new/folder");
        let cache = TokenCache::new(&folder, &text, source, Tokenizer::Gpt2);
        let summary = TextSummary {
            bytes: 3,
            hash: 7,
            tokens: 3,
        };
        Fixture {
            dir,
            cache,
            summary,
        }
    }

    fn write(fixture: &Fixture) {
        let mut writer = fixture.cache.create().unwrap();
        writer.write(&[1, 0]).unwrap();
        writer.write(&[2, 1, 255, 195]).unwrap();
        writer.finish(&fixture.summary).unwrap();
    }

    #[test]
    fn tokens_survive_the_round_trip() {
        let fixture = fixture();
        assert!(fixture.cache.open().unwrap().is_none());
        write(&fixture);

        let (tokens, summary) = fixture.cache.open().unwrap().unwrap();
        assert_eq!(tokens.to_vec(), [1, 258, 50175]);
        assert_eq!(summary, fixture.summary);
        let name = fixture.cache.path().file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("a.txt-gpt2-") && name.ends_with(".cache"));
        let folder = fixture.cache.path().parent().unwrap();
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_found() {
        let fixture = fixture();
        write(&fixture);
        let path = fixture.cache.path().to_owned();
        let whole = fs::read(&path).unwrap();
        assert_eq!(whole.len(), HEADER + 6);

        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert!(fixture.cache.open().is_err(), "{cut} bytes");
        }
        for index in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[index] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert!(fixture.cache.open().is_err(), "byte {index}");
        }
        let longer = [&whole[..], &[0]].concat();
        fs::write(&path, longer).unwrap();
        assert_eq!(
            fixture.cache.open().unwrap_err().to_string(),
            "it has 79 bytes, but must have 78"
        );
        fs::write(&path, &whole).unwrap();
        assert!(fixture.cache.open().unwrap().is_some());
    }

    #[test]
    fn a_text_that_changed_and_another_tokenizer_are_found() {
        let fixture = fixture();
        write(&fixture);
        let mut changed = fixture.cache.clone();
        changed.source.hash ^= 1;
        assert!(matches!(changed.open(), Err(CacheError::Stale)));

        let mut other = fixture.cache.clone();
        other.tokenizer = Tokenizer::Bytes;
        assert!(matches!(other.open(), Err(CacheError::OtherTokenizer)));
    }

    #[test]
    fn an_unfinished_cache_leaves_the_old_one() {
        let fixture = fixture();
        write(&fixture);
        let mut writer = fixture.cache.create().unwrap();
        writer.write(&[9, 9]).unwrap();
        drop(writer);

        let (tokens, _) = fixture.cache.open().unwrap().unwrap();
        assert_eq!(tokens.len(), 3);
        let folder = fixture.cache.path().parent().unwrap();
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
        drop(fixture.dir);
    }

    #[test]
    fn only_old_temporary_files_go() {
        let fixture = fixture();
        write(&fixture);
        let folder = fixture.cache.path().parent().unwrap();
        let old = std::time::SystemTime::now() - 2 * LEFTOVER_AGE;
        for name in ["tokens-old.tmp", "notes.tmp", "tokens-new.tmp"] {
            let file = File::create(folder.join(name)).unwrap();
            if name != "tokens-new.tmp" {
                file.set_modified(old).unwrap();
            }
        }
        write(&fixture);
        let left = |name: &str| folder.join(name).exists();
        assert!(!left("tokens-old.tmp"));
        assert!(left("notes.tmp") && left("tokens-new.tmp"));
    }

    #[test]
    fn a_mapping_outlives_its_replacement() {
        let fixture = fixture();
        write(&fixture);
        let (tokens, _) = fixture.cache.open().unwrap().unwrap();
        let mut writer = fixture.cache.create().unwrap();
        writer.write(&[5, 0]).unwrap();
        let summary = TextSummary {
            tokens: 1,
            ..fixture.summary
        };
        if cfg!(unix) {
            writer.finish(&summary).unwrap();
            assert_eq!(fixture.cache.open().unwrap().unwrap().0.to_vec(), [5]);
        }
        assert_eq!(tokens.to_vec(), [1, 258, 50175]);
    }
}
