//! Sparse tensors: values on a device and the pattern of their coordinates.

mod convert;
mod dense;
mod device_pattern;
mod display;
mod factors;
pub(crate) mod ops;
mod pattern_module;
mod sparse_tensor;

pub use dense::{dense_product, linear};
pub use device_pattern::DevicePattern;
pub use factors::{Candidate, GradientFactors};
pub use sparse_tensor::SparseTensor;

pub(crate) use device_pattern::HostIndex;
pub(crate) use ops::{product, reshape, sampled_product};
pub(crate) use pattern_module::{decode, replace_pattern, visited_pattern};
