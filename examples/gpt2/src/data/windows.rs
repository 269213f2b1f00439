use super::Permutation;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Most windows that one evaluation reads.
const MAX_HELD_OUT_WINDOWS: usize = 1024;

/// The training windows of a run, epoch after epoch without end.
///
/// An epoch cuts the text into windows that follow each other, beginning at a random place within
/// the first window's length, and gives each of them once, in random order. Place and order are a
/// function of `(seed, epoch)`, so that the windows of a step are one of `(seed, step)`: a run that
/// stops and resumes sees the same windows as one that does not, without storing where it was.
///
/// All epochs have the same number of windows; the tokens before the first and after the last, less
/// than two windows together, come in other epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainWindows {
    seed: u64,
    context: usize,
    /// Windows of an epoch.
    count: usize,
    /// Largest offset of the first window.
    max_shift: usize,
}

impl TrainWindows {
    /// The windows of `context` tokens of a text of `tokens` tokens.
    ///
    /// # Panics
    ///
    /// Panics if the text is shorter than one window and the token after it.
    pub fn new(seed: u64, tokens: usize, context: usize) -> Self {
        assert!(
            context > 0 && tokens > context,
            "TrainWindows: a text of {tokens} tokens has no window of {context} tokens and the \
             token after it"
        );
        // As many windows as fit behind the largest shift, `context - 1`.
        let count = (tokens / context - 1).max(1);
        Self {
            seed,
            context,
            count,
            max_shift: (tokens - 1 - count * context).min(context - 1),
        }
    }

    /// Number of windows in an epoch.
    pub fn per_epoch(&self) -> usize {
        self.count
    }

    /// Offsets of `count` windows after the first `done` of the run; where an epoch ends, the next
    /// one goes on.
    pub fn offsets(&self, done: u64, count: usize) -> Vec<usize> {
        let per_epoch = self.count as u64;
        let mut epoch = Epoch::new(self, done / per_epoch);
        (done..done + count as u64)
            .map(|window| {
                if window / per_epoch != epoch.number {
                    epoch = Epoch::new(self, window / per_epoch);
                }
                let index = epoch.order.at(window % per_epoch) as usize;
                epoch.shift + index * self.context
            })
            .collect()
    }
}

/// Place and order of the windows of one epoch.
struct Epoch {
    number: u64,
    shift: usize,
    order: Permutation,
}

impl Epoch {
    fn new(windows: &TrainWindows, number: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(windows.seed);
        // Stream 0 gives the initial values of the model.
        rng.set_stream(number + 1);
        Self {
            number,
            shift: rng.random_range(0..=windows.max_shift),
            order: Permutation::new(windows.count as u64, &mut rng),
        }
    }
}

/// Offsets of the windows that judge the model, always the same ones.
///
/// Windows follow each other, so that every token is predicted once. Of a long text, evenly spaced
/// ones are taken. At most an eighth is left out so that their number is a multiple of a power of two:
/// the usual batches then have one shape, which spares the tuning of another on a GPU.
pub fn held_out_offsets(tokens: usize, context: usize) -> Vec<usize> {
    let whole = tokens.saturating_sub(1) / context;
    let most = whole.min(MAX_HELD_OUT_WINDOWS);
    let multiple = (1_usize << most.checked_ilog2().unwrap_or(0)).div_ceil(8);
    let count = most - most % multiple;
    (0..count).map(|i| i * whole / count * context).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_has_every_window_once_inside_the_text() {
        for context in 1..=7 {
            for tokens in context + 1..=60 {
                let windows = TrainWindows::new(3, tokens, context);
                let per_epoch = windows.per_epoch();
                for epoch in 0..5 {
                    let mut offsets = windows.offsets((epoch * per_epoch) as u64, per_epoch);
                    offsets.sort_unstable();
                    let text = format!("{tokens} tokens, context {context}, epoch {epoch}");
                    assert!(offsets[0] < context, "{text}");
                    let last = offsets[per_epoch - 1] + context;
                    assert!(last < tokens, "{text}");
                    assert!(tokens - 1 - last + offsets[0] < 2 * context, "{text}");
                    assert!(
                        offsets.windows(2).all(|pair| pair[0] + context == pair[1]),
                        "{text}"
                    );
                }
            }
        }
    }

    #[test]
    fn windows_depend_on_the_seed_and_those_before_only() {
        let windows = TrainWindows::new(1, 1000, 16);
        let all = windows.offsets(0, 400);

        for (batch, done) in [(1, 399), (7, 60), (8, 8), (61, 122), (200, 200)] {
            assert_eq!(windows.offsets(done as u64, batch), all[done..done + batch]);
        }
        assert_ne!(TrainWindows::new(2, 1000, 16).offsets(0, 400), all);
    }

    #[test]
    fn batches_go_on_in_the_next_epoch() {
        let windows = TrainWindows::new(1, 100, 16);
        assert_eq!(windows.per_epoch(), 5);
        let epochs: Vec<_> = (0..4).map(|epoch| windows.offsets(5 * epoch, 5)).collect();

        assert_eq!(
            windows.offsets(3, 4),
            [&epochs[0][3..], &epochs[1][..2]].concat()
        );
        assert_eq!(windows.offsets(0, 20), epochs.concat());
    }

    #[test]
    fn epochs_differ_in_place_and_order() {
        let windows = TrainWindows::new(7, 10_000, 16);
        let per_epoch = windows.per_epoch();
        let mut shifts = std::collections::BTreeSet::new();
        let mut orders = std::collections::BTreeSet::new();
        for epoch in 0..200 {
            let offsets = windows.offsets((epoch * per_epoch) as u64, per_epoch);
            shifts.insert(offsets[0] % 16);
            orders.insert(offsets.iter().map(|o| o / 16).collect::<Vec<_>>());
        }
        assert_eq!(shifts.len(), 16);
        assert_eq!(orders.len(), 200);
    }

    #[test]
    fn the_smallest_text_has_one_training_window() {
        assert_eq!(TrainWindows::new(1, 17, 16).offsets(5, 3), [0, 0, 0]);
    }

    #[test]
    #[should_panic(expected = "a text of 16 tokens has no window of 16 tokens")]
    fn a_window_needs_the_token_after_it() {
        TrainWindows::new(1, 16, 16);
    }

    #[test]
    fn held_out_windows_tile_a_short_text() {
        assert_eq!(held_out_offsets(17, 4), [0, 4, 8, 12]);
        assert_eq!(held_out_offsets(16, 4), [0, 4, 8]);
        assert_eq!(held_out_offsets(5, 4), [0]);
        assert!(held_out_offsets(4, 4).is_empty());
        for (whole, count) in [(15, 15), (17, 16), (1000, 960), (1023, 960)] {
            assert_eq!(held_out_offsets(4 * whole + 1, 4).len(), count);
        }
    }

    #[test]
    fn held_out_windows_spread_over_a_long_text() {
        let offsets = held_out_offsets(10_000_001, 10);

        assert_eq!(offsets.len(), 1024);
        assert!(offsets.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(offsets[1023] > 9_980_000);
    }
}
