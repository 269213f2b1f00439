//! Perplexity: which tokens of a text are scored with which context, and what follows from it.

mod likelihood;
mod plan;
mod score;

pub use plan::*;
pub use score::*;
