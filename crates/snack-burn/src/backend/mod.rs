//! Kernels of each back end.

#[cfg(feature = "__cube")]
pub(crate) mod cube;
#[cfg(feature = "flex")]
pub(crate) mod flex;
