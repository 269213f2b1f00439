use crate::Gpt2;
use burn::tensor::{Device, IndexingUpdateOp, Int, Tensor};

/// What a decoder keeps on the device between two tokens.
///
/// Every change is a write into the same buffers, at a place that the device itself knows. A recorded
/// step therefore finds the state where it was when it was recorded: nothing outside this file may hold a
/// clone of a tensor in it while it changes.
#[derive(Debug)]
pub struct DecodeState {
    /// Keys, then values, of every block: `[batch, 2 heads, context, head_width]`.
    caches: Vec<Tensor<4>>,
    /// Tokens in the caches, and so the place of the next one: `[1]`.
    position: Tensor<1, Int>,
    /// All tokens, the next one included: `[batch, context + 1]`.
    tokens: Tensor<2, Int>,
}

impl DecodeState {
    /// An empty state for `batch` sequences of at most `context` tokens.
    pub fn new(model: &Gpt2, batch: usize, context: usize) -> Self {
        let embedding = model.wte.weight.val();
        let (device, dtype) = (embedding.device(), embedding.dtype());
        let [_, width] = embedding.dims();
        let cache = |heads: usize| {
            let shape = [batch, 2 * heads, context, width / heads];
            Tensor::zeros(shape, (&device, dtype))
        };
        Self {
            caches: model
                .h
                .iter()
                .map(|block| cache(block.attn.heads()))
                .collect(),
            position: Tensor::zeros([1], &device),
            tokens: Tensor::zeros([batch, context + 1], &device),
        }
    }

    /// Starts sequences of `length` tokens: what follows them is empty again.
    ///
    /// # Shapes
    ///
    /// - prompt: `[batch, length]`
    pub(super) fn start(&mut self, prompt: Tensor<2, Int>) {
        let [batch, length] = prompt.dims();
        let device = prompt.device();
        self.tokens
            .inplace(|tokens| tokens.slice_assign([0..batch, 0..length], prompt));
        let position = Tensor::from_data([length as i64], &device);
        replace(&mut self.position, position);
    }

    /// Puts the keys and values of whole prompts into the cache of a block.
    ///
    /// # Shapes
    ///
    /// - entries: `[batch, 2 heads, length, head_width]`
    pub(super) fn fill(&mut self, block: usize, entries: Tensor<4>) {
        let [batch, heads, length, head_width] = entries.dims();
        self.caches[block].inplace(|cache| {
            cache.slice_assign([0..batch, 0..heads, 0..length, 0..head_width], entries)
        });
    }

    /// Puts the keys and values of one token into the cache of a block and returns all of the cache, and
    /// the place of the token in it.
    ///
    /// # Shapes
    ///
    /// - entries: `[batch, 2 heads, 1, head_width]`
    /// - output: `[batch, 2 heads, context, head_width]` and `[1]`
    pub(super) fn append(
        &mut self,
        block: usize,
        entries: Tensor<4>,
    ) -> (Tensor<4>, Tensor<1, Int>) {
        let cache = &mut self.caches[block];
        let place = self.position.clone();
        cache.inplace(|cache| {
            cache.select_assign(2, place.clone(), entries, IndexingUpdateOp::Assign)
        });
        (cache.clone(), place)
    }

    /// The tokens that the caches do not have yet, and their place.
    ///
    /// # Shapes
    ///
    /// - output: `[batch, 1]` and `[1]`
    pub(super) fn next(&self) -> (Tensor<2, Int>, Tensor<1, Int>) {
        let place = self.position.clone();
        (self.tokens.clone().select(1, place.clone()), place)
    }

    /// Moves on by one token.
    pub(super) fn advance(&mut self) {
        let next = self.position.clone().add_scalar(1);
        replace(&mut self.position, next);
    }

    /// Sets the tokens that come next.
    ///
    /// # Shapes
    ///
    /// - tokens: `[batch, 1]`
    pub(super) fn propose(&mut self, tokens: Tensor<2, Int>) {
        let place = self.position.clone();
        self.tokens
            .inplace(|all| all.select_assign(1, place, tokens, IndexingUpdateOp::Assign));
    }

    /// All tokens: `[batch, context + 1]`. To be dropped before the state changes.
    pub(super) fn tokens(&self) -> Tensor<2, Int> {
        self.tokens.clone()
    }

    /// Bytes of the caches.
    pub fn bytes(&self) -> usize {
        let bytes = |cache: &Tensor<4>| cache.shape().num_elements() * cache.dtype().size();
        self.caches.iter().map(bytes).sum()
    }

    /// Where the state is.
    pub fn device(&self) -> Device {
        self.position.device()
    }
}

/// As [`store`](snack_burn::capture::store), for integers.
fn replace(state: &mut Tensor<1, Int>, value: Tensor<1, Int>) {
    let everything = value.dims().map(|size| 0..size);
    state.inplace(|state| state.slice_assign(everything, value));
}
