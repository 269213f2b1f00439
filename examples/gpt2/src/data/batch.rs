use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Most windows that one evaluation reads.
const MAX_HELD_OUT_WINDOWS: usize = 1024;

/// Token windows and, for every token, the one that follows.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The tokens, `[batch, context]`.
    pub tokens: Tensor<2, Int>,
    /// Their successors, `[batch, context]`.
    pub targets: Tensor<2, Int>,
}

impl Batch {
    /// Cuts windows of `context` bytes at `offsets` out of `text`.
    ///
    /// # Panics
    ///
    /// Panics if a window and the byte after it do not lie inside the text.
    pub fn new(text: &[u8], offsets: &[usize], context: usize, device: &Device) -> Self {
        let gather = |shift: usize| {
            let bytes: Vec<i32> = offsets
                .iter()
                .flat_map(|&offset| &text[offset + shift..offset + shift + context])
                .map(|&byte| i32::from(byte))
                .collect();
            Tensor::from_data(TensorData::new(bytes, [offsets.len(), context]), device)
        };
        Self {
            tokens: gather(0),
            targets: gather(1),
        }
    }
}

/// Offsets of the training windows of one step.
///
/// A function of `(seed, step)` alone: a run that stops and resumes sees the same windows as one
/// that does not, without storing where it was.
///
/// # Panics
///
/// Panics if the text is shorter than one window and the byte after it.
pub fn train_offsets(
    seed: u64,
    step: usize,
    batch: usize,
    text_len: usize,
    context: usize,
) -> Vec<usize> {
    assert!(
        text_len > context,
        "train_offsets: a text of {text_len} bytes has no window of {context} bytes and the byte \
         after it"
    );
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(step as u64);
    (0..batch)
        .map(|_| rng.random_range(0..text_len - context))
        .collect()
}

/// Offsets of the windows that judge the model, always the same ones.
///
/// Windows follow each other, so that every byte is predicted once. Of a long text, evenly spaced
/// ones are taken. If there are at least `batch` of them, their number is a multiple of `batch`: all
/// batches then have one shape, which spares the tuning of another on a GPU.
pub fn held_out_offsets(text_len: usize, context: usize, batch: usize) -> Vec<usize> {
    let whole = text_len.saturating_sub(1) / context;
    let mut count = whole.min(MAX_HELD_OUT_WINDOWS.max(batch));
    if count > batch {
        count -= count % batch;
    }
    (0..count).map(|i| i * whole / count * context).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_follow_tokens() {
        let device = Device::default();
        let batch = Batch::new(b"abcdefgh", &[0, 4], 3, &device);

        batch
            .tokens
            .into_data()
            .assert_eq(&TensorData::from([[97, 98, 99], [101, 102, 103]]), false);
        batch
            .targets
            .into_data()
            .assert_eq(&TensorData::from([[98, 99, 100], [102, 103, 104]]), false);
    }

    #[test]
    fn training_windows_depend_on_seed_and_step_only() {
        let offsets = |seed, step| train_offsets(seed, step, 64, 1000, 16);

        assert_eq!(offsets(1, 5), offsets(1, 5));
        assert_ne!(offsets(1, 5), offsets(1, 6));
        assert_ne!(offsets(1, 5), offsets(2, 5));
        assert!(offsets(1, 5).iter().all(|&offset| offset + 16 < 1000));
    }

    #[test]
    fn the_smallest_text_has_one_training_window() {
        assert_eq!(train_offsets(1, 1, 3, 17, 16), [0, 0, 0]);
    }

    #[test]
    fn held_out_windows_tile_a_short_text() {
        assert_eq!(held_out_offsets(17, 4, 2), [0, 4, 8, 12]);
        assert_eq!(held_out_offsets(16, 4, 2), [0, 4]);
        assert_eq!(held_out_offsets(5, 4, 2), [0]);
        assert!(held_out_offsets(4, 4, 2).is_empty());
    }

    #[test]
    fn held_out_windows_spread_over_a_long_text() {
        let offsets = held_out_offsets(10_000_001, 10, 12);

        assert_eq!(offsets.len(), 1020);
        assert!(offsets.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(offsets[1019] > 9_980_000);
    }
}
