use super::{TextError, unpack::unpack};
use indicatif::ProgressBar;
use std::{
    ffi::OsStr,
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

/// How text lies in a file; the end of the file's name says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// As it is.
    Plain,
    /// `.gz`: gzip, of one member or more.
    Gzip,
    /// `.xz`: xz, of one stream or more.
    Xz,
    /// `.parquet`: rows of a column `text`, joined with nothing between them.
    Parquet,
}

/// One file of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    path: PathBuf,
    format: TextFormat,
}

impl TextFile {
    /// Takes a file for what its name says; looks at nothing but the name.
    ///
    /// # Errors
    ///
    /// [`TextError::UnsupportedArchive`] for archives that are not read;
    /// [`TextError::ParquetNotCompiled`] for Parquet without the feature.
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, TextError> {
        let path = path.into();
        let format = match extension(&path).as_str() {
            "gz" if extension(&path.with_extension("")) == "tar" => {
                return Err(unsupported(path, "tar.gz"));
            }
            "xz" if extension(&path.with_extension("")) == "tar" => {
                return Err(unsupported(path, "tar.xz"));
            }
            "gz" => TextFormat::Gzip,
            "xz" => TextFormat::Xz,
            "parquet" if cfg!(feature = "parquet") => TextFormat::Parquet,
            "parquet" => return Err(TextError::ParquetNotCompiled { path }),
            other @ ("zip" | "zst" | "bz2" | "7z" | "tar" | "tgz" | "txz") => {
                return Err(unsupported(path.clone(), other));
            }
            _ => TextFormat::Plain,
        };
        Ok(Self { path, format })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How its text is packed.
    pub fn format(&self) -> TextFormat {
        self.format
    }

    /// Reads its text, unpacked; `progress` counts the bytes of the file.
    ///
    /// A damaged file may give text before it gives an error.
    ///
    /// # Errors
    ///
    /// [`TextError::Read`] if it cannot be opened or does not begin as its format does.
    pub fn open(&self, progress: &ProgressBar) -> Result<Box<dyn Read>, TextError> {
        let file = File::open(&self.path).map_err(TextError::read(&self.path))?;
        #[cfg(feature = "parquet")]
        if self.format == TextFormat::Parquet {
            let rows = super::parquet::ParquetText::new(file, progress.clone());
            return Ok(Box::new(rows.map_err(TextError::read(&self.path))?));
        }
        let packed = BufReader::with_capacity(1 << 16, progress.wrap_read(file));
        unpack(packed, self.format).map_err(TextError::read(&self.path))
    }
}

/// The end of a file's name in lower case, empty if there is none.
pub(super) fn extension(path: &Path) -> String {
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    extension.to_ascii_lowercase()
}

fn unsupported(path: PathBuf, extension: &str) -> TextError {
    TextError::UnsupportedArchive {
        path,
        extension: extension.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_the_format() {
        let format = |name: &str| TextFile::new(name).unwrap().format();

        assert_eq!(format("wiki.train.tokens"), TextFormat::Plain);
        assert_eq!(format("book"), TextFormat::Plain);
        assert_eq!(format("notes.md"), TextFormat::Plain);
        assert_eq!(format("a.raw.gz"), TextFormat::Gzip);
        assert_eq!(format("a.XZ"), TextFormat::Xz);
    }

    #[test]
    fn archives_are_named() {
        let message = |name: &str| TextFile::new(name).unwrap_err().to_string();

        assert!(message("a/b.zip").contains("the text a/b.zip is a .zip file"));
        assert!(message("b.tar.gz").contains("is a .tar.gz file"));
        assert!(message("b.zst").contains("(.gz and .xz are read as they are)"));
    }

    #[cfg(not(feature = "parquet"))]
    #[test]
    fn parquet_names_its_feature() {
        let message = TextFile::new("train.parquet").unwrap_err().to_string();
        assert!(message.contains("build with `--features parquet`"));
    }
}
