//! Ranks that are threads of one process and meet in its memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use burn::tensor::distributed::ReduceOperation;
use burn::tensor::{DType, Device, Tensor, TensorData};

use super::meeting::{Meeting, Message};
use super::{Communicator, DistError, Traffic};

/// A rank whose tensors travel through the memory of the host: for any devices, and for tests.
///
/// Reductions add up in the order of ranks, each rank for itself.
#[derive(Debug)]
pub struct Threads {
    rank: usize,
    meeting: Arc<Meeting>,
    reduced: AtomicU64,
    gathered: AtomicU64,
}

impl Threads {
    /// How long a rank waits for the others, if nothing else is said: long enough for the tuning of
    /// kernels and for an evaluation that one rank does alone.
    pub const PATIENCE: Duration = Duration::from_secs(1800);

    /// The ranks of a new group.
    ///
    /// # Panics
    ///
    /// Panics if there are none.
    pub fn group(ranks: usize) -> Vec<Self> {
        Self::group_with_patience(ranks, Self::PATIENCE)
    }

    /// As [`group`](Self::group); ranks that wait for longer than `patience` give up.
    ///
    /// # Panics
    ///
    /// As [`group`](Self::group).
    pub fn group_with_patience(ranks: usize, patience: Duration) -> Vec<Self> {
        assert!(ranks > 0, "Threads::group: a group has at least one rank");
        let meeting = Arc::new(Meeting::new(ranks, patience));
        let rank = |rank| Self {
            rank,
            meeting: meeting.clone(),
            reduced: AtomicU64::new(0),
            gathered: AtomicU64::new(0),
        };
        (0..ranks).map(rank).collect()
    }

    /// The tensors of every rank, whose properties that must agree are named by `signature`.
    fn tensors(
        &self,
        operation: &'static str,
        tensors: Vec<TensorData>,
        signature: impl Fn(&[TensorData]) -> String,
    ) -> Result<Arc<Vec<Message>>, DistError> {
        let messages = self
            .meeting
            .exchange(self.rank, operation, Message::Tensors(tensors))?;
        let signatures = lists(&messages).map(signature);
        check_equal(operation, signatures)?;
        Ok(messages)
    }

