use core::fmt::Display;
use std::io::{self, Write};

/// Prints a line on standard output. A closed one is no reason to end a run.
pub fn print_out(text: impl Display) {
    writeln!(io::stdout(), "{text}").ok();
}

/// Prints a line on standard error. A closed one is no reason to end a run.
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
