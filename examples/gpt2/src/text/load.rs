use super::{
    CacheError, CacheWriter, NotUtf8, TextError, TextSource, TextSummary, TokenCache, Tokenizer,
    Tokens,
    encode::{EncodeFailure, encode_source},
};
use core::fmt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::{io, path::PathBuf};
use twox_hash::XxHash3_64;

/// The plays that ship with the example; `data/README.md` says where they come from.
static SHAKESPEARE: &[u8] = include_bytes!("../../data/shakespeare7.txt");

/// A text as tokens.
#[derive(Debug, Clone)]
pub struct Text {
    id: TextId,
    tokens: Tokens,
}

/// What tells one text from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextId {
    /// Where the text came from.
    pub name: String,
    /// How it became tokens.
    pub tokenizer: Tokenizer,
    /// Its length in bytes, unpacked.
    pub bytes: u64,
    /// Its length in tokens.
    pub tokens: u64,
    /// XXH3 hash of its bytes.
    pub hash: u64,
}

impl TextId {
    /// Whether both name the same tokens; place and packing do not matter.
    pub fn same_text(&self, other: &Self) -> bool {
        (self.tokenizer, self.bytes, self.hash) == (other.tokenizer, other.bytes, other.hash)
    }
}

impl fmt::Display for TextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes, ", self.name, self.bytes)?;
        if self.tokenizer != Tokenizer::Bytes {
            write!(f, "{} tokens of {}, ", self.tokens, self.tokenizer)?;
        }
        write!(f, "hash {:016x})", self.hash)
    }
}

impl Text {
    /// The seven plays by Shakespeare that ship with the example.
    pub fn shakespeare(tokenizer: Tokenizer) -> Self {
        Self::encode("shakespeare7.txt (shipped)", SHAKESPEARE, tokenizer)
            .expect("the plays are ASCII")
    }

    /// Encodes a text in memory.
    ///
    /// # Errors
    ///
    /// [`NotUtf8`] if the tokenizer does not take it.
    pub fn encode(
        name: impl Into<String>,
        text: &[u8],
        tokenizer: Tokenizer,
    ) -> Result<Self, NotUtf8> {
        let tokens = match tokenizer {
            Tokenizer::Bytes => Tokens::from_stored(text.to_vec(), tokenizer.width()),
            Tokenizer::Gpt2 => Tokens::from_slice(&tokenizer.encode(text)?),
        };
        let summary = TextSummary {
            bytes: text.len() as u64,
            hash: XxHash3_64::oneshot(text),
            tokens: tokens.len() as u64,
        };
        Ok(Self::new(name.into(), tokenizer, tokens, summary))
    }

    fn new(name: String, tokenizer: Tokenizer, tokens: Tokens, summary: TextSummary) -> Self {
        let id = TextId {
            name,
            tokenizer,
            bytes: summary.bytes,
            tokens: summary.tokens,
            hash: summary.hash,
        };
        Self { id, tokens }
    }

    /// What tells this text from another.
    pub fn id(&self) -> &TextId {
        &self.id
    }

    /// Its tokens.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }
}

/// Where the tokens of a text came from.
#[derive(Debug)]
pub enum Origin {
    /// The text was encoded, into memory.
    Encoded,
    /// The text was encoded, into a new cache.
    CacheWritten {
        /// The file.
        path: PathBuf,
    },
    /// A cache had them.
    Cache {
        /// The file.
        path: PathBuf,
    },
    /// A cache could not be used. The text was encoded, into a new one in its place.
    CacheReplaced {
        /// The file.
        path: PathBuf,
        /// What was wrong with the old one.
        reason: CacheError,
    },
    /// The text was encoded, into memory because no cache can be written.
    CacheNotWritten {
        /// The file.
        path: PathBuf,
        /// Why it cannot be written.
        reason: io::Error,
    },
}

impl Origin {
    /// What a user should know about it.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Encoded | Self::CacheWritten { .. } | Self::Cache { .. } => None,
            Self::CacheReplaced { path, reason } => Some(format!(
                "the token cache {} was of no use and is replaced: {reason}",
                path.display()
            )),
            Self::CacheNotWritten { path, reason } => Some(format!(
                "cannot write the token cache {}: {reason}; the tokens stay in memory and the next \
                 run encodes the text again",
                path.display()
            )),
        }
    }
}

