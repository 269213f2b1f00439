use crate::{InitStream, ScoreActivation};
use burn::{
    module::Module,
    nn::{Dropout, DropoutConfig, Linear},
    tensor::{
        Device, Tensor,
        activation::{leaky_relu, relu, sigmoid, softmax},
    },
};

/// Recursive attention over the hops of a node: every hop is scored against the weighted mean of
/// the hops before it.
#[derive(Module, Debug)]
pub struct HopAttention {
    /// The score of `[mean of the hops before; hop]`, `2 width -> 1`.
    pub score: Linear,
    /// Dropout of whole hops of a node.
    pub dropout: Dropout,
    /// The non-linearity of the scores.
    #[module(skip)]
    pub activation: ScoreActivation,
}

impl HopAttention {
    /// Initializes the score with zero bias and Xavier weights of gain `sqrt(2)`.
    pub fn new(
        width: usize,
        activation: ScoreActivation,
        dropout: f64,
        stream: &mut InitStream,
        device: &Device,
    ) -> Self {
        Self {
            score: stream.linear([2 * width, 1], device),
            dropout: DropoutConfig::new(dropout).init(),
            activation,
        }
    }

    /// The weights of all hops, which add up to one per node before dropout.
    ///
    /// # Shapes
    ///
    /// - hops: any number of `[batch, width]`, at least one
    /// - output: `[batch, hops]`
    ///
    /// # Panics
    ///
    /// Panics if there is no hop.
    pub fn weights(&self, hops: &[Tensor<2>]) -> Tensor<2> {
        let [double, _] = self.score.weight.dims();
        // The score is linear in its two halves: `w . [c; z] = w1 . c + w2 . z`, and as `c` is a
        // weighted sum of hops, `w1 . c` is that sum of numbers `w1 . z`. So two numbers per hop are
        // enough, and no mean of hops is ever formed. Sums rather than products with a matrix of
        // two columns: those are memory-bound, and GPUs tune each of them anew.
        let halves = self.score.weight.val().reshape([2, double / 2]);
        let part = |half: usize| {
            let weight = halves.clone().narrow(0, half, 1);
            let numbers = hops
                .iter()
                .map(move |z| (z.clone() * weight.clone()).sum_dim(1));
            numbers.collect::<Vec<_>>()
        };
        let (before, own) = (Tensor::cat(part(0), 1), part(1));
        let bias = self.score.bias.as_ref().map(|bias| bias.val().unsqueeze());

        let mut scores: Vec<Tensor<2>> = Vec::with_capacity(hops.len());
        for (k, own) in own.into_iter().enumerate() {
            let mean = match k {
                0 => before.clone().narrow(1, 0, 1),
                _ => {
                    let shares = self.shares(&scores);
                    (shares * before.clone().narrow(1, 0, k)).sum_dim(1)
                }
            };
            let mut score = mean + own;
            if let Some(bias) = &bias {
                score = score + bias.clone();
            }
            scores.push(self.activate(score));
        }
        self.shares(&scores)
    }

    /// The weighted sum of the hops.
    ///
    /// # Shapes
    ///
    /// - hops: any number of `[batch, width]`, at least one
    /// - output: `[batch, width]`
    ///
    /// # Panics
    ///
    /// Panics if there is no hop.
    pub fn forward(&self, hops: &[Tensor<2>]) -> Tensor<2> {
        let weights = self.weights(hops);
        let terms = hops
            .iter()
            .enumerate()
            .map(|(k, hop)| hop.clone() * weights.clone().narrow(1, k, 1));
        terms
            .reduce(|sum, term| sum + term)
            .expect("`weights` refuses to combine no hops")
    }

    fn shares(&self, scores: &[Tensor<2>]) -> Tensor<2> {
        self.dropout
            .forward(softmax(Tensor::cat(scores.to_vec(), 1), 1))
    }

    fn activate(&self, score: Tensor<2>) -> Tensor<2> {
        match self.activation {
            ScoreActivation::Relu => relu(score),
            ScoreActivation::LeakyRelu => leaky_relu(score, 0.2),
            ScoreActivation::Sigmoid => sigmoid(score),
        }
    }
}
