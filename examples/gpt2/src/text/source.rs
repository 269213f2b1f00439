use super::{TextError, TextFile, TextFormat, Tokenizer, file::extension};
use indicatif::ProgressBar;
use std::{
    fs,
    hash::Hasher,
    io::{self, Read},
    path::{Path, PathBuf},
};
use twox_hash::XxHash3_64;

/// The files of one text, in the order in which they are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSource {
    files: Vec<TextFile>,
}

/// What tells the files of a text from others, and from themselves after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceId {
    /// Length of all files.
    pub bytes: u64,
    /// XXH3 hash of path, length and content of every file.
    pub hash: u64,
}

impl TextSource {
    /// Finds the files: those given and, for a folder, those in it that hold text. They are joined
    /// in the order of their paths.
    ///
    /// # Errors
    ///
    /// Those of [`TextFile::new`]; [`TextError::Read`] for a path that does not exist;
    /// [`TextError::NoTextInFolder`] and [`TextError::MixedSplits`] for a folder.
    pub fn find(paths: &[PathBuf]) -> Result<Self, TextError> {
        let mut found = Vec::new();
        for path in paths {
            let metadata = fs::metadata(path).map_err(TextError::read(path))?;
            match metadata.is_dir() {
                true => found.extend(texts_in(path)?),
                false => found.push(path.clone()),
            }
        }
        found.sort();
        let files = found.into_iter().map(TextFile::new);
        Ok(Self {
            files: files.collect::<Result<_, _>>()?,
        })
    }

    /// The files.
    pub fn files(&self) -> &[TextFile] {
        &self.files
    }

    /// A name for messages: the path of the first file, and how many others there are.
    pub fn name(&self) -> String {
        let Some((first, others)) = self.files.split_first() else {
            return "no file".into();
        };
        match others.len() {
            0 => first.path().display().to_string(),
            n => format!("{} and {n} more", first.path().display()),
        }
    }

    /// Length of all files, as far as it is known; a pipe has none.
    pub fn file_bytes(&self) -> u64 {
        let lengths = self.files.iter().map(|file| fs::metadata(file.path()));
        lengths.flatten().map(|metadata| metadata.len()).sum()
    }

    /// Whether stored tokens save time: not where reading the files is as fast. Files that can be
    /// read only once, such as pipes, cannot be told from others.
    pub fn is_worth_caching(&self, tokenizer: Tokenizer) -> bool {
        let work = tokenizer != Tokenizer::Bytes
            || self.files.iter().any(|f| f.format() != TextFormat::Plain);
        work && self.files.iter().all(|file| file.path().is_file())
    }

    /// Reads the files to tell them from others; `progress` counts the bytes.
    ///
    /// # Errors
    ///
    /// [`TextError::Read`] if one cannot be read.
    pub fn id(&self, progress: &ProgressBar) -> Result<SourceId, TextError> {
        let mut hasher = XxHash3_64::new();
        let mut bytes = 0;
        let mut buffer = vec![0; 1 << 20];
        for file in &self.files {
            hasher.write(absolute(file.path()).as_os_str().as_encoded_bytes());
            let mut length = 0;
            let mut content = fs::File::open(file.path()).map_err(TextError::read(file.path()))?;
            loop {
                let read = match content.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(TextError::read(file.path())(error)),
                };
                hasher.write(&buffer[..read]);
                length += read as u64;
                progress.inc(read as u64);
            }
            hasher.write_u64(length);
            bytes += length;
        }
        Ok(SourceId {
            bytes,
            hash: hasher.finish(),
        })
    }

    /// Hash of the paths alone.
    pub fn path_hash(&self) -> u64 {
        let mut hasher = XxHash3_64::new();
        for file in &self.files {
            hasher.write(absolute(file.path()).as_os_str().as_encoded_bytes());
            hasher.write_u8(0);
        }
        hasher.finish()
    }
}

fn absolute(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The texts in a folder, without its subfolders and hidden files.
fn texts_in(folder: &Path) -> Result<Vec<PathBuf>, TextError> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).map_err(TextError::read(folder))? {
        let path = entry.map_err(TextError::read(folder))?.path();
        if holds_text(&path) && path.is_file() {
            texts.push(path);
        }
    }
    texts.sort();

    let splits: Vec<_> = texts
        .iter()
        .filter_map(|path| Some((split_of(path)?, path)))
        .collect();
    if let Some(other) = splits.iter().find(|other| other.0 != splits[0].0) {
        return Err(TextError::MixedSplits {
            path: folder.to_owned(),
            first: file_name(splits[0].1),
            second: file_name(other.1),
        });
    }
    if texts.is_empty() {
        let path = folder.to_owned();
        return Err(TextError::NoTextInFolder { path });
    }
    Ok(texts)
}

