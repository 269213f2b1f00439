//! The dense gradient of a matrix as a product that is never formed.

mod base;
mod candidates;
mod scan;

pub use base::GradientFactors;
pub use candidates::Candidate;
