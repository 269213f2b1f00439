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

/// A number and what it counts, as in `1 seed` or `2 seeds`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A number with its thousands set apart, as in `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
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
    fn numbers_are_written_for_people() {
        assert_eq!(
            [0, 999, 1000, 1234567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            (counted(1, "seed"), counted(0, "seed")),
            ("1 seed".into(), "0 seeds".into())
        );
    }
}
