//! Optimizers and their states under topology updates.

mod local_clock;
mod on_device;
mod remap;
mod scaled;
#[cfg(test)]
mod tests;

pub use local_clock::*;
pub use on_device::*;
pub use remap::*;
pub use scaled::*;
