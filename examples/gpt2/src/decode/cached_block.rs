use super::DecodeState;
use crate::{
    Block, Gpt2, MlpLinear,
    fused::{attend, compare_rows, gelu_tanh, project_rows},
    model::untracked_attention,
};
use burn::tensor::{FloatDType::F32, Int, Tensor};

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
        x = read_prompt(block, x, |entries| state.fill(index, entries));
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
    let mut x = model.wte.forward(tokens) + position;
    for (index, block) in model.h.iter().enumerate() {
        x = read_token(block, x, state, index);
    }
    state.advance();
    finish(model, state, x)
}

/// The logits of the newest tokens, `[batch, 1, width]`; the most probable ones come next.
fn finish(model: &Gpt2, state: &mut DecodeState, x: Tensor<3>) -> Tensor<2> {
    let logits = compare_rows(rows(model.ln_f.forward(x, F32)), model.wte.weight.val());
    state.propose(logits.clone().argmax(1));
    logits
}

/// Applies a block to whole prompts; `remember` is given their keys and values,
/// `[batch, 2 heads, tokens, head_width]`.
///
/// # Shapes
///
/// - x: `[batch, tokens, width]`
/// - output: `[batch, tokens, width]`
fn read_prompt(block: &Block, x: Tensor<3>, remember: impl FnOnce(Tensor<4>)) -> Tensor<3> {
    let [batch, tokens, width] = x.dims();
    let heads = block.attn.heads();
    let head_width = width / heads;

    let qkv = block
        .attn
        .c_attn
        .forward(block.ln_1.forward(x.clone(), F32))
        .reshape([batch, tokens, 3 * heads, head_width])
        .swap_dims(1, 2);
    let part = |index: usize| qkv.clone().narrow(1, index * heads, heads);
    let (query, key, value) = (part(0), part(1), part(2));
    remember(qkv.clone().narrow(1, heads, 2 * heads));

    let mixed = untracked_attention(query, key, value).swap_dims(1, 2);
    let x = x + block
        .attn
        .c_proj
        .forward(mixed.reshape([batch, tokens, width]));

    let hidden = gelu_tanh(block.mlp.c_fc.forward(block.ln_2.forward(x.clone(), F32)));
    x + block.mlp.c_proj.forward(hidden)
}

/// Applies a block to one token of every sequence, whose attention looks at the cache.
///
/// # Shapes
///
/// - x: `[batch, 1, width]`
/// - output: `[batch, 1, width]`
fn read_token(block: &Block, x: Tensor<3>, state: &mut DecodeState, index: usize) -> Tensor<3> {
    let [batch, _, width] = x.dims();
    let heads = block.attn.heads();
    let head_width = width / heads;

    let normed = rows(block.ln_1.forward(x.clone(), F32));
    let qkv = project_rows(normed, &block.attn.c_attn).reshape([batch, 3 * heads, 1, head_width]);
    let query = qkv.clone().narrow(1, 0, heads);
    let (cache, place) = state.append(index, qkv.narrow(1, heads, 2 * heads));
    let mixed = attend(query, cache, place, scale(head_width)).reshape([batch, width]);
    let x = x + project_rows(mixed, &block.attn.c_proj).unsqueeze_dim(1);

    let normed = rows(block.ln_2.forward(x.clone(), F32));
    let hidden = gelu_tanh(apply(&block.mlp.c_fc, normed));
    x + apply(&block.mlp.c_proj, hidden).unsqueeze_dim(1)
}

fn apply(layer: &MlpLinear, x: Tensor<2>) -> Tensor<2> {
    match layer {
        MlpLinear::Dense(layer) => project_rows(x, layer),
        layer => layer.forward(x),
    }
}

/// `[batch, 1, width]` as `[batch, width]`.
fn rows(x: Tensor<3>) -> Tensor<2> {
    x.squeeze_dim(1)
}

fn scale(head_width: usize) -> f64 {
    1.0 / (head_width as f64).sqrt()
}
