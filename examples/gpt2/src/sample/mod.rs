//! Choosing a token by its logit.

mod distribution;
mod error;
mod options;
mod sampler;

pub(crate) use distribution::check;
pub use distribution::{Candidate, distribution};
pub use error::SampleError;
pub use options::SamplingOptions;
pub use sampler::Sampler;