    /// Counts what the rank sends for reductions.
    pub(super) fn count_reduced(&self, bytes: usize) {
        self.reduced.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts what the rank sends to be gathered.
    pub(super) fn count_gathered(&self, bytes: usize) {
        self.gathered.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Communicator for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.meeting.ranks()
    }

    fn all_gather(
        &self,
        operation: &'static str,
        bytes: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>, DistError> {
        self.count_gathered(bytes.len());
        let messages = self
            .meeting
            .exchange(self.rank, operation, Message::Bytes(bytes))?;
        let bytes = messages.iter().map(|message| match message {
            Message::Bytes(bytes) => bytes.clone(),
            Message::Tensors(_) => Vec::new(),
        });
        Ok(bytes.collect())
    }

    fn all_reduce(
        &self,
        tensors: Vec<Tensor<1>>,
        operation: ReduceOperation,
    ) -> Result<Vec<Tensor<1>>, DistError> {
        let Some(device) = tensors.first().map(Tensor::device) else {
            self.tensors(name_of(operation), Vec::new(), shapes)?;
            return Ok(Vec::new());
        };
        let data: Vec<_> = tensors.into_iter().map(Tensor::into_data).collect();
        self.count_reduced(bytes(&data));
        let messages = self.tensors(name_of(operation), data, shapes)?;
        let ranks: Vec<_> = lists(&messages).collect();
        let reduced = (0..ranks[0].len()).map(|index| {
            let parts: Vec<_> = ranks.iter().map(|list| &list[index]).collect();
            on_device(reduced(&parts, operation), &device)
        });
        Ok(reduced.collect())
    }

    fn all_gather_rows(&self, tensors: Vec<Tensor<2>>) -> Result<Vec<Tensor<2>>, DistError> {
        let device = tensors.first().map(Tensor::device);
        let data: Vec<_> = tensors.into_iter().map(Tensor::into_data).collect();
        self.count_gathered(bytes(&data));
        let messages = self.tensors("gather rows", data, widths)?;
        let Some(device) = device else {
            return Ok(Vec::new());
        };
        let ranks: Vec<_> = lists(&messages).collect();
        let gathered = (0..ranks[0].len()).map(|index| {
            let parts = ranks
                .iter()
                .map(|list| on_device(list[index].clone(), &device));
            Tensor::cat(parts.collect(), 0)
        });
        Ok(gathered.collect())
    }

    fn leave(&self, reason: &str) {
        self.meeting.leave(self.rank, reason);
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            reduced: self.reduced.load(Ordering::Relaxed),
            gathered: self.gathered.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let reason = match thread::panicking() {
            true => "its thread panicked",
            false => "it has ended",
        };
        self.leave(reason);
    }
}

/// What a reduction is called, so that a sum does not meet a mean.
pub(super) fn name_of(operation: ReduceOperation) -> &'static str {
    match operation {
        ReduceOperation::Sum => "sum tensors",
        ReduceOperation::Mean => "average tensors",
    }
}

/// The first rank whose words differ from those of rank 0 is an error.
pub(super) fn check_equal(
    operation: &'static str,
    signatures: impl IntoIterator<Item = String>,
) -> Result<(), DistError> {
    let mut signatures = signatures.into_iter();
    let expected = signatures.next().unwrap_or_default();
    match (1..).zip(signatures).find(|(_, found)| *found != expected) {
        None => Ok(()),
        Some((rank, found)) => Err(DistError::TensorsDiffer {
            rank,
            operation,
            expected,
            found,
        }),
    }
}

fn lists(messages: &[Message]) -> impl Iterator<Item = &[TensorData]> {
    messages.iter().map(|message| match message {
        Message::Tensors(tensors) => &tensors[..],
        Message::Bytes(_) => &[],
    })
}

fn bytes(tensors: &[TensorData]) -> usize {
    tensors.iter().map(|data| data.as_bytes().len()).sum()
}

fn shapes(tensors: &[TensorData]) -> String {
    let words = tensors.iter().map(|data| {
        let shape = data.shape();
        format!("{:?} {:?}", shape.as_slice(), data.dtype())
    });
    words.collect::<Vec<_>>().join(", ")
}

fn widths(tensors: &[TensorData]) -> String {
    let words = tensors.iter().map(|data| {
        let shape = data.shape();
        format!("rows of {} {:?}", shape.as_slice()[1], data.dtype())
    });
    words.collect::<Vec<_>>().join(", ")
}

fn on_device<const D: usize>(data: TensorData, device: &Device) -> Tensor<D> {
    let dtype: DType = data.dtype();
    Tensor::from_data(data, (device, dtype))
}

/// Sum or mean of one tensor over ranks; half precision is added up in `f32`.
fn reduced(parts: &[&TensorData], operation: ReduceOperation) -> TensorData {
    let (dtype, shape) = (parts[0].dtype(), parts[0].shape().clone());
    let share = match operation {
        ReduceOperation::Sum => 1.0,
        ReduceOperation::Mean => 1.0 / parts.len() as f64,
    };
    if dtype == DType::F64 {
        let mut sum: Vec<f64> = parts[0].iter::<f64>().collect();
        for part in &parts[1..] {
            let part = part.iter::<f64>();
            sum.iter_mut()
                .zip(part)
                .for_each(|(sum, more)| *sum += more);
        }
        sum.iter_mut().for_each(|sum| *sum *= share);
        return TensorData::new(sum, shape);
    }
    let mut sum: Vec<f32> = parts[0].iter::<f32>().collect();
    for part in &parts[1..] {
        match part.as_slice::<f32>() {
            Ok(part) => sum
                .iter_mut()
                .zip(part)
                .for_each(|(sum, more)| *sum += more),
            Err(_) => {
                let part = part.iter::<f32>();
                sum.iter_mut()
                    .zip(part)
                    .for_each(|(sum, more)| *sum += more);
            }
        }
    }
    sum.iter_mut().for_each(|sum| *sum *= share as f32);
    TensorData::new(sum, shape).convert_dtype(dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every rank gets.
    fn on_ranks<T: Send>(ranks: usize, act: impl Fn(&Threads) -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let threads: Vec<_> = Threads::group(ranks)
                .into_iter()
                .map(|rank| scope.spawn(|| act(&{ rank })))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        })
    }

