//! What the commands do with trained weights: `gpt2_convert`, `gpt2_generate`, `gpt2_eval`, and
//! `gpt2_dst --init`.

mod convert;
mod evaluate;
mod evaluate_report;
mod generate;
mod generate_report;
mod init;
mod model_args;
mod tokenizer;

pub use convert::*;
pub use evaluate::*;
pub use evaluate_report::*;
pub use generate::*;
pub use generate_report::*;
pub(crate) use init::InitialWeights;
pub use model_args::ModelArgs;
