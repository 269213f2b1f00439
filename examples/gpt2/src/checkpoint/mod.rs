//! GPT-2 weights from and to files of the Hugging Face layout, and its sparse variant.
//!
//! Reading goes from [`PretrainedSource`] over [`MlpMatrix`], where magnitude pruning happens on the
//! host, to a [`Gpt2`](crate::Gpt2); writing goes from a model through [`save_pretrained`].

mod build;
mod error;
mod header_fault;
mod hf_config;
mod load;
mod mapped_file;
mod matrix;
mod names;
mod output_tensor;
mod prune;
mod save;
mod source;
mod staging;
mod storage_report;
mod temporary_folder;
mod undo;
mod warning;
mod weight_files;

pub use error::*;
pub use header_fault::HeaderFault;
pub use hf_config::HfConfig;
pub use load::*;
pub use matrix::MlpMatrix;
pub use output_tensor::WeightDtype;
pub use prune::*;
pub use save::*;
pub use source::PretrainedSource;
pub use staging::check_output_folder;
pub use storage_report::*;
pub use warning::LoadWarning;
