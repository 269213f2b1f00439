use super::{Batch, Dataset, DropoutPlan, Images, epoch_order};
use crate::Options;
use burn::{
    data::{
        dataloader::{DataLoader, DataLoaderIterator, Progress},
        dataset::DatasetError,
    },
    tensor::Device,
};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The batches of training, the same for the plain loop and for Burn's `Learner`.
#[derive(Debug)]
pub struct TrainBatches {
    images: Arc<Images>,
    range: Range<usize>,
    size: usize,
    seed: u64,
    dropout: DropoutPlan,
    device: Device,
    epoch: AtomicU64,
}

impl TrainBatches {
    /// Batches of `size` images; what does not fill a batch is left out of the epoch.
    pub fn new(
        images: Arc<Images>,
        size: usize,
        seed: u64,
        dropout: DropoutPlan,
        device: &Device,
    ) -> Self {
        Self {
            range: 0..images.len(),
            images,
            size,
            seed,
            dropout,
            device: device.clone(),
            epoch: AtomicU64::new(0),
        }
    }

    /// The batches that a run with these options learns from.
    pub fn of(options: &Options, data: &Dataset, seed: u64, device: &Device) -> Self {
        let dropout = DropoutPlan {
            widths: options.hidden.clone(),
            probability: options.dropout,
        };
        let images = Arc::new(data.train().clone());
        Self::new(images, options.batch, seed, dropout, device)
    }

    /// Batches of an epoch.
    pub fn steps(&self) -> u64 {
        (self.range.len() / self.size) as u64
    }

    /// The batches of an epoch, counted from 0.
    pub fn epoch(&self, epoch: u64) -> impl Iterator<Item = Batch> + '_ {
        let order = epoch_order(self.range.len(), self.seed, epoch);
        (0..self.steps()).map(move |index| {
            let chosen = &order[index as usize * self.size..][..self.size];
            let indices = chosen.iter().map(|index| self.range.start + index);
            let step = epoch * self.steps() + index + 1;
            Batch::plain(&self.images, indices, &self.device).with_dropout(
                &self.dropout,
                self.seed,
                step,
                &self.device,
            )
        })
    }

    fn with(&self, range: Range<usize>, device: &Device) -> Self {
        Self {
            images: self.images.clone(),
            range,
            dropout: self.dropout.clone(),
            device: device.clone(),
            epoch: AtomicU64::new(self.epoch.load(Ordering::Relaxed)),
            ..*self
        }
    }
}

/// Every call of `iter` is the next epoch.
impl DataLoader<Batch> for TrainBatches {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Batch> + 'a> {
        let epoch = self.epoch.fetch_add(1, Ordering::Relaxed);
        Box::new(Counted {
            batches: self.epoch(epoch),
            size: self.size,
            done: 0,
            total: self.num_items(),
        })
    }

    fn num_items(&self) -> usize {
        self.steps() as usize * self.size
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<Batch>> {
        Arc::new(self.with(self.range.clone(), device))
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Batch>> {
        let start = self.range.start + start;
        let end = self.range.end.min(self.range.start + end);
        Arc::new(self.with(start..end.max(start), &self.device))
    }
}

/// The images of a test, in order.
#[derive(Debug)]
pub struct TestBatches {
    images: Arc<Images>,
    range: Range<usize>,
    size: usize,
    device: Device,
}

impl TestBatches {
    /// Batches of `size` images, the last one perhaps smaller.
    pub fn new(images: Arc<Images>, size: usize, device: &Device) -> Self {
        Self {
            range: 0..images.len(),
            images,
            size,
            device: device.clone(),
        }
    }

    /// All batches.
    pub fn batches(&self) -> impl Iterator<Item = Batch> + '_ {
        self.range.clone().step_by(self.size).map(|start| {
            let end = self.range.end.min(start + self.size);
            Batch::plain(&self.images, start..end, &self.device)
        })
    }
}

impl DataLoader<Batch> for TestBatches {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Batch> + 'a> {
        Box::new(Counted {
            batches: self.batches(),
            size: self.size,
            done: 0,
            total: self.num_items(),
        })
    }

    fn num_items(&self) -> usize {
        self.range.len()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<Batch>> {
        Arc::new(Self {
            images: self.images.clone(),
            range: self.range.clone(),
            size: self.size,
            device: device.clone(),
        })
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Batch>> {
        let start = self.range.start + start;
        let end = self.range.end.min(self.range.start + end);
        Arc::new(Self {
            images: self.images.clone(),
            range: start..end.max(start),
            size: self.size,
            device: self.device.clone(),
        })
    }
}

struct Counted<I> {
    batches: I,
    size: usize,
    done: usize,
    total: usize,
}

impl<I: Iterator<Item = Batch>> Iterator for Counted<I> {
    type Item = Result<Batch, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        self.done = self.total.min(self.done + self.size);
        Some(Ok(batch))
    }
}

impl<I: Iterator<Item = Batch>> DataLoaderIterator<Batch> for Counted<I> {
    fn progress(&self) -> Progress {
        Progress::new(self.done, self.total, Some("images".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataset, device::for_tests};

    fn labels(batches: impl Iterator<Item = Batch>) -> Vec<Vec<i64>> {
        batches
            .map(|batch| batch.labels.into_data().iter().collect())
            .collect()
    }

    fn loaded(loader: &dyn DataLoader<Batch>) -> Vec<Vec<i64>> {
        labels(loader.iter().map(Result::unwrap))
    }

    #[test]
    fn the_loader_gives_one_epoch_after_the_other() {
        let images = Arc::new(Dataset::subset().train().clone());
        let dropout = DropoutPlan {
            widths: vec![3],
            probability: 0.5,
        };
        let device = for_tests();
        let batches = TrainBatches::new(images, 900, 5, dropout, &device);
        assert_eq!((batches.steps(), batches.num_items()), (2, 1800));
        let epochs: Vec<_> = (0..2).map(|epoch| labels(batches.epoch(epoch))).collect();
        assert_eq!([loaded(&batches), loaded(&batches)], epochs[..]);
        assert_ne!(epochs[0], epochs[1]);

        let mut iterator = batches.iter();
        iterator.next();
        assert_eq!(iterator.progress().items_processed, 900);
    }

    #[test]
    fn tests_take_every_image_in_order_and_slices_their_part() {
        let images = Arc::new(Dataset::subset().test().clone());
        let all: Vec<i64> = (0..1000).map(|i| images.label(i).into()).collect();
        let batches = TestBatches::new(images, 300, &for_tests());
        assert_eq!(loaded(&batches).concat(), all);
        assert_eq!(loaded(&*batches.slice(990, 2000)).concat(), all[990..]);
        assert_eq!(batches.slice(10, 30).num_items(), 20);
    }
}
