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
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A word as a shell takes it, quoted where needed.
pub(crate) fn quoted(word: &str) -> String {
    let plain =
        |c: char| c.is_alphanumeric() || "/._-+=:@,%".contains(c) || (cfg!(windows) && c == '\\');
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
