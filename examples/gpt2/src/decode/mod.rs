//! Writing text: a cache of keys and values, and one token after the other.

mod cached_block;
mod decoder;
mod error;
mod generate;
mod inference;
mod memory;
mod state;

pub use decoder::*;
pub use error::*;
pub use generate::*;
pub(crate) use inference::for_inference;
pub use memory::*;
pub use state::DecodeState;