/// Reads texts from files, or their tokens from a cache.
#[derive(Debug, Clone, Default)]
pub struct TextLoader {
    /// Folder of the caches; without one, texts are always encoded.
    pub cache: Option<PathBuf>,
    /// Shows no progress.
    pub quiet: bool,
}

impl TextLoader {
    /// Loads the text in `paths`, see [`TextSource::find`].
    ///
    /// The cache is a help, not a need: without it, or with one that cannot be used, the result is
    /// the same.
    ///
    /// # Errors
    ///
    /// Any [`TextError`].
    pub fn load(
        &self,
        paths: &[PathBuf],
        tokenizer: Tokenizer,
    ) -> Result<(Text, Origin), TextError> {
        let source = TextSource::find(paths)?;
        let done = |tokens, summary| Text::new(source.name(), tokenizer, tokens, summary);
        let in_memory = || {
            let (tokens, summary) = self.encode_to_memory(&source, tokenizer)?;
            Ok::<_, TextError>(done(tokens, summary))
        };
        let Some(folder) = &self.cache else {
            return Ok((in_memory()?, Origin::Encoded));
        };
        if !source.is_worth_caching(tokenizer) {
            return Ok((in_memory()?, Origin::Encoded));
        }

        let progress = self.progress("checking", &source);
        let cache = TokenCache::new(folder, &source, source.id(&progress)?, tokenizer);
        progress.finish_and_clear();
        let path = cache.path().to_owned();
        let unusable = match cache.open() {
            Ok(Some((tokens, summary))) => {
                return Ok((done(tokens, summary), Origin::Cache { path }));
            }
            Ok(None) => None,
            Err(reason) => Some(reason),
        };
        match self.encode_to_cache(&source, tokenizer, &cache) {
            Ok((tokens, summary)) => {
                let origin = match unusable {
                    None => Origin::CacheWritten { path },
                    Some(reason) => Origin::CacheReplaced { path, reason },
                };
                Ok((done(tokens, summary), origin))
            }
            Err(EncodeFailure::Text(error)) => Err(error),
            Err(EncodeFailure::Store(reason)) => {
                Ok((in_memory()?, Origin::CacheNotWritten { path, reason }))
            }
        }
    }

    fn encode_to_memory(
        &self,
        source: &TextSource,
        tokenizer: Tokenizer,
    ) -> Result<(Tokens, TextSummary), TextError> {
        let mut stored = Vec::new();
        let mut store = |tokens: &[u8]| {
            stored.extend_from_slice(tokens);
            Ok(())
        };
        let progress = self.progress("reading", source);
        let summary = match encode_source(source, tokenizer, &progress, &mut store) {
            Ok(summary) => summary,
            Err(EncodeFailure::Text(error)) => return Err(error),
            Err(EncodeFailure::Store(error)) => unreachable!("memory cannot refuse: {error}"),
        };
        progress.finish_and_clear();
        Ok((Tokens::from_stored(stored, tokenizer.width()), summary))
    }

    fn encode_to_cache(
        &self,
        source: &TextSource,
        tokenizer: Tokenizer,
        cache: &TokenCache,
    ) -> Result<(Tokens, TextSummary), EncodeFailure> {
        let mut writer: CacheWriter = cache.create().map_err(EncodeFailure::Store)?;
        let progress = self.progress("tokenizing", source);
        let mut store = |tokens: &[u8]| writer.write(tokens);
        let summary = encode_source(source, tokenizer, &progress, &mut store)?;
        progress.finish_and_clear();
        writer.finish(&summary).map_err(EncodeFailure::Store)?;
        match cache.open() {
            Ok(Some(opened)) => Ok(opened),
            Ok(None) => Err(EncodeFailure::Store(io::ErrorKind::NotFound.into())),
            Err(CacheError::Io(error)) => Err(EncodeFailure::Store(error)),
            Err(error) => Err(EncodeFailure::Store(io::Error::other(error))),
        }
    }

    fn progress(&self, action: &str, source: &TextSource) -> ProgressBar {
        let target = match self.quiet {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let style = ProgressStyle::with_template(
            "{msg}  {bar:24} {bytes}/{total_bytes}  {elapsed} elapsed, ETA {eta}",
        )
        .expect("the template is valid");
        ProgressBar::with_draw_target(Some(source.file_bytes()), target)
            .with_style(style)
            .with_message(format!("{action} {}", source.name()))
    }
}
