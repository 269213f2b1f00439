use core::fmt::Display;
use std::io::{self, Write};

/// Prints a line on standard output. A closed pipe is no fault: whoever read it has seen enough.
///
/// # Errors
///
/// Any other failure to write, such as a full disk.
pub fn print_out(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints a line on standard error. A closed one is no reason to end a run.
pub fn print_err(text: impl Display) {
    writeln!(io::stderr(), "{text}").ok();
}

/// A number and what it counts, as in `1 seed` or `2 seeds`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number as u64))
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

/// A number without long rows of digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size.is_finite() && size != 0.0 && !(1e-4..1e7).contains(&size) => {
            format!("{value:e}")
        }
        _ => value.to_string(),
    }
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
        assert_eq!(counted(24_449, "step"), "24,449 steps");
        let numbers = [0.0, 0.05, 13.0, 1e30, 1e-9, f64::INFINITY].map(short);
        assert_eq!(numbers, ["0", "0.05", "13", "1e30", "1e-9", "inf"]);
    }
}
