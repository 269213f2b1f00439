use crate::{InitStream, ScoreActivation, attend_hops, share_count};
use burn::{
    module::Module,
    nn::{Dropout, DropoutConfig, Linear},
    tensor::{Device, Tensor},
};

/// Recursive attention over the hops of a node: every hop is scored against the weighted mean of
/// the hops before it.
#[derive(Module, Debug)]
pub struct HopAttention {
    /// The score of `[mean of the hops before; hop]`, `2 width -> 1`.
    pub score: Linear,
    /// Dropout of the shares that the hops of a node have in a mean.
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

    /// The weighted sum of the hops, by [`attend_hops`].
    ///
    /// # Shapes
    ///
    /// - hops: `[hops, batch, width]`
    /// - output: `[batch, width]`
    ///
    /// # Panics
    ///
    /// Panics if there is no hop, the width differs, or the score has no bias.
    pub fn forward(&self, hops: Tensor<3>) -> Tensor<2> {
        let [count, batch, _] = hops.dims();
        let device = hops.device();
        let drops = self.dropout.prob > 0.0 && device.is_autodiff();
        let factors = drops.then(|| {
            let all = Tensor::ones([batch, share_count(count)], &device);
            self.dropout.forward(all)
        });
        let bias = self.score.bias.as_ref().expect("the score has a bias");
        let weight = self.score.weight.val();
        attend_hops(hops, weight, bias.val(), factors, self.activation)
    }
}