    fn numbers<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
        tensor.to_data().iter::<f32>().collect()
    }

    #[test]
    fn every_rank_gets_sum_mean_and_rows_of_all() {
        let device = Device::default();
        let found = on_ranks(3, |rank| {
            let number = rank.rank() as f32;
            let list = Tensor::<1>::from_data([number, 10.0 * number], &device);
            let sum = rank.all_reduce(vec![list.clone()], ReduceOperation::Sum);
            let mean = rank.all_reduce(vec![list], ReduceOperation::Mean);
            let rows = Tensor::<2>::full([rank.rank(), 2], number, &device);
            let rows = rank.all_gather_rows(vec![rows]).unwrap();
            let bytes = rank.all_gather("test", vec![rank.rank() as u8]).unwrap();
            let [sum, mean] = [sum, mean].map(|list| numbers(&list.unwrap()[0]));
            (
                sum,
                mean,
                rows[0].dims(),
                numbers(&rows[0]),
                bytes,
                rank.traffic(),
            )
        });
        for (rank, (sum, mean, dims, rows, bytes, traffic)) in found.into_iter().enumerate() {
            assert_eq!(sum, [3.0, 30.0]);
            assert_eq!(mean, [1.0, 10.0]);
            assert_eq!(dims, [3, 2]);
            assert_eq!(rows, [1.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
            assert_eq!(bytes, [[0], [1], [2]]);
            assert_eq!(
                (traffic.reduced, traffic.gathered),
                (16, 8 * rank as u64 + 1)
            );
        }
    }

    #[test]
    fn tensors_of_other_lengths_are_refused_by_all() {
        let device = Device::default();
        let errors = on_ranks(2, |rank| {
            let list = Tensor::<1>::ones([rank.rank() + 3], &device);
            let error = rank.all_reduce(vec![list], ReduceOperation::Sum);
            error.unwrap_err().to_string()
        });
        let expected = "rank 1 brings [4] F32 to `sum tensors`, expected [3] F32 as on rank 0";
        assert_eq!(errors, [expected, expected]);
    }

    #[test]
    fn a_sum_does_not_meet_a_mean() {
        let device = Device::default();
        let errors = on_ranks(2, |rank| {
            let operations = [ReduceOperation::Sum, ReduceOperation::Mean];
            let list = Tensor::<1>::ones([3], &device);
            let error = rank.all_reduce(vec![list], operations[rank.rank()]);
            error.unwrap_err().to_string()
        });
        let expected = "rank 1 is in `average tensors` while rank 0 is in `sum tensors`; all ranks must do \
                        the same steps, by the same rule, with `set_ranks` on each";
        assert_eq!(errors, [expected, expected]);
    }

    #[test]
    fn a_panic_reaches_those_who_wait() {
        let mut ranks = Threads::group(2);
        let (second, first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
        let died = thread::spawn(move || {
            let _second = second;
            panic!("the second rank dies in a test");
        });
        let error = first.all_gather("test", Vec::new()).unwrap_err();
        assert!(died.join().is_err());
        assert_eq!(
            error,
            DistError::RankLost {
                rank: 1,
                ranks: 2,
                reason: "its thread panicked".into()
            }
        );
    }
}