fn holds_text(path: &Path) -> bool {
    let plain = |path: &Path| matches!(extension(path).as_str(), "txt" | "tokens" | "raw");
    let hidden = file_name(path).starts_with('.');
    !hidden
        && match extension(path).as_str() {
            "gz" | "xz" => plain(&path.with_extension("")),
            "parquet" => true,
            _ => plain(path),
        }
}

/// The split of a data set that a name such as `wiki.valid.tokens` or
/// `train-00000-of-00002.parquet` says.
fn split_of(path: &Path) -> Option<&'static str> {
    let name = file_name(path).to_ascii_lowercase();
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .find_map(|word| match word {
            "train" => Some("train"),
            "valid" | "validation" => Some("validation"),
            "test" => Some("test"),
            _ => None,
        })
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(dir.path().join(name), name).unwrap();
        }
        dir
    }

    fn names(source: &TextSource) -> Vec<String> {
        source.files().iter().map(|f| file_name(f.path())).collect()
    }

    #[test]
    fn a_folder_gives_its_texts_in_order() {
        let dir = folder(&["b.txt", "c.raw.gz", "a.tokens", ".d.txt", "README.md", "e"]);
        fs::create_dir(dir.path().join("sub.txt")).unwrap();

        let source = TextSource::find(&[dir.path().into()]).unwrap();
        assert_eq!(names(&source), ["a.tokens", "b.txt", "c.raw.gz"]);
        assert!(source.name().ends_with("a.tokens and 2 more"));
        assert_eq!(source.file_bytes(), 8 + 5 + 8);
    }

    #[test]
    fn files_are_joined_in_the_order_of_their_paths() {
        let dir = folder(&["part-2", "part-1"]);
        let paths = ["part-2", "part-1"].map(|name| dir.path().join(name));

        let source = TextSource::find(&paths).unwrap();
        assert_eq!(names(&source), ["part-1", "part-2"]);
    }

    #[test]
    fn splits_are_not_joined() {
        let dir = folder(&["wiki.train.tokens", "wiki.valid.tokens"]);
        let message = TextSource::find(&[dir.path().into()]).unwrap_err();
        assert!(
            message
                .to_string()
                .contains("different splits (wiki.train.tokens and wiki.valid.tokens)"),
            "{message}"
        );

        let one = folder(&["train-0.txt", "train-1.txt", "training.txt"]);
        assert!(TextSource::find(&[one.path().into()]).is_ok());
    }

    #[test]
    fn what_is_not_there_is_named() {
        let dir = folder(&["README.md"]);
        let message = |path: &Path| TextSource::find(&[path.into()]).unwrap_err().to_string();

        assert!(message(dir.path()).contains("holds no text: no file ends in .txt"));
        let absent = message(&dir.path().join("absent.txt"));
        assert!(absent.contains("cannot read the text") && absent.contains("absent.txt"));
    }

    #[test]
    fn the_identity_is_that_of_path_and_content() {
        let dir = folder(&["a.txt", "b.txt"]);
        let id = |names: &[&str]| {
            let paths: Vec<_> = names.iter().map(|name| dir.path().join(name)).collect();
            let source = TextSource::find(&paths).unwrap();
            source.id(&ProgressBar::hidden()).unwrap()
        };
        let before = id(&["a.txt"]);
        assert_eq!(before.bytes, 5);
        assert_eq!(id(&["a.txt"]), before);
        assert_ne!(id(&["b.txt"]), before);
        assert_eq!(id(&["a.txt", "b.txt"]).bytes, 10);

        fs::write(dir.path().join("a.txt"), "a.tx!").unwrap();
        assert_eq!(id(&["a.txt"]).bytes, before.bytes);
        assert_ne!(id(&["a.txt"]).hash, before.hash);
    }

    #[test]
    fn plain_bytes_are_not_worth_caching() {
        let dir = folder(&["a.txt", "a.txt.gz"]);
        let source = |name| TextSource::find(&[dir.path().join(name)]).unwrap();

        assert!(!source("a.txt").is_worth_caching(Tokenizer::Bytes));
        assert!(source("a.txt").is_worth_caching(Tokenizer::Gpt2));
        assert!(source("a.txt.gz").is_worth_caching(Tokenizer::Bytes));
    }
}
