//! Parity with a small GPT-2 that Hugging Face transformers trained and ran.

use crate::support::device;
use burn::{
    module::Param,
    nn::{LayerNorm, Linear},
    tensor::{Device, Int, Tensor, TensorData, Tolerance},
};
use gpt2::{Batch, Corpus, Gpt2, Gpt2Config, MlpLinear, MlpMode};
use safetensors::{Dtype, SafeTensors};
use snack_burn::prelude::{Prune, SparseLinear};
use std::{collections::HashMap, env, fs, path::PathBuf};

type Tensors = HashMap<String, TensorData>;

/// The folder of the sample model; says so and returns nothing where it is absent.
fn folder() -> Option<PathBuf> {
    let data = env::var_os("SNACK_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let folder = data.join("gpt2/byte-shakespeare");
    if folder.is_dir() {
        return Some(folder);
    }
    println!(
        "skipped: no folder {} (set SNACK_DATA to the folder that holds gpt2/byte-shakespeare)",
        folder.display()
    );
    None
}

fn read(path: PathBuf) -> Tensors {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter()
        .map(|(name, view)| {
            let shape = view.shape().to_vec();
            let data = match view.dtype() {
                Dtype::F32 => {
                    let words = view.data().chunks_exact(4);
                    let values = words.map(|word| f32::from_le_bytes(word.try_into().unwrap()));
                    TensorData::new(values.collect(), shape)
                }
                Dtype::I64 => {
                    let words = view.data().chunks_exact(8);
                    let values = words.map(|word| i64::from_le_bytes(word.try_into().unwrap()));
                    TensorData::new(values.collect(), shape)
                }
                other => panic!("{name} has type {other:?}"),
            };
            (name.trim_start_matches("transformer.").to_string(), data)
        })
        .collect()
}

fn sample_model(folder: &std::path::Path, device: &Device) -> Gpt2 {
    let tensors = read(folder.join("model.safetensors"));
    let config = Gpt2Config::new(2, 96, 4, 128).with_mode(MlpMode::Dense);
    let mut model = config.init(0, device);
    let linear = |name: &str| Linear {
        weight: param(&tensors, &format!("{name}.weight"), device),
        bias: Some(param(&tensors, &format!("{name}.bias"), device)),
    };
    let norm = |norm: &mut LayerNorm, name: &str| {
        norm.gamma = param(&tensors, &format!("{name}.weight"), device);
        norm.beta = Some(param(&tensors, &format!("{name}.bias"), device));
    };

    model.wte.weight = param(&tensors, "wte.weight", device);
    model.wpe.weight = param(&tensors, "wpe.weight", device);
    norm(&mut model.ln_f, "ln_f");
    for (index, block) in model.h.iter_mut().enumerate() {
        norm(&mut block.ln_1, &format!("h.{index}.ln_1"));
        norm(&mut block.ln_2, &format!("h.{index}.ln_2"));
        block.attn.c_attn = linear(&format!("h.{index}.attn.c_attn"));
        block.attn.c_proj = linear(&format!("h.{index}.attn.c_proj"));
        block.mlp.c_fc = MlpLinear::Dense(linear(&format!("h.{index}.mlp.c_fc")));
        block.mlp.c_proj = MlpLinear::Dense(linear(&format!("h.{index}.mlp.c_proj")));
    }
    model
}

fn param<const D: usize>(tensors: &Tensors, name: &str, device: &Device) -> Param<Tensor<D>> {
    Param::from_data(tensors[name].clone(), device)
}

fn dense(layer: &MlpLinear) -> &Linear {
    match layer {
        MlpLinear::Dense(linear) => linear,
        _ => panic!("the sample model is dense"),
    }
}

#[test]
fn hidden_states_and_logits_equal_the_reference() {
    let Some(folder) = folder() else { return };
    let golden = read(folder.join("golden.safetensors"));
    let model = sample_model(&folder, &device());
    let tokens = Tensor::<2, Int>::from_data(golden["input_ids"].clone(), &device());
    let tolerance = Tolerance::<f32>::absolute(1e-4);

    for (index, state) in model.hidden_states(tokens.clone()).into_iter().enumerate() {
        let expected = &golden[&format!("hidden.{index}")];
        state.into_data().assert_approx_eq(expected, tolerance);
    }
    let logits = model.forward(tokens);
    logits
        .into_data()
        .assert_approx_eq(&golden["logits"], tolerance);
}

#[test]
fn loss_and_gradients_equal_the_reference() {
    let Some(folder) = folder() else { return };
    let golden = read(folder.join("golden.safetensors"));
    let device = device().autodiff();
    let model = sample_model(&folder, &device);
    let ids = Tensor::<2, Int>::from_data(golden["input_ids"].clone(), &device);
    let tolerance = Tolerance::<f32>::absolute(1e-4);

    let loss = model.loss(ids.clone().narrow(1, 0, 63), ids.narrow(1, 1, 63));
    let grads = loss.backward();
    loss.into_data()
        .assert_approx_eq(&golden["loss"], tolerance);

    let block = |index: usize| &model.h[index];
    let fc = dense(&block(0).mlp.c_fc);
    let matrices = [
        ("h.0.attn.c_attn.weight", &block(0).attn.c_attn.weight),
        ("h.0.mlp.c_fc.weight", &fc.weight),
        ("h.1.mlp.c_proj.weight", &dense(&block(1).mlp.c_proj).weight),
        ("wpe.weight", &model.wpe.weight),
    ];
    for (name, weight) in matrices {
        let grad = weight.val().grad(&grads).unwrap().into_data();
        grad.assert_approx_eq(&golden[&format!("grad.transformer.{name}")], tolerance);
    }
    let vectors = [
        ("h.0.mlp.c_fc.bias", fc.bias.as_ref().unwrap()),
        ("ln_f.weight", &model.ln_f.gamma),
    ];
    for (name, vector) in vectors {
        let grad = vector.val().grad(&grads).unwrap().into_data();
        grad.assert_approx_eq(&golden[&format!("grad.transformer.{name}")], tolerance);
    }
}

#[test]
fn pruned_models_lose_what_the_reference_loses() {
    let Some(folder) = folder() else { return };
    let text = fs::read_to_string(folder.join("prune_oracle.json")).unwrap();
    let oracle: HashMap<String, f64> = serde_json::from_str(&text).unwrap();
    let corpus = Corpus::shakespeare();

    for (name, expected) in oracle {
        let mut model = sample_model(&folder, &device());
        if let Some(sparsity) = name.strip_prefix("magnitude_") {
            let sparsity: f64 = sparsity.parse().unwrap();
            for block in &mut model.h {
                for layer in [&mut block.mlp.c_fc, &mut block.mlp.c_proj] {
                    let linear = dense(layer).clone();
                    let pruned = SparseLinear::from_linear(linear, Prune::magnitude(sparsity));
                    *layer = MlpLinear::Sparse(pruned);
                }
            }
        }
        // Windows of 128 bytes with 127 targets each.
        let offsets: Vec<usize> = (0..60).map(|window| 128 * window).collect();
        let batch = Batch::new(corpus.held_out(), &offsets, 127, &device());
        let loss = model.loss(batch.tokens, batch.targets).into_scalar::<f32>();
        assert!(
            (f64::from(loss) - expected).abs() < 1e-4,
            "{name}: {loss}, the reference has {expected}"
        );
    }
}
