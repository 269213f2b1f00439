//! Truly sparse neural networks for [Burn](burn): weights are stored, multiplied, differentiated
//! and rewired as lists of non-zeros, and nothing of the dense size is allocated.
//!
//! * [`nn`]: [`SparseLinear`](nn::SparseLinear), the drop-in for `Linear`; start here.
//! * [`dst`]: topology updates during training.
//! * [`checkpoint`]: a training run in one file.
//! * [`dist`]: data-parallel training on several devices.
//! * [`tensor`]: [`SparseTensor`](tensor::SparseTensor), sparse matrices with gradients.
//! * [`pattern`]: coordinates on the host, random ones included.
//! * [`report`]: what a sparse model looks like, and how it changes.
//! * [`capture`]: forward passes and training steps replayed as one hardware graph.
//! * [`ops`]: what a back end computes, and by which routine.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use snack_burn::prelude::*;
//!
//! let device = Device::default();
//! let layer = SparseLinearConfig::new(512, 256).with_sparsity(0.95).init(&device);
//! let y = layer.forward(Tensor::<3>::ones([2, 7, 512], &device));
//! assert_eq!(y.dims(), [2, 7, 256]);
//! assert_eq!(layer.nnz(), 6554);
//! ```

mod backend;

pub mod capture;
pub mod checkpoint;
pub mod dist;
pub mod dst;
pub mod error;
pub mod nn;
pub mod ops;
pub mod pattern;
pub mod prelude;
pub mod report;
mod tap;
pub mod tensor;

pub use error::SparseError;
