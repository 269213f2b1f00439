//! A routine that cannot run is a row of the report, not the end of it.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe, catch_unwind};

/// The reason of a panic, or what the closure returns.
///
/// # Errors
///
/// Returns one line.
pub fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| text_of(&*panic))
}

/// The reason of a panic in one line.
pub fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a text");
    reason(text)
}

/// The last line of the causes that a text ends with, else its first line.
///
/// A device that runs what it is told later reports a refusal where its result is read, as the
/// cause of an error that says only so; a trace may follow.
pub fn reason(text: &str) -> String {
    let mut lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Backtrace"))
        .filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let cause = lines
        .skip_while(|line| *line != "Caused by:")
        .filter(|line| *line != "Caused by:")
        .last();
    cause.unwrap_or(first).to_string()
}

/// Panics are reported in rows; their traces would tear the table.
pub fn silence() {
    panic::set_hook(Box::new(|_| {}));
}
