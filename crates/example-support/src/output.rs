use core::fmt::Display;
use std::io::{self, Write};
use thiserror::Error;

/// Standard output that takes no more, for example because it is a file on a full disk.
#[derive(Debug, Error)]
#[error("cannot write to standard output: {0}")]
pub struct OutputError(#[from] io::Error);

/// Prints a line on standard output.
///
/// # Errors
///
/// As [`write_out`].
pub fn print_out(text: impl Display) -> Result<(), OutputError> {
    write_out(&format!("{text}\n"))
}

/// Writes a text to standard output at once. A closed pipe is no fault: whoever read it has seen enough.
///
/// An output that was closed before the program began is none, either: Rust puts `/dev/null` in its place.
///
/// # Errors
///
/// Any other failure to write, such as a full disk or an output that was opened for reading.
pub fn write_out(text: &str) -> Result<(), OutputError> {
    match standard_output().and_then(|mut out| write_to(&mut out, text)) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Standard output as a file: Rust's own handle takes a bad descriptor for an output that discards.
#[cfg(unix)]
fn standard_output() -> io::Result<impl Write> {
    use std::{fs::File, os::fd::AsFd};
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

#[cfg(not(unix))]
fn standard_output() -> io::Result<impl Write> {
    Ok(io::stdout())
}

fn write_to(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints a line on standard error. One that cannot be written is no reason to end a run.
pub fn print_err(text: impl Display) {
    writeln!(io::stderr(), "{text}").ok();
}

/// A number and what it counts, as in `1 node` or `2 nodes`.
pub fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A word as a shell takes it, quoted where needed.
pub fn quoted(word: &str) -> String {
    let plain =
        |c: char| c.is_alphanumeric() || "/._-+=:@,%".contains(c) || (cfg!(windows) && c == '\\');
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A number with its thousands set apart, as in `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            [0, 999, 1000, 1234567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    #[test]
    fn only_unusual_words_are_quoted() {
        assert_eq!(quoted("runs/gamlp-dst-001"), "runs/gamlp-dst-001");
        assert_eq!(quoted("my run"), "'my run'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(counted(1, "node"), "1 node");
        assert_eq!(counted(2, "node"), "2 nodes");
    }
}
