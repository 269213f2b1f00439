//! What the tests share: devices, inputs, the host reference and comparison.

pub mod cases;
pub mod compare;
pub mod devices;
pub mod host;
pub mod layers;
pub mod records;
pub mod reference;
pub mod routines;

pub use cases::Case;
pub use compare::{assert_bits, assert_close, assert_same_run, assert_within};
pub use devices::{Backend, backends, flex};
pub use host::{floats, panic_text, poison, tensor1, tensor2, uniform, widen};
