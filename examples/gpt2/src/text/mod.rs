//! From text files to tokens.

mod cache;
mod decoder;
mod encode;
mod error;
mod file;
mod load;
#[cfg(feature = "parquet")]
mod parquet;
mod source;
mod split;
mod tokenizer;
mod tokens;
mod unpack;
mod words;

pub use cache::*;
pub use decoder::*;
pub use encode::TextSummary;
pub use error::*;
pub use file::*;
pub use load::*;
pub use source::*;
pub use tokenizer::*;
pub use tokens::*;
pub use words::*;
