use super::{Block, LayerNorm, MlpLinear, Precision, block::INIT_STD, precision::convert};
use crate::{Gpt2Config, InitStream, fused::token_losses};
use burn::{
    module::Module,
    nn::{Dropout, DropoutConfig, Embedding},
    tensor::{Device, FloatDType, Int, Tensor, assert_shape},
};
use snack_burn::tensor::dense_product;

/// GPT-2: learned positions, pre-norm blocks, and the token embedding reused as output head.
#[derive(Module, Debug)]
pub struct Gpt2 {
    /// Token embedding, and the weight of the output head.
    pub wte: Embedding,
    /// Position embedding.
    pub wpe: Embedding,
    /// Dropout of the embeddings.
    pub dropout: Dropout,
    /// The blocks.
    pub h: Vec<Block>,
    /// Layer norm before the head.
    pub ln_f: LayerNorm,
    /// In which precision matrices are multiplied; not part of a record.
    #[module(skip)]
    pub precision: Precision,
}

impl Gpt2Config {
    /// Initializes the model: embeddings and projections from `N(0, 0.02^2)`, the projections
    /// that end in the residual stream smaller by `sqrt(2 layers)`, biases zero.
    ///
    /// The values depend on `seed` and the sizes only, not on the device.
    ///
    /// # Panics
    ///
    /// Panics if [`validate`](Self::validate) refuses the sizes.
    pub fn init(&self, seed: u64, device: &Device) -> Gpt2 {
        if let Err(error) = self.validate() {
            panic!("Gpt2Config::init: {error}");
        }
        let mut stream = InitStream::new(seed);
        Gpt2 {
            wte: Embedding {
                weight: stream.normal([self.vocabulary, self.width], INIT_STD, device),
            },
            wpe: Embedding {
                weight: stream.normal([self.context, self.width], INIT_STD, device),
            },
            dropout: DropoutConfig::new(self.dropout).init(),
            h: (0..self.layers)
                .map(|_| Block::new(self, &mut stream, device))
                .collect(),
            ln_f: LayerNorm::new(self.width, self.epsilon, device),
            precision: Precision::default(),
        }
    }
}

impl Gpt2 {
    /// Lets matrices be multiplied in `precision` from now on.
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Predicts the next token at every position.
    ///
    /// # Shapes
    ///
    /// - tokens: `[batch, tokens]`
    /// - output: `[batch, tokens, vocabulary]`, unnormalized
    ///
    /// # Panics
    ///
    /// Panics if there are more tokens than the context allows.
    pub fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let hidden = self.hidden_states(tokens).pop();
        self.head(hidden.expect("there is always the state after the embeddings"))
    }

    /// The residual stream after the embeddings and after every block, the last one normalized.
    ///
    /// # Shapes
    ///
    /// - tokens: `[batch, tokens]`
    /// - output: `layers + 1` times `[batch, tokens, width]`
    ///
    /// # Panics
    ///
    /// Panics if there are more tokens than the context allows.
    pub fn hidden_states(&self, tokens: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let [_, length] = tokens.dims();
        let [context, _] = self.wpe.weight.dims();
        assert!(
            length <= context,
            "Gpt2::forward: got {length} tokens, but the context is {context}"
        );
        let positions = self.wpe.weight.val().narrow(0, 0, length).unsqueeze();
        let x = self.wte.forward(tokens) + positions;
        let mut states = vec![self.dropout.forward(x)];
        for block in &self.h {
            let x = states[states.len() - 1].clone();
            states.push(block.forward(x, self.precision));
        }
        let last = states.pop().map(|x| self.ln_f.forward(x, FloatDType::F32));
        states.extend(last);
        states
    }

    /// The mean cross-entropy, in nats per token, of the predictions for `targets`.
    ///
    /// # Shapes
    ///
    /// - tokens: `[batch, tokens]`
    /// - targets: `[batch, tokens]`, every token's successor
    /// - output: `[1]`
    ///
    /// # Panics
    ///
    /// Panics if the two shapes differ or there are more tokens than the context allows.
    pub fn loss(&self, tokens: Tensor<2, Int>, targets: Tensor<2, Int>) -> Tensor<1> {
        let [batch, length] = tokens.dims();
        assert_shape!(targets, [batch, length]);
        let hidden = self.hidden_states(tokens).pop();
        let hidden = hidden.expect("there is always the state after the embeddings");
        self.position_losses(hidden, targets).mean()
    }

    /// The cross-entropy of every prediction, in nats, from the last of the
    /// [`hidden_states`](Self::hidden_states).
    ///
    /// # Shapes
    ///
    /// - hidden: `[batch, tokens, width]`
    /// - targets: `[batch, tokens]`
    /// - output: `[batch * tokens]`
    pub(crate) fn position_losses(&self, hidden: Tensor<3>, targets: Tensor<2, Int>) -> Tensor<1> {
        let count = targets.shape().num_elements();
        let weight = self.wte.weight.val();
        let [vocabulary, _] = weight.dims();
        let logits = self.logits(hidden, padded(weight));
        token_losses(logits, targets.reshape([count]), vocabulary)
    }

    /// The layers that [`MlpMode`](crate::MlpMode) governs, first to last.
    pub fn mlp_layers(&self) -> impl Iterator<Item = &MlpLinear> {
        self.h
            .iter()
            .flat_map(|block| [&block.mlp.c_fc, &block.mlp.c_proj])
    }

    fn head(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, _] = x.dims();
        let weight = self.wte.weight.val();
        let [vocabulary, _] = weight.dims();
        let logits = convert(self.logits(x, weight), FloatDType::F32);
        logits.reshape([batch, length, vocabulary])
    }

    /// Unnormalized predictions in the precision of the model, `[batch tokens, rows of weight]`.
    fn logits(&self, x: Tensor<3>, weight: Tensor<2>) -> Tensor<2> {
        let [batch, length, width] = x.dims();
        let x = self.precision.lower(x).reshape([batch * length, width]);
        dense_product(x, self.precision.lower(weight).transpose())
    }
}

/// The rows of `weight`, and zeros up to a number of rows that matrix products are laid out for: products
/// with an odd number of rows copy their operands first.
fn padded(weight: Tensor<2>) -> Tensor<2> {
    const ALIGNED: usize = 64;
    let [rows, width] = weight.dims();
    match rows.next_multiple_of(ALIGNED) - rows {
        0 => weight,
        missing => {
            let zeros = Tensor::zeros([missing, width], &weight.device());
            Tensor::cat(vec![weight, zeros], 0)
        }
    }
}
