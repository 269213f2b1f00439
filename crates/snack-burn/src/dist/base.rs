//! One rank's end of a group, and who makes them.

use core::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use burn::tensor::distributed::ReduceOperation;
use burn::tensor::{Device, Tensor};

use super::{Alone, Collectives, DistError, Threads};

/// The connection of one rank to the others.
///
/// The operations are collective: every rank of the group calls the same ones in the same order, and
/// none returns before all have called it. A rank that is in another operation, has left, or does not
/// come is an error on all ranks, after which the group is of no use.
pub trait Communicator: Debug + Send + Sync {
    /// This rank, counted from 0.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn ranks(&self) -> usize;

    /// The bytes of every rank, in the order of ranks.
    ///
    /// `operation` names the purpose: ranks that meet with different ones are not at the same place.
    ///
    /// # Errors
    ///
    /// [`DistError`]: a rank is lost, late or elsewhere, as of all operations.
    fn all_gather(
        &self,
        operation: &'static str,
        bytes: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>, DistError>;

    /// Sums or means over ranks, element by element: every rank gets the same bits.
    ///
    /// The tensors are on this rank's device, without autodiff, and of the same lengths and data types
    /// on all ranks.
    ///
    /// # Errors
    ///
    /// As [`all_gather`](Self::all_gather), and [`DistError::TensorsDiffer`].
    fn all_reduce(
        &self,
        tensors: Vec<Tensor<1>>,
        operation: ReduceOperation,
    ) -> Result<Vec<Tensor<1>>, DistError>;

    /// The rows of every rank below each other, in the order of ranks: of `[rows of this rank, width]`
    /// comes `[rows of all ranks, width]`, exactly but for the sign of zeros.
    ///
    /// Ranks agree in the number of tensors, in widths and data types; rows may differ.
    ///
    /// # Errors
    ///
    /// As [`all_reduce`](Self::all_reduce).
    fn all_gather_rows(&self, tensors: Vec<Tensor<2>>) -> Result<Vec<Tensor<2>>, DistError>;

    /// Ends the membership of this rank: all others get [`DistError::RankLost`] with this reason.
    fn leave(&self, reason: &str);

    /// What this rank has sent so far.
    fn traffic(&self) -> Traffic;
}

/// What a rank has handed to the group, in bytes; copies that a collective makes on the way do not
/// count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Of tensors that were reduced.
    pub reduced: u64,
    /// Of rows and messages that were gathered.
    pub gathered: u64,
}

/// The communicators of ranks that train on the given devices, one each, in their order.
///
/// One device needs no communication. Several CUDA devices, each named once, reduce on the devices
/// through Burn's collectives; all other lists through the memory of the host.
pub fn communicators(devices: &[Device]) -> Vec<Arc<dyn Communicator>> {
    communicators_with_patience(devices, Threads::PATIENCE)
}

/// As [`communicators`]; ranks that wait for longer than `patience` give up with
/// [`DistError::TimedOut`].
pub fn communicators_with_patience(
    devices: &[Device],
    patience: Duration,
) -> Vec<Arc<dyn Communicator>> {
    if let [_] = devices {
        return vec![Arc::new(Alone)];
    }
    let group = Threads::group_with_patience(devices.len(), patience).into_iter();
    match Collectives::suit(devices) {
        true => group
            .map(|host| Arc::new(Collectives::new(host, devices)) as Arc<dyn Communicator>)
            .collect(),
        false => group
            .map(|host| Arc::new(host) as Arc<dyn Communicator>)
            .collect(),
    }
}
