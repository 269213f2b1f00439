//! The usual rule: a prune criterion, a grow criterion, and where their quotas apply.

mod base;
mod guided;
mod network;
mod scopes;
#[cfg(test)]
mod tests;

pub use base::*;
