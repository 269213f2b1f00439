//! Ranks whose devices reduce among themselves.

use burn::tensor::distributed::{CollectiveTensor, ReduceOperation, all_reduce};
use burn::tensor::{Device, Tensor};

use super::threads::{check_equal, name_of};
use super::{Communicator, DistError, Threads, Traffic};

/// A rank that reduces tensors by Burn's collectives (NCCL on CUDA), and meets the other threads of
/// the process before each of them.
///
/// The meeting makes sure that all ranks are there and bring the same shapes: a collective that only
/// some ranks enter would never end.
///
/// CubeCL connects a list of devices once in a process: two groups on the same devices at the same time
/// would meet in each other's reductions.
#[derive(Debug)]
pub struct Collectives {
    host: Threads,
    devices: Vec<Device>,
}

impl Collectives {
    /// The rank of `host`, which trains on the device of that number.
    ///
    /// # Panics
    ///
    /// Panics if there is not one device for each rank.
    pub fn new(host: Threads, devices: &[Device]) -> Self {
        assert_eq!(
            devices.len(),
            host.ranks(),
            "Collectives::new: there must be one device for each rank"
        );
        let devices = devices.iter().cloned().map(Device::inner).collect();
        Self { host, devices }
    }

    /// Whether the devices can reduce among themselves: several ones, all different, of a back end
    /// that moves data between its devices, which only CUDA does in Burn 0.22.
    pub fn suit(devices: &[Device]) -> bool {
        let different = |(index, device)| !devices[..index].contains(device);
        devices.len() > 1
            && devices.iter().all(has_transport)
            && devices.iter().enumerate().all(different)
    }

    /// Meets the others, then reduces.
    fn reduce(
        &self,
        name: &'static str,
        tensors: Vec<Tensor<1>>,
        operation: ReduceOperation,
    ) -> Result<Vec<Tensor<1>>, DistError> {
        let words = tensors
            .iter()
            .map(|tensor| format!("{:?} {:?}", tensor.dims(), tensor.dtype()));
        let words = words.collect::<Vec<_>>().join(", ");
        let met = self.host.all_gather(name, words.into_bytes())?;
        let words = met
            .iter()
            .map(|words| String::from_utf8_lossy(words).into());
        check_equal(name, words)?;
        // All are submitted before the first is waited for.
        let submitted: Vec<_> = tensors
            .into_iter()
            .map(|tensor| self.submit(tensor, operation))
            .collect();
        let resolved = submitted.into_iter().map(|submitted| match submitted {
            Submitted::Collective(tensor) => tensor.resolve(),
            Submitted::Empty(tensor) => tensor,
        });
        Ok(resolved.collect())
    }

    fn submit(&self, tensor: Tensor<1>, operation: ReduceOperation) -> Submitted {
        let [length] = tensor.dims();
        if length == 0 {
            return Submitted::Empty(tensor);
        }
        Submitted::Collective(all_reduce(tensor, operation, self.devices.clone()))
    }
}

/// A tensor on its way through a reduction.
enum Submitted {
    Collective(CollectiveTensor<1>),
    /// Of no elements, so that there is nothing to reduce.
    Empty(Tensor<1>),
}

/// Whether a device exchanges data with others of its kind.
fn has_transport(device: &Device) -> bool {
    #[cfg(feature = "__cube")]
    if let burn::backend::DispatchDevice::Cube(device) = device.clone().inner().as_dispatch() {
        return device.client().has_device_transport();
    }
    let _ = device;
    false
}

impl Communicator for Collectives {
    fn rank(&self) -> usize {
        self.host.rank()
    }

    fn ranks(&self) -> usize {
        self.host.ranks()
    }

    fn all_gather(
        &self,
        operation: &'static str,
        bytes: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>, DistError> {
        self.host.all_gather(operation, bytes)
    }

    fn all_reduce(
        &self,
        tensors: Vec<Tensor<1>>,
        operation: ReduceOperation,
    ) -> Result<Vec<Tensor<1>>, DistError> {
        self.host.count_reduced(bytes(&tensors));
        self.reduce(name_of(operation), tensors, operation)
    }

    /// By a reduction of rows that are zero where another rank has its own.
    fn all_gather_rows(&self, tensors: Vec<Tensor<2>>) -> Result<Vec<Tensor<2>>, DistError> {
        self.host.count_gathered(bytes(&tensors));
        let rows = tensors
            .iter()
            .flat_map(|t| (t.dims()[0] as u64).to_le_bytes());
        let rows = self.host.all_gather("gather rows", rows.collect())?;
        let rows: Vec<Vec<usize>> = rows.iter().map(|bytes| numbers(bytes)).collect();
        let counts = rows.iter().map(|rows| format!("{} tensors", rows.len()));
        check_equal("gather rows", counts)?;
        let mut shapes = Vec::with_capacity(tensors.len());
        let mut padded = Vec::with_capacity(tensors.len());
        for (index, tensor) in tensors.into_iter().enumerate() {
            let [own, width] = tensor.dims();
            let before: usize = rows[..self.rank()].iter().map(|rows| rows[index]).sum();
            let all: usize = rows.iter().map(|rows| rows[index]).sum();
            let options = (&tensor.device(), tensor.dtype());
            let zeros = |rows| Tensor::<2>::zeros([rows, width], options);
            let parts = [zeros(before), tensor, zeros(all - before - own)];
            // Parts without rows are left out, unless there are no others.
            let filled = parts.iter().filter(|part| part.dims()[0] > 0);
            let filled: Vec<_> = filled.cloned().collect();
            let rows = match filled.is_empty() {
                true => zeros(0),
                false => Tensor::cat(filled, 0),
            };
            padded.push(rows.reshape([all * width]));
            shapes.push([all, width]);
        }
        let summed = self.reduce("gather rows", padded, ReduceOperation::Sum)?;
        let summed = summed.into_iter().zip(shapes);
        Ok(summed.map(|(list, shape)| list.reshape(shape)).collect())
    }

    fn leave(&self, reason: &str) {
        self.host.leave(reason);
    }

    fn traffic(&self) -> Traffic {
        self.host.traffic()
    }
}

fn bytes<const D: usize>(tensors: &[Tensor<D>]) -> usize {
    let bytes = tensors.iter().map(|tensor| {
        let elements = tensor.shape().num_elements();
        elements * tensor.dtype().size()
    });
    bytes.sum()
}

/// The row counts of a message.
fn numbers(bytes: &[u8]) -> Vec<usize> {
    let (words, _) = bytes.as_chunks::<8>();
    words
        .iter()
        .map(|word| u64::from_le_bytes(*word) as usize)
        .collect()
}
