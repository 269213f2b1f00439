//! WikiText as Hugging Face distributes it.

use gpt2::{TextLoader, TextSource, Tokenizer};
use parquet::{
    basic::Compression,
    column::writer::ColumnWriter,
    data_type::ByteArray,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use std::{
    fs::{self, File},
    path::Path,
    sync::Arc,
};

const ROWS: [&str; 6] = [
    "",
    " = Title = \n",
    "",
    " A line , caf\u{e9} . \n",
    " another\n",
    "",
];

/// Writes one row group for every slice of rows; `None` is null.
fn write(path: &Path, schema: &str, groups: &[&[Option<&str>]], compression: Compression) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .build();
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for rows in groups {
        let mut group = writer.next_row_group().unwrap();
        while let Some(mut column) = group.next_column().unwrap() {
            match column.untyped() {
                ColumnWriter::ByteArrayColumnWriter(writer) => {
                    let values: Vec<ByteArray> =
                        rows.iter().flatten().map(|&row| row.into()).collect();
                    let levels: Vec<i16> = rows.iter().map(|row| row.is_some().into()).collect();
                    writer.write_batch(&values, Some(&levels), None).unwrap();
                }
                ColumnWriter::Int64ColumnWriter(writer) => {
                    let values: Vec<i64> = (0..rows.len() as i64).collect();
                    writer.write_batch(&values, None, None).unwrap();
                }
                _ => panic!("the tests use no other type"),
            }
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

const SCHEMA: &str = "message schema { optional binary text (STRING); }";

fn some<'a>(rows: &[&'a str]) -> Vec<Option<&'a str>> {
    rows.iter().map(|&row| Some(row)).collect()
}

fn load(path: &Path) -> Result<Vec<u8>, String> {
    let loaded = TextLoader::default().load(&[path.into()], Tokenizer::Bytes);
    let (text, _) = loaded.map_err(|error| error.to_string())?;
    Ok(Tokenizer::Bytes.decode(&text.tokens().to_vec()).unwrap())
}

#[test]
fn rows_are_joined_with_nothing_between_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("train.parquet");
    let rows = some(&ROWS);
    let expected = ROWS.concat();
    let zstd = Compression::ZSTD(Default::default());
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd] {
        write(
            &path,
            SCHEMA,
            &[&rows[..2], &rows[2..3], &rows[3..]],
            compression,
        );
        assert_eq!(load(&path).unwrap(), expected.as_bytes());

        let tokens = TextLoader::default()
            .load(std::slice::from_ref(&path), Tokenizer::Gpt2)
            .unwrap();
        let whole = Tokenizer::Gpt2.encode(expected.as_bytes()).unwrap();
        assert_eq!(tokens.0.tokens().to_vec(), whole);
    }
    let source = TextSource::find(&[path]).unwrap();
    assert_eq!(
        source.count_words().unwrap(),
        gpt2::count_words(expected.as_bytes())
    );
}

#[test]
fn many_rows_null_rows_and_other_columns_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("many.parquet");
    let lines: Vec<String> = (0..5000).map(|i| format!("line {i}\n")).collect();
    let rows: Vec<Option<&str>> = lines
        .iter()
        .enumerate()
        .map(|(index, line)| (index % 7 > 0).then_some(line.as_str()))
        .collect();
    let schema = "message schema { required int64 id; optional binary text (STRING); }";
    write(
        &path,
        schema,
        &[&rows[..3000], &rows[3000..]],
        Compression::SNAPPY,
    );

    let expected: String = rows.into_iter().flatten().collect();
    assert!(load(&path).unwrap() == expected.as_bytes());
}

#[test]
fn files_without_a_column_of_text_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.parquet");
    let other = "message schema { optional binary content (STRING); required int64 id; }";
    write(&path, other, &[&some(&["a"])], Compression::SNAPPY);
    let message = load(&path).unwrap_err();
    assert!(
        message.contains("other.parquet: it has no column \"text\", only [\"content\", \"id\"]"),
        "{message}"
    );

    write(
        &path,
        "message schema { required int64 text; }",
        &[&some(&["a"])],
        Compression::SNAPPY,
    );
    let message = load(&path).unwrap_err();
    assert!(
        message.contains("its column \"text\" has the type INT64, not one string a row"),
        "{message}"
    );

    fs::write(&path, b"this is a text, not Parquet").unwrap();
    assert!(load(&path).unwrap_err().contains("other.parquet: "));
}

#[test]
fn cut_off_files_are_errors_at_any_length() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("train.parquet");
    write(&path, SCHEMA, &[&some(&ROWS)], Compression::SNAPPY);
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let message = load(&path).unwrap_err();
        assert!(
            message.contains("train.parquet: "),
            "{cut} bytes: {message}"
        );
    }
}

/// The format has no checksum of its own, so that a changed letter may go unnoticed; a crash must
/// not happen.
#[test]
fn damaged_files_do_not_end_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("train.parquet");
    let zstd = Compression::ZSTD(Default::default());
    for compression in [Compression::SNAPPY, zstd] {
        write(&path, SCHEMA, &[&some(&ROWS)], compression);
        let whole = fs::read(&path).unwrap();
        let mut refused = 0;
        for index in 0..whole.len() {
            for flip in [0x01, 0x10, 0xff] {
                let mut damaged = whole.clone();
                damaged[index] ^= flip;
                fs::write(&path, damaged).unwrap();
                refused += usize::from(load(&path).is_err());
            }
        }
        assert!(
            refused > whole.len(),
            "only {refused} of {} are found",
            3 * whole.len()
        );
    }
}
