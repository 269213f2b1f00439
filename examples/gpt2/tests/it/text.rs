//! Texts from files, packed and damaged, and the cache of their tokens.

use flate2::{Compression, write::GzEncoder};
use gpt2::{Origin, Text, TextError, TextLoader, Token, Tokenizer};
use lzma_rust2::{XzOptions, XzWriter};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

const TEXT: &[u8] = b"To be, or not to be: that is the question.\n";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn xz(text: &[u8]) -> Vec<u8> {
    let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(6)).unwrap();
    writer.write_all(text).unwrap();
    writer.finish().unwrap()
}

fn long_text() -> Vec<u8> {
    (0..3000)
        .flat_map(|line| format!("line {line} of {}\n", line * line % 97).into_bytes())
        .collect()
}

fn load(path: &Path, tokenizer: Tokenizer) -> Result<Vec<Token>, TextError> {
    let (text, origin) = TextLoader::default().load(&[path.into()], tokenizer)?;
    assert!(matches!(origin, Origin::Encoded));
    Ok(text.tokens().to_vec())
}

/// What `TEXT` must give.
fn assert_loads(path: &Path, expected: &[u8]) {
    for tokenizer in [Tokenizer::Bytes, Tokenizer::Gpt2] {
        let tokens = load(path, tokenizer).unwrap();
        assert_eq!(tokens, tokenizer.encode(expected).unwrap(), "{path:?}");
    }
}

#[test]
fn packed_texts_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let twice = [TEXT, TEXT].concat();
    let files = [
        ("a.tokens", TEXT.to_vec(), TEXT),
        ("a.txt.gz", gzip(TEXT), TEXT),
        ("a.raw.xz", xz(TEXT), TEXT),
        ("members.gz", [gzip(TEXT), gzip(TEXT)].concat(), &twice),
        ("streams.xz", [xz(TEXT), xz(TEXT)].concat(), &twice),
        ("empty.gz", gzip(b""), b""),
        ("empty.xz", xz(b""), b""),
    ];
    for (name, content, expected) in files {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        assert_loads(&path, expected);
    }
}

#[test]
fn the_parts_of_a_text_may_be_packed_differently() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("1.txt"), &TEXT[..8]).unwrap();
    fs::write(dir.path().join("2.txt.gz"), gzip(&TEXT[8..20])).unwrap();
    fs::write(dir.path().join("3.raw.xz"), xz(&TEXT[20..])).unwrap();

    assert_loads(dir.path(), TEXT);
}

#[test]
fn cut_off_packed_texts_are_errors_at_any_length() {
    let dir = tempfile::tempdir().unwrap();
    let text = long_text();
    for (name, whole) in [("a.gz", gzip(&text)), ("a.xz", xz(&text))] {
        let path = dir.path().join(name);
        for cut in (0..40)
            .chain((40..whole.len()).step_by(97))
            .chain([whole.len() - 1])
        {
            fs::write(&path, &whole[..cut]).unwrap();
            let error = load(&path, Tokenizer::Bytes).unwrap_err().to_string();
            let start = format!("cannot read the text {}: ", path.display());
            let reason = error.strip_prefix(&start).unwrap();
            let kind = if name == "a.gz" { "gzip" } else { "xz" };
            let expected = match cut {
                0 => format!("it is empty, and thus no {kind} file"),
                _ => format!("it is cut short: its {kind} data do not end"),
            };
            assert_eq!(reason, expected, "{cut} bytes of {name}");
        }
    }
}

#[test]
fn damaged_packed_texts_are_never_read_as_another_text() {
    let dir = tempfile::tempdir().unwrap();
    let text = long_text();
    for (name, whole) in [("a.gz", gzip(&text)), ("a.xz", xz(&text))] {
        let path = dir.path().join(name);
        for index in (0..64).chain((64..whole.len()).step_by(31)) {
            let mut damaged = whole.clone();
            damaged[index] ^= 0x10;
            fs::write(&path, damaged).unwrap();
            // Some bytes say nothing about the text, such as the time in a gzip header.
            if let Ok(tokens) = load(&path, Tokenizer::Bytes) {
                let read: Vec<u8> = tokens.into_iter().map(|token| token as u8).collect();
                assert!(read == text, "byte {index} of {name}");
            }
        }
        fs::write(&path, b"this is not packed").unwrap();
        let message = load(&path, Tokenizer::Bytes).unwrap_err().to_string();
        assert!(message.contains(&format!("{name}: it is no ")), "{message}");
        let mut damaged = whole.clone();
        let last = whole.len() - 8;
        damaged[last] ^= 0x10;
        fs::write(&path, damaged).unwrap();
        let message = load(&path, Tokenizer::Bytes).unwrap_err().to_string();
        assert!(message.contains(" data are damaged: "), "{message}");
    }
}

#[test]
fn positions_of_bad_bytes_are_those_of_the_unpacked_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("latin1.txt.gz");
    let mut text = long_text();
    let position = text.len() - 100;
    text[position] = 0xe9;
    fs::write(&path, gzip(&text)).unwrap();

    let message = load(&path, Tokenizer::Gpt2).unwrap_err().to_string();
    assert!(
        message.contains(&format!(
            "latin1.txt.gz is not UTF-8: byte {position} is 0xe9; convert it"
        )),
        "{message}"
    );
}

