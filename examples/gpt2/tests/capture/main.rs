//! Recorded decode steps that differ from those launched one by one: stale caches, tokens or positions,
//! and what the host writes between two replays.
//!
//! A binary of its own with one test, because a device that records refuses much of what other tests would
//! do beside it.

use burn::tensor::{Device, Tensor};
use gpt2::{Decoder, DeviceChoice, Gpt2, Gpt2Config, MlpMode};

const CONTEXT: usize = 24;
const BATCH: usize = 2;

#[test]
fn recorded_and_eager_steps_agree() {
    for choice in DeviceChoice::available() {
        let device = choice.open().unwrap();
        for mode in [MlpMode::Dense, MlpMode::Masked, MlpMode::Sparse] {
            let model = model(mode, &device);
            let mut eager = Decoder::new(&model, BATCH, false);
            let mut recorded = Decoder::new(&model, BATCH, true);
            let text = format!("{mode} on {choice}, recorded: {}", recorded.is_recorded());
            if matches!(choice, DeviceChoice::Cuda | DeviceChoice::Wgpu) {
                assert!(recorded.is_recorded(), "{text}");
            }
            // The second prompt finds what the first one left, the first one what the recording left.
            for prompts in [[[1, 2, 3], [30, 20, 10]], [[4, 4, 5], [39, 0, 7]]] {
                compare(&text, &prompts, &mut eager, &mut recorded);
            }
        }
    }
}

/// Lets both fill the context, and puts tokens of the host between theirs.
fn compare(text: &str, prompts: &[[u32; 3]; BATCH], eager: &mut Decoder, recorded: &mut Decoder) {
    let first = eager.prefill(prompts).unwrap();
    assert_close(text, &first, &recorded.prefill(prompts).unwrap());
    let mut seen = Vec::new();
    for step in 3..CONTEXT {
        if step % 4 == 0 {
            let tokens = [step as u32, 39 - step as u32];
            eager.feed(&tokens).unwrap();
            recorded.feed(&tokens).unwrap();
        }
        let logits = eager.step().unwrap();
        let replayed = recorded.step().unwrap();
        assert_close(&format!("{text}, step {step}"), logits, replayed);
        seen.push(numbers(replayed));
    }
    let tokens = eager.tokens(0..CONTEXT + 1);
    assert_eq!(recorded.tokens(0..CONTEXT + 1), tokens, "{text}");
    assert_eq!(tokens[0][..3], prompts[0], "{text}");
    assert_eq!(tokens[1][8], 31, "{text}");
    // A replay that read old buffers would repeat itself.
    assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "{text}");
}

/// Weights large enough that positions and tokens matter.
fn model(mode: MlpMode, device: &Device) -> Gpt2 {
    let config = Gpt2Config::new(2, 32, 2, CONTEXT)
        .with_vocabulary(40)
        .with_mode(mode)
        .with_sparsity(0.5);
    let mut model = config.init(3, device);
    model.wte.weight = model.wte.weight.map(|weight| weight * 20.0);
    model.wpe.weight = model.wpe.weight.map(|weight| weight * 20.0);
    for block in &mut model.h {
        let weight = block.attn.c_attn.weight.clone();
        block.attn.c_attn.weight = weight.map(|weight| weight * 20.0);
    }
    model
}

fn numbers(logits: &Tensor<2>) -> Vec<f32> {
    logits.to_data().iter::<f32>().collect()
}

fn assert_close(text: &str, a: &Tensor<2>, b: &Tensor<2>) {
    let (a, b) = (numbers(a), numbers(b));
    assert_eq!(a.len(), b.len(), "{text}");
    let scale = a.iter().fold(0.0f32, |max, value| max.max(value.abs()));
    for (a, b) in a.iter().zip(&b) {
        assert!((a - b).abs() <= 1e-5 * scale, "{text}: {a} and {b}");
    }
}
