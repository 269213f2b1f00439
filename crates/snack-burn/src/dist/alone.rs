//! A group of one.

use burn::tensor::Tensor;
use burn::tensor::distributed::ReduceOperation;

use super::{Communicator, DistError, Traffic};

/// The only rank: whatever it sends comes back, and nothing travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Alone;

impl Communicator for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn all_gather(
        &self,
        _operation: &'static str,
        bytes: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>, DistError> {
        Ok(vec![bytes])
    }

    fn all_reduce(
        &self,
        tensors: Vec<Tensor<1>>,
        _operation: ReduceOperation,
    ) -> Result<Vec<Tensor<1>>, DistError> {
        Ok(tensors)
    }

    fn all_gather_rows(&self, tensors: Vec<Tensor<2>>) -> Result<Vec<Tensor<2>>, DistError> {
        Ok(tensors)
    }

    fn leave(&self, _reason: &str) {}

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}
