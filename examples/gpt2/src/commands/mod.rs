//! What the commands do with pretrained weights: `gpt2_convert`, and `gpt2_dst --init`.

mod convert;
mod init;

pub use convert::*;
pub(crate) use init::InitialWeights;
