use indicatif::ProgressBar;
use parquet::{
    basic::Type,
    column::reader::ColumnReader,
    data_type::ByteArray,
    errors::ParquetError,
    file::reader::{FileReader, SerializedFileReader},
};
use std::{
    fs::File,
    io::{self, Read},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// The column of WikiText, and of most text data sets.
const COLUMN: &str = "text";
/// Rows read at a time.
const ROWS: usize = 1024;

/// The rows of the column `text`, joined with nothing between them, as a stream.
///
/// A row that is absent (null) counts as an empty one.
pub struct ParquetText {
    file: SerializedFileReader<File>,
    column: usize,
    /// Deepest definition level of the column: 0 where rows cannot be null.
    max_level: i16,
    next_group: usize,
    rows: Option<ColumnReader>,
    text: Vec<u8>,
    taken: usize,
    progress: ProgressBar,
}

impl ParquetText {
    /// Reads the description of the file.
    ///
    /// # Errors
    ///
    /// An error of kind `InvalidData` if it is no Parquet file or has no column `text` of strings.
    pub fn new(file: File, progress: ProgressBar) -> io::Result<Self> {
        let file = unwinding(|| SerializedFileReader::new(file))?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let columns = schema.columns();
        let names: Vec<_> = columns.iter().map(|c| c.path().string()).collect();
        let Some(column) = names.iter().position(|name| name == COLUMN) else {
            return Err(invalid_text(format!(
                "it has no column {COLUMN:?}, only {names:?}"
            )));
        };
        let description = &columns[column];
        if description.physical_type() != Type::BYTE_ARRAY || description.max_rep_level() > 0 {
            return Err(invalid_text(format!(
                "its column {COLUMN:?} has the type {}{}, not one string a row",
                description.physical_type(),
                if description.max_rep_level() > 0 {
                    ", repeated"
                } else {
                    ""
                }
            )));
        }
        Ok(Self {
            max_level: description.max_def_level(),
            column,
            file,
            next_group: 0,
            rows: None,
            text: Vec::new(),
            taken: 0,
            progress,
        })
    }

    /// Reads more rows; `false` at the end of the file.
    fn read_rows(&mut self) -> Result<bool, ParquetError> {
        self.text.clear();
        self.taken = 0;
        loop {
            let Some(rows) = &mut self.rows else {
                if self.next_group == self.file.num_row_groups() {
                    return Ok(false);
                }
                let group = self.file.get_row_group(self.next_group)?;
                self.rows = Some(group.get_column_reader(self.column)?);
                self.next_group += 1;
                continue;
            };
            let ColumnReader::ByteArrayColumnReader(reader) = rows else {
                return Err(ParquetError::General("the column changes its type".into()));
            };
            let mut values: Vec<ByteArray> = Vec::with_capacity(ROWS);
            let mut levels = Vec::with_capacity(ROWS);
            let levels = (self.max_level > 0).then_some(&mut levels);
            let (count, _, _) = reader.read_records(ROWS, levels, None, &mut values)?;
            if count == 0 {
                let group = self.file.metadata().row_group(self.next_group - 1);
                let bytes = group.column(self.column).compressed_size();
                self.progress.inc(bytes.try_into().unwrap_or(0));
                self.rows = None;
                continue;
            }
            for value in &values {
                self.text.extend_from_slice(value.data());
            }
            if !self.text.is_empty() {
                return Ok(true);
            }
        }
    }
}

impl Read for ParquetText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.text.len() && !unwinding(|| self.read_rows())? {
            return Ok(0);
        }
        let read = (&self.text[self.taken..]).read(buffer)?;
        self.taken += read;
        Ok(read)
    }
}

/// Makes an error of a panic: the crate panics on some damaged pages. What it was reading is of no
/// use after that, and the caller stops at the error.
fn unwinding<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> io::Result<T> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
        Err(_) => Err(invalid_text("a page of it is damaged".into())),
    }
}

fn invalid_text(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