#[test]
fn the_shipped_text_encodes_the_same_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/data/shakespeare7.txt");
    let content = fs::read(shipped).unwrap();
    let path = dir.path().join("plays.txt.xz");
    fs::write(&path, xz(&content)).unwrap();

    let whole = Text::shakespeare(Tokenizer::Gpt2);
    let (text, _) = TextLoader::default()
        .load(&[path], Tokenizer::Gpt2)
        .unwrap();
    assert_eq!(text.id().tokens, 292_979);
    assert_eq!(text.id().hash, whole.id().hash);
    assert!(text.tokens().to_vec() == whole.tokens().to_vec());
}

struct Cached {
    dir: tempfile::TempDir,
    loader: TextLoader,
    text: PathBuf,
}

impl Cached {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("text.txt");
        fs::write(&text, TEXT).unwrap();
        Self {
            loader: TextLoader {
                cache: Some(dir.path().join("tokens")),
                quiet: true,
            },
            dir,
            text,
        }
    }

    /// Loads the text, checks its tokens, and says where they came from.
    fn load(&self) -> Origin {
        let paths = [self.text.clone()];
        let (text, origin) = self.loader.load(&paths, Tokenizer::Gpt2).unwrap();
        let content = fs::read(&self.text).unwrap();
        let expected = Text::encode("expected", &content, Tokenizer::Gpt2).unwrap();
        assert!(text.id().same_text(expected.id()));
        assert_eq!(text.tokens().to_vec(), expected.tokens().to_vec());
        origin
    }

    fn file(&self) -> PathBuf {
        let files: Vec<_> = fs::read_dir(self.dir.path().join("tokens"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }
}

#[test]
fn tokens_are_kept_and_used_again() {
    let cached = Cached::new();
    assert!(matches!(cached.load(), Origin::CacheWritten { path } if path == cached.file()));
    let written = fs::metadata(cached.file()).unwrap().modified().unwrap();
    assert!(matches!(cached.load(), Origin::Cache { path } if path == cached.file()));
    assert_eq!(
        fs::metadata(cached.file()).unwrap().modified().unwrap(),
        written
    );
}

#[test]
fn a_damaged_cache_is_replaced() {
    let cached = Cached::new();
    cached.load();
    let whole = fs::read(cached.file()).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() - 1] ^= 1;
    let mut header = whole.clone();
    header[40] ^= 1;
    let cases = [
        (whole[..whole.len() - 1].to_vec(), "but must have"),
        (whole[..10].to_vec(), "it has 10 bytes, but must have 72"),
        (flipped, "its tokens are damaged"),
        (header, "its header is damaged"),
        (vec![b'x'; 200], "it does not start as a token cache does"),
    ];
    for (content, reason) in cases {
        fs::write(cached.file(), content).unwrap();
        let origin = cached.load();
        let warning = origin.warning().unwrap();
        assert!(matches!(origin, Origin::CacheReplaced { .. }), "{origin:?}");
        assert!(warning.contains(reason), "{warning}");
        assert_eq!(fs::read(cached.file()).unwrap(), whole);
        assert!(matches!(cached.load(), Origin::Cache { .. }));
    }
}

#[test]
fn the_cache_of_a_text_that_changed_is_replaced() {
    let cached = Cached::new();
    cached.load();
    let changed = TEXT.to_ascii_uppercase();
    fs::write(&cached.text, changed).unwrap();

    let warning = cached.load().warning().unwrap();
    assert!(warning.contains("the text has changed"), "{warning}");
    assert!(matches!(cached.load(), Origin::Cache { .. }));
}

#[test]
fn a_cache_that_cannot_be_written_is_no_obstacle() {
    let cached = Cached::new();
    fs::write(cached.dir.path().join("tokens"), b"a file, not a folder").unwrap();

    let origin = cached.load();
    assert!(matches!(
        origin,
        Origin::CacheNotWritten { .. } | Origin::CacheReplaced { .. }
    ));
    let warning = origin.warning().unwrap();
    assert!(
        warning.contains("cannot write the token cache"),
        "{warning}"
    );
}

#[test]
fn a_text_that_cannot_be_encoded_leaves_no_cache() {
    let cached = Cached::new();
    fs::write(&cached.text, b"ab\xff").unwrap();
    let paths = [cached.text.clone()];
    assert!(matches!(
        cached.loader.load(&paths, Tokenizer::Gpt2),
        Err(TextError::NotUtf8 { position: 2, .. })
    ));
    let left = fs::read_dir(cached.dir.path().join("tokens")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn plain_bytes_need_no_cache() {
    let cached = Cached::new();
    let paths = [cached.text.clone()];
    let (_, origin) = cached.loader.load(&paths, Tokenizer::Bytes).unwrap();
    assert!(matches!(origin, Origin::Encoded));
    assert!(!cached.dir.path().join("tokens").exists());
}
