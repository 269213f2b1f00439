use super::{CLASSES, Images};
use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

/// What one step learns from.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Pixels in `[0, 1]`, `[batch, features]`.
    pub images: Tensor<2>,
    /// Classes, `[batch]`.
    pub labels: Tensor<1, Int>,
    /// Classes as ones among zeros, `[batch, 10]`.
    pub targets: Tensor<2>,
    /// Which units of each hidden layer take part, ones and zeros `[batch, width]`; none without
    /// dropout and in tests.
    pub masks: Vec<Tensor<2>>,
}

/// Width of the hidden layers and the share of their units that a step leaves out.
#[derive(Debug, Clone, PartialEq)]
pub struct DropoutPlan {
    /// Units of every hidden layer.
    pub widths: Vec<usize>,
    /// Probability of leaving a unit out, in `[0, 1)`.
    pub probability: f64,
}

/// Streams of random numbers, all of one seed. The order of the images and the units that take
/// part are functions of seed and step, whatever ran before and on whichever device.
const ORDER: u64 = 1 << 62;
const MASKS: u64 = 2 << 62;

impl Batch {
    /// The images at `indices`, for tests.
    pub fn plain(
        images: &Images,
        indices: impl IntoIterator<Item = usize>,
        device: &Device,
    ) -> Self {
        let features = images.features();
        let (mut pixels, mut labels, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        for index in indices {
            pixels.extend(images.pixels(index).iter().map(|&p| f32::from(p) / 255.0));
            let label = images.label(index);
            labels.push(i32::from(label));
            targets
                .extend((0..CLASSES).map(|class| f32::from(u8::from(class == usize::from(label)))));
        }
        let count = labels.len();
        Self {
            images: Tensor::from_data(TensorData::new(pixels, [count, features]), device),
            labels: Tensor::from_data(TensorData::new(labels, [count]), device),
            targets: Tensor::from_data(TensorData::new(targets, [count, CLASSES]), device),
            masks: Vec::new(),
        }
    }

    /// The same batch with the masks of a training step, counted from 1.
    pub fn with_dropout(self, plan: &DropoutPlan, seed: u64, step: u64, device: &Device) -> Self {
        if plan.probability == 0.0 {
            return self;
        }
        let [count, _] = self.images.dims();
        let mut rng = stream(seed, MASKS | step);
        // 16 bits a unit: the probability is exact to 1 / 65536.
        let threshold = (plan.probability * 65_536.0).round() as u32;
        let mut bytes = Vec::new();
        let masks = plan.widths.iter().map(|&width| {
            bytes.resize(2 * count * width, 0);
            rng.fill_bytes(&mut bytes);
            let mask: Vec<f32> = bytes
                .chunks_exact(2)
                .map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]])))
                .map(|drawn| f32::from(u8::from(drawn >= threshold)))
                .collect();
            Tensor::from_data(TensorData::new(mask, [count, width]), device)
        });
        Self {
            masks: masks.collect(),
            ..self
        }
    }
}

/// The order of the images in an epoch, counted from 0.
pub fn epoch_order(count: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(&mut stream(seed, ORDER | epoch));
    order
}

fn stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataset, device::for_tests};

    #[test]
    fn every_epoch_has_every_image_once_in_an_order_of_its_own() {
        let first = epoch_order(50, 7, 0);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
        assert_eq!(epoch_order(50, 7, 0), first);
        assert_ne!(epoch_order(50, 7, 1), first);
        assert_ne!(epoch_order(50, 8, 0), first);
    }

    #[test]
    fn pixels_are_scaled_and_labels_marked() {
        let data = Dataset::subset();
        let batch = Batch::plain(data.train(), [3, 5], &for_tests());
        assert_eq!(batch.images.dims(), [2, 784]);
        let pixels: Vec<f32> = batch.images.into_data().iter().collect();
        let expected = |index| {
            data.train()
                .pixels(index)
                .iter()
                .map(|&p| f32::from(p) / 255.0)
        };
        assert!(pixels.into_iter().eq(expected(3).chain(expected(5))));
        let targets: Vec<f32> = batch.targets.into_data().iter().collect();
        let ones: Vec<usize> = (0..20).filter(|&i| targets[i] == 1.0).collect();
        let labels = [3, 5].map(|index| usize::from(data.train().label(index)));
        assert_eq!(ones, [labels[0], 10 + labels[1]]);
        assert_eq!(targets.iter().sum::<f32>(), 2.0);
    }

    #[test]
    fn masks_are_functions_of_seed_and_step_and_keep_their_share() {
        let data = Dataset::subset();
        let device = for_tests();
        let plan = DropoutPlan {
            widths: vec![100, 30],
            probability: 0.2,
        };
        let masks = |seed, step| -> Vec<Vec<f32>> {
            let batch = Batch::plain(data.train(), 0..40, &device);
            let masks = batch.with_dropout(&plan, seed, step, &device).masks;
            masks
                .into_iter()
                .map(|mask| mask.into_data().iter().collect())
                .collect()
        };
        let drawn = masks(1, 1);
        assert_eq!((drawn[0].len(), drawn[1].len()), (4000, 1200));
        assert!(
            drawn
                .iter()
                .flatten()
                .all(|&value| value == 0.0 || value == 1.0)
        );
        // 5200 draws: five standard deviations are 0.028.
        let kept = drawn.iter().flatten().sum::<f32>() / 5200.0;
        assert!((kept - 0.8).abs() < 0.028, "{kept}");
        assert_eq!(masks(1, 1), drawn);
        assert_ne!(masks(1, 2), drawn);
        assert_ne!(masks(2, 1), drawn);
    }
}
