use crate::Tokens;
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Token windows and, for every token, the one that follows.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The tokens, `[batch, context]`.
    pub tokens: Tensor<2, Int>,
    /// Their successors, `[batch, context]`.
    pub targets: Tensor<2, Int>,
}

impl Batch {
    /// Cuts windows of `context` tokens at `offsets` out of `text`.
    ///
    /// # Panics
    ///
    /// Panics if a window and the token after it do not lie inside the text.
    pub fn new(text: &Tokens, offsets: &[usize], context: usize, device: &Device) -> Self {
        let gather = |shift: usize| {
            let tokens: Vec<i32> = offsets
                .iter()
                .flat_map(|&offset| text.iter(offset + shift..offset + shift + context))
                .map(i32::from)
                .collect();
            Tensor::from_data(TensorData::new(tokens, [offsets.len(), context]), device)
        };
        Self {
            tokens: gather(0),
            targets: gather(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_follow_tokens() {
        let device = Device::default();
        let text = Tokens::from_slice(&[97, 98, 99, 100, 101, 102, 103, 50256]);
        let batch = Batch::new(&text, &[0, 4], 3, &device);

        batch
            .tokens
            .into_data()
            .assert_eq(&TensorData::from([[97, 98, 99], [101, 102, 103]]), false);
        batch
            .targets
            .into_data()
            .assert_eq(&TensorData::from([[98, 99, 100], [102, 103, 50256]]), false);
    }

    #[test]
    #[should_panic(expected = "leaves the 4 tokens")]
    fn the_token_after_a_window_must_exist() {
        let text = Tokens::from_slice(&[1, 2, 3, 4]);
        Batch::new(&text, &[1], 3, &Device::default());
    }
}
