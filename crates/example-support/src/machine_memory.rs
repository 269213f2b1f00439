use crate::grouped;
use sysinfo::System;
use thiserror::Error;

/// Something that can never fit into the memory of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{what} takes at least {} MB, but the machine has {} MB", megabytes(*needed),
    megabytes(*total)
)]
pub struct TooLarge {
    /// What it is.
    pub what: &'static str,
    /// Bytes that it takes at least.
    pub needed: u64,
    /// Bytes of memory.
    pub total: u64,
}

impl TooLarge {
    /// Refuses what takes more than `total` bytes.
    ///
    /// # Errors
    ///
    /// [`TooLarge`] if `needed` is more.
    pub fn check(what: &'static str, needed: u128, total: u64) -> Result<(), Self> {
        match needed > u128::from(total) {
            true => Err(Self {
                what,
                needed: u64::try_from(needed).unwrap_or(u64::MAX),
                total,
            }),
            false => Ok(()),
        }
    }
}

/// Bytes of memory that the machine has, where it says so.
///
/// A process that asks for more ends without a word, after minutes perhaps, so what cannot fit is better
/// refused beforehand.
pub fn machine_memory() -> Option<u64> {
    let mut system = System::new();
    system.refresh_memory();
    Some(system.total_memory()).filter(|&total| total > 0)
}

fn megabytes(bytes: u64) -> String {
    grouped(bytes / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_fit_is_refused() {
        assert_eq!(TooLarge::check("it", 1_000_000, 1_000_000), Ok(()));
        let message = TooLarge::check("it", 12_345_000_000, 1_000_000).unwrap_err();
        assert_eq!(
            message.to_string(),
            "it takes at least 12,345 MB, but the machine has 1 MB"
        );
        assert!(TooLarge::check("it", u128::MAX, u64::MAX).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_machine_has_memory() {
        assert!(machine_memory().unwrap() > 1 << 20);
    }
}
