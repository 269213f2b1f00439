//! Data-parallel training of sparse models: several ranks, one model.
//!
//! A *rank* trains a replica of the model on its own device with its own part of every batch. Ranks
//! stay equal because they do equal things: the gradients that the optimizer sees are means over all
//! ranks ([`reduce_gradients`]), and topology updates are planned from what all ranks saw. A sparse
//! layer has one gradient per non-zero, so that the mean of a layer costs `nnz` numbers of traffic
//! instead of `m k`; slots mean the same connection on every rank because the patterns are the same,
//! which is checked at every step ([`Fingerprint`]).
//!
//! A [`Communicator`] is one rank's end of the connection to the others. [`communicators`] makes those
//! of a list of devices; each goes to the thread that drives its device:
//!
//! ```
//! use burn::module::Module;
//! use burn::optim::{GradientsParams, SgdConfig};
//! use burn::tensor::{Device, Tensor};
//! use snack_burn::dist::{communicators, reduce_gradients};
//! use snack_burn::nn::sparse_layers;
//! use snack_burn::prelude::*;
//!
//! let devices = [Device::default().autodiff(), Device::default().autodiff()];
//! let model = SparseLinearConfig::new(20, 10).with_sparsity(0.8).init(&devices[0]);
//! let ranks = communicators(&devices);
//! let patterns = std::thread::scope(|scope| {
//!     let threads = ranks.into_iter().zip(devices).map(|(ranks, device)| {
//!         let mut model = model.clone().fork(&device);
//!         scope.spawn(move || -> Result<Pattern, DstError> {
//!             let mut optim = SgdConfig::new().init();
//!             let mut dst = DstConfig::rigl(4).with_every(2).init(&model)?;
//!             dst.set_ranks(ranks.clone());
//!             for step in 0..4 {
//!                 let number = (2 * step + ranks.rank()) as f32;
//!                 let x = Tensor::<2>::full([8, 20], number, &device);
//!                 let loss = model.forward(x).powi_scalar(2).mean();
//!                 let grads = GradientsParams::from_grads(loss.backward(), &model);
//!                 let grads = reduce_gradients(&*ranks, &model, grads)?;
//!                 let trained = optim.step(0.01, model, grads);
//!                 let (updated, result) = dst.try_step(trained, &mut optim);
//!                 result?;
//!                 model = updated;
//!             }
//!             Ok(sparse_layers(&model)[0].pattern.clone())
//!         })
//!     });
//!     let threads: Vec<_> = threads.collect();
//!     let joined = threads.into_iter().map(|thread| thread.join().expect("no rank panics"));
//!     joined.collect::<Result<Vec<_>, _>>()
//! })?;
//! assert_eq!(patterns[0], patterns[1]);
//! # Ok::<(), DstError>(())
//! ```
//!
//! Burn's own `ExecutionStrategy::ddp` reduces the gradients of sparse layers as they are;
//! [`RankedDst`](crate::dst::RankedDst) brings topology updates into it.
//!
//! # What must be equal on every rank
//!
//! The model before the first step ([`check_values`] compares it), the optimizer, the rule and its seed, and the number of steps and
//! of backward passes. Batches may differ in content and size; every rank weighs the same in a mean.
//!
//! # When a rank dies
//!
//! The communicator of a rank leaves the group when its last handle is dropped, a panic included: give
//! the thread of a rank all handles of it, or a dead rank stays in the group. Whoever waits for
//! it, or comes to wait for it, gets [`DistError::RankLost`] at once, and [`DistError::TimedOut`] where
//! a rank neither comes nor leaves. No rank goes on alone: what is left is the last checkpoint.

mod alone;
mod base;
mod collectives;
mod error;
mod factors;
mod fingerprint;
mod gradients;
mod meeting;
mod threads;
mod values;
mod wire;

pub use alone::*;
pub use base::*;
pub use collectives::*;
pub use error::*;
pub use fingerprint::*;
pub use gradients::*;
pub use threads::*;
pub use values::*;

pub(crate) use factors::gather_parts;
pub(crate) use fingerprint::check_same;
pub(crate) use wire::{Reader, Writer};
