use super::DecodeState;
use crate::{
    Block, Gpt2,
    fused::{causal_softmax, gelu_tanh},
};
use burn::tensor::{FloatDType::F32, Int, Tensor, activation::softmax};

/// Reads whole prompts into an empty state and returns the logits of the next token.
///
/// # Shapes
///
/// - prompt: `[batch, length]`
/// - output: `[batch, vocabulary]`
pub(super) fn prefill(model: &Gpt2, state: &mut DecodeState, prompt: Tensor<2, Int>) -> Tensor<2> {
    let [_, length] = prompt.dims();
    let positions = model.wpe.weight.val().narrow(0, 0, length).unsqueeze();
    let mut x = model.wte.forward(prompt.clone()) + positions;
    for (index, block) in model.h.iter().enumerate() {
        let remember = |entries: Tensor<4>| {
            state.fill(index, entries.clone());
            entries
        };
        x = apply(block, x, remember, causal_softmax);
    }
    state.start(prompt);
    finish(model, state, x.narrow(1, length - 1, 1))
}

/// Reads the next token of every sequence and returns the logits of the one after it.
///
/// Nothing in it depends on the host, so that it can be recorded.
///
/// # Shapes
///
/// - output: `[batch, vocabulary]`
pub(super) fn step(model: &Gpt2, state: &mut DecodeState) -> Tensor<2> {
    let (tokens, place) = state.next();
    let position = model.wpe.weight.val().select(0, place).unsqueeze();
    let mask = state.mask();
    let mut x = model.wte.forward(tokens) + position;
    for (index, block) in model.h.iter().enumerate() {
        let remember = |entries| state.append(index, entries);
        x = apply(block, x, remember, |scores, scale| {
            softmax(scores.mul_scalar(scale) + mask.clone(), 3)
        });
    }
    state.advance();
    finish(model, state, x)
}

/// The logits of the newest tokens; the most probable ones come next.
fn finish(model: &Gpt2, state: &mut DecodeState, x: Tensor<3>) -> Tensor<2> {
    let [batch, _, width] = x.dims();
    let x = model.ln_f.forward(x, F32).reshape([batch, width]);
    let logits = x.matmul(model.wte.weight.val().transpose());
    state.propose(logits.clone().argmax(1));
    logits
}

/// Applies a block whose attention looks at what `remember` makes of the new keys and values: at the
/// prompt itself, or at the cache.
///
/// # Shapes
///
/// - x: `[batch, tokens, width]`
/// - remember: from `[batch, 2 heads, tokens, head_width]` to `[batch, 2 heads, places, head_width]`
/// - weigh: from scores and their scale to weights, both `[batch, heads, tokens, places]`
/// - output: `[batch, tokens, width]`
fn apply(
    block: &Block,
    x: Tensor<3>,
    remember: impl FnOnce(Tensor<4>) -> Tensor<4>,
    weigh: impl FnOnce(Tensor<4>, f64) -> Tensor<4>,
) -> Tensor<3> {
    let [batch, tokens, width] = x.dims();
    let heads = block.attn.heads();
    let head_width = width / heads;

    let qkv = block
        .attn
        .c_attn
        .forward(block.ln_1.forward(x.clone(), F32));
    let qkv = match tokens {
        // The same for one token, and in memory order.
        1 => qkv.reshape([batch, 3 * heads, 1, head_width]),
        _ => qkv
            .reshape([batch, tokens, 3 * heads, head_width])
            .swap_dims(1, 2),
    };
    let query = qkv.clone().narrow(1, 0, heads);
    let entries = remember(qkv.narrow(1, heads, 2 * heads));
    let key = entries.clone().narrow(1, 0, heads);
    let value = entries.narrow(1, heads, heads);

    let scale = 1.0 / (head_width as f64).sqrt();
    let mixed = weigh(query.matmul(key.transpose()), scale).matmul(value);
    let joined = match tokens {
        1 => mixed.reshape([batch, 1, width]),
        _ => mixed.swap_dims(1, 2).reshape([batch, tokens, width]),
    };
    let x = x + block.attn.c_proj.forward(joined);

    let hidden = gelu_tanh(block.mlp.c_fc.forward(block.ln_2.forward(x.clone(), F32)));
    x + block.mlp.c_proj.forward(hidden)
}
