use super::EvalWindow;
use crate::{Gpt2, Tokens};
use burn::tensor::{Int, Tensor, TensorData};

/// Most logits at a time: 512 MiB of them.
const MOST_LOGITS: usize = 1 << 27;

impl Gpt2 {
    /// The negative log likelihood of the scored tokens of every window, summed, in nats: what
    /// [`EvalPlan::score`](super::EvalPlan::score) asks for.
    ///
    /// # Panics
    ///
    /// Panics if the windows differ in length, are longer than the context by more than the token that is
    /// only predicted, or leave the text.
    pub fn window_nll(&self, text: &Tokens, windows: &[EvalWindow]) -> Vec<f64> {
        let Some(first) = windows.first() else {
            return Vec::new();
        };
        let length = first.tokens.len() - 1;
        let device = self.wte.weight.val().device();
        let part = |shift: usize| {
            let tokens = windows.iter().flat_map(|window| {
                let start = window.tokens.start + shift;
                text.iter(start..start + length).map(i32::from)
            });
            let data = TensorData::new(tokens.collect(), [windows.len(), length]);
            Tensor::<2, Int>::from_data(data, &device)
        };
        let hidden = self.hidden_states(part(0)).pop();
        let hidden = hidden.expect("there is always the state after the embeddings");
        let targets = part(1);

        // Only places that some window scores need logits.
        let ranges = windows.iter().map(EvalWindow::predictions);
        let start = ranges.clone().map(|range| range.start).min().unwrap_or(0);
        let end = ranges.clone().map(|range| range.end).max().unwrap_or(0);
        let [vocabulary, _] = self.wte.weight.dims();
        let step = (MOST_LOGITS / (vocabulary * windows.len())).max(1);
        let mut sums = vec![0.0; windows.len()];
        for begin in (start..end).step_by(step) {
            let places = step.min(end - begin);
            let hidden = hidden.clone().narrow(1, begin, places);
            let targets = targets.clone().narrow(1, begin, places);
            let found = self.position_losses(hidden, targets);
            let found: Vec<f32> = found.into_data().iter().collect();
            for ((sum, range), row) in sums
                .iter_mut()
                .zip(ranges.clone())
                .zip(found.chunks(places))
            {
                let scored = row
                    .iter()
                    .zip(begin..)
                    .filter(|(_, place)| range.contains(place));
                *sum += scored.map(|(loss, _)| f64::from(*loss)).sum::<f64>();
            }
        }
        sums
    }
}
