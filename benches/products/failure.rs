//! A routine that cannot run is a row of the report, not the end of it.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe, catch_unwind};

/// The text of a panic, or what the closure returns.
///
/// # Errors
///
/// Returns the first line of the panic.
pub fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| text_of(&*panic))
}

/// The first line of a panic.
pub fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a text");
    text.lines().next().unwrap_or_default().to_string()
}

/// Panics are reported in rows; their traces would tear the table.
pub fn silence() {
    panic::set_hook(Box::new(|_| {}));
}
