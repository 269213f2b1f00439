//! What the commands do with trained weights: `gpt2_convert`, `gpt2_generate`, and
//! `gpt2_dst --init`.

mod convert;
mod generate;
mod generate_report;
mod init;
mod model_args;
mod tokenizer;

pub use convert::*;
pub use generate::*;
pub use generate_report::*;
pub(crate) use init::InitialWeights;
pub use model_args::ModelArgs;
