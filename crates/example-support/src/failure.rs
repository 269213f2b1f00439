use core::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thiserror::Error;

/// What a back end says of an allocation that has failed, in lower case.
const OUT_OF_MEMORY: [&str; 7] = [
    // CubeCL: a full device, a launch on one, a buffer larger than any page, too many sizes of pages.
    "out of device memory",
    "out-of-memory",
    "can't allocate",
    // Drivers and wgpu: CUDA_ERROR_OUT_OF_MEMORY, hipErrorOutOfMemory, VK_ERROR_OUT_OF_DEVICE_MEMORY.
    "out_of_memory",
    "outofmemory",
    "out_of_device_memory",
    "out of memory",
];

/// Characters of a message that are worth showing; back ends repeat themselves.
const SHOWN: usize = 500;

/// What a device, or the program on it, said when it failed: one line.
///
/// Most back ends report an operation that has failed when a result that depends on it is read, and Burn
/// makes a panic of the report.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct DeviceFailure(String);

impl DeviceFailure {
    /// The failure of which a back end says this, without the traces of calls that CubeCL adds.
    pub fn new(text: &str) -> Self {
        // A message that was formatted as a debugging aid has its ends of lines escaped.
        let text = text.replace("\\n", "\n");
        let text = text.replace("No backtrace available", "");
        let said = text.lines().map(str::trim);
        let said = said.filter(|line| !line.is_empty() && *line != "Backtrace" && !is_frame(line));
        let mut said = said.collect::<Vec<_>>().join(" ");
        if let Some((end, _)) = said.char_indices().nth(SHOWN) {
            said.truncate(end);
            said.push_str(" ...");
        }
        Self(said)
    }

    /// The failure that a panic with this payload tells of.
    pub fn of_panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or(payload.downcast_ref::<&str>().copied());
        Self::new(text.unwrap_or("a panic without text"))
    }

    /// Whether the device had no memory for what was asked of it.
    pub fn is_out_of_memory(&self) -> bool {
        let said = self.0.to_lowercase();
        OUT_OF_MEMORY.iter().any(|text| said.contains(text))
    }
}

/// Whether a line is part of a trace of calls: `12: name` or `at file:line:column`.
fn is_frame(line: &str) -> bool {
    let numbered = line.split_once(": ").is_some_and(|(number, _)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    numbered || (line.starts_with("at ") && line.contains(".rs:"))
}

/// Runs `act`, and makes an error of its panic. What the panic says is printed on standard error, too.
///
/// # Errors
///
/// The [`DeviceFailure`] of the panic.
pub fn catch_failure<T>(act: impl FnOnce() -> T) -> Result<T, DeviceFailure> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|payload| DeviceFailure::of_panic(&*payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Burn's `into_scalar` says it after an allocation by CubeCL has failed.
    const FULL: &str = "Error while reading data: use `try_into_scalar` instead to catch the error at runtime: \
        Execution(WithContext { reason: \"An IO error happened\\nCaused by:\\n  out of device memory allocating \
        4294967296 bytes\\nNo backtrace available\" })";

    #[test]
    fn allocations_that_fail_are_recognised() {
        let found = |text: &str| DeviceFailure::new(text).is_out_of_memory();
        assert!(found(FULL));
        for text in [
            "An out-of-memory error happened during launch\nCaused by:\n  pool",
            "can't allocate buffer of size: 17\nNo backtrace available",
            "Can't allocate 17 bytes: every page size the memory tracks still holds live allocations",
            "cuMemAllocHost_v2 failed with error code: CUDA_ERROR_OUT_OF_MEMORY",
            "wgpu error: Out of Memory",
        ] {
            assert!(found(text), "{text}");
        }
        for text in [
            "Too much shared memory requested.\nRequested 70000 bytes, maximum 65536 bytes available.",
            "couldn't find resource for that handle: gone",
            "index out of bounds: the len is 3 but the index is 3",
        ] {
            assert!(!found(text), "{text}");
        }
    }

    #[test]
    fn messages_are_one_short_line() {
        let failure = DeviceFailure::new(FULL).to_string();
        assert!(
            failure.ends_with("Caused by: out of device memory allocating 4294967296 bytes \" })"),
            "{failure}"
        );
        assert!(!failure.contains("\\n"));
        let traced = "the device\nBacktrace\n   0: cubecl::launch\n             at /src/client.rs:7:1\n  12: main\n";
        assert_eq!(DeviceFailure::new(traced).to_string(), "the device");
        let long = DeviceFailure::new(&"ä".repeat(1000)).to_string();
        assert_eq!(long.chars().count(), SHOWN + 4);
    }

    #[test]
    fn panics_become_errors() {
        assert_eq!(catch_failure(|| 7), Ok(7));
        let text = |act: fn()| catch_failure(act).unwrap_err().to_string();
        assert_eq!(text(|| panic!("a text")), "a text");
        assert_eq!(text(|| panic!("a {}", "number")), "a number");
        assert_eq!(text(|| std::panic::panic_any(3)), "a panic without text");
    }
}
