//! Parity with small GPT-2 models that Hugging Face transformers wrote and ran.

use crate::{
    fixture::{Stored, floats, integers, read_tensors},
    support::device,
};
use burn::{
    nn::Linear,
    tensor::{Device, Int, Tensor, TensorData, Tolerance},
};
use gpt2::{
    Batch, Corpus, Decoder, EvalMethod, EvalPlan, Gpt2, Gpt2Config, LoadOptions, MagnitudePruning,
    MlpLinear, MlpMode, PretrainedSource, PruneScope, SaveOptions, load_pretrained,
    save_pretrained,
};
use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    env, fs,
    path::{Path, PathBuf},
};

/// The folder of a sample model; says so and returns nothing where it is absent.
fn folder(name: &str) -> Option<PathBuf> {
    let data = env::var_os("SNACK_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let folder = data.join("gpt2").join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    println!(
        "skipped: no folder {} (set SNACK_DATA to the folder that holds gpt2/{name})",
        folder.display()
    );
    None
}

/// What the reference computed.
struct Golden(BTreeMap<String, Stored>);

impl Golden {
    fn read(folder: &Path) -> Self {
        Self(read_tensors(&folder.join("golden.safetensors")))
    }

    fn data(&self, name: &str) -> TensorData {
        let stored = &self.0[name];
        TensorData::new(floats(stored), stored.1.clone())
    }

    fn tokens(&self, device: &Device) -> Tensor<2, Int> {
        let stored = &self.0["input_ids"];
        let data = TensorData::new(integers(stored), stored.1.clone());
        Tensor::from_data(data, device)
    }
}

fn load(folder: &Path, options: &LoadOptions, device: &Device) -> Gpt2 {
    let pretrained = load_pretrained(folder, options, device).unwrap();
    assert_eq!(pretrained.warnings, []);
    pretrained.model
}

fn dense(layer: &MlpLinear) -> &Linear {
    match layer {
        MlpLinear::Dense(linear) => linear,
        _ => panic!("the sample model is dense"),
    }
}

fn tolerance() -> Tolerance<f32> {
    Tolerance::absolute(1e-4)
}

#[test]
fn sizes_and_dropouts_are_those_of_the_files() {
    if let Some(folder) = folder("byte-shakespeare") {
        let config = PretrainedSource::open(&folder)
            .unwrap()
            .config()
            .model
            .clone();
        let expected = Gpt2Config::new(2, 96, 4, 128)
            .with_mode(MlpMode::Dense)
            .with_sparsity(0.0);
        assert_eq!(config, expected);
    }
    if let Some(folder) = folder("tiny-random") {
        let config = PretrainedSource::open(&folder)
            .unwrap()
            .config()
            .model
            .clone();
        let expected = Gpt2Config::new(1, 2, 1, 1024)
            .with_vocabulary(21)
            .with_mode(MlpMode::Dense)
            .with_sparsity(0.0)
            .with_dropout(0.1);
        assert_eq!(config, expected);
    }
}

#[test]
fn names_without_prefix_give_the_logits_of_the_reference() {
    let Some(folder) = folder("tiny-random") else {
        return;
    };
    let golden = Golden::read(&folder);
    let model = load(&folder, &LoadOptions::default(), &device());
    let tokens = golden.tokens(&device());

    let logits = model.forward(tokens.clone()).into_data();
    logits.assert_approx_eq(&golden.data("logits"), tolerance());
    let loss = model.loss(tokens.clone().narrow(1, 0, 11), tokens.narrow(1, 1, 11));
    loss.into_data()
        .assert_approx_eq(&golden.data("loss"), tolerance());
}

#[test]
fn hidden_states_and_logits_equal_the_reference_in_every_mode() {
    let Some(folder) = folder("byte-shakespeare") else {
        return;
    };
    let golden = Golden::read(&folder);
    let tokens = golden.tokens(&device());
    for mode in [MlpMode::Dense, MlpMode::Masked, MlpMode::Sparse] {
        let options = LoadOptions {
            mode: Some(mode),
            ..Default::default()
        };
        let model = load(&folder, &options, &device());
        for (index, state) in model.hidden_states(tokens.clone()).into_iter().enumerate() {
            let expected = golden.data(&format!("hidden.{index}"));
            state.into_data().assert_approx_eq(&expected, tolerance());
        }
        let logits = model.forward(tokens.clone()).into_data();
        logits.assert_approx_eq(&golden.data("logits"), tolerance());
    }
}

#[test]
fn loss_and_gradients_equal_the_reference() {
    let Some(folder) = folder("byte-shakespeare") else {
        return;
    };
    let golden = Golden::read(&folder);
    let device = device().autodiff();
    let model = load(&folder, &LoadOptions::default(), &device);
    let ids = golden.tokens(&device);

    let loss = model.loss(ids.clone().narrow(1, 0, 63), ids.narrow(1, 1, 63));
    let grads = loss.backward();
    loss.into_data()
        .assert_approx_eq(&golden.data("loss"), tolerance());

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
        let expected = golden.data(&format!("grad.transformer.{name}"));
        grad.assert_approx_eq(&expected, tolerance());
    }
    let vectors = [
        ("h.0.mlp.c_fc.bias", fc.bias.as_ref().unwrap()),
        ("ln_f.weight", &model.ln_f.gamma),
    ];
    for (name, vector) in vectors {
        let grad = vector.val().grad(&grads).unwrap().into_data();
        let expected = golden.data(&format!("grad.transformer.{name}"));
        grad.assert_approx_eq(&expected, tolerance());
    }
}

/// The gradient of a sparse layer is the reference's at its coordinates: all of them, at sparsity 0.
#[test]
fn gradients_of_sparse_layers_equal_the_reference() {
    let Some(folder) = folder("byte-shakespeare") else {
        return;
    };
    let golden = Golden::read(&folder);
    let device = device().autodiff();
    let options = LoadOptions {
        mode: Some(MlpMode::Sparse),
        ..Default::default()
    };
    let model = load(&folder, &options, &device);
    let ids = golden.tokens(&device);
    let loss = model.loss(ids.clone().narrow(1, 0, 63), ids.narrow(1, 1, 63));
    let grads = loss.backward();

    let layers = [
        ("h.0.mlp.c_fc.weight", &model.h[0].mlp.c_fc),
        ("h.1.mlp.c_proj.weight", &model.h[1].mlp.c_proj),
    ];
    for (name, layer) in layers {
        let MlpLinear::Sparse(layer) = layer else {
            panic!("{name} is not sparse")
        };
        let expected = floats(&golden.0[&format!("grad.transformer.{name}")]);
        let [d_output, _] = layer.weight_shape();
        let grad = layer.values.val().grad(&grads).unwrap().into_data();
        let slots = layer.pattern().iter().zip(grad.iter::<f32>());
        for ((output, input), grad) in slots {
            let difference = (grad - expected[input * d_output + output]).abs();
            assert!(difference < 1e-4, "{name} at ({output}, {input})");
        }
    }
}

#[test]
fn pruned_models_lose_what_the_reference_loses() {
    let Some(folder) = folder("byte-shakespeare") else {
        return;
    };
    let text = fs::read_to_string(folder.join("prune_oracle.json")).unwrap();
    let oracle: HashMap<String, f64> = serde_json::from_str(&text).unwrap();
    assert!(oracle.len() >= 5);
    let corpus = Corpus::shakespeare();
    // Windows of 128 bytes with 127 targets each.
    let offsets: Vec<usize> = (0..60).map(|window| 128 * window).collect();
    let batch = Batch::new(corpus.held_out(), &offsets, 127, &device());

    for (name, expected) in oracle {
        let sparsity = name
            .strip_prefix("magnitude_")
            .map(|sparsity| sparsity.parse().unwrap());
        let modes = match sparsity {
            None => vec![MlpMode::Dense],
            Some(_) => vec![MlpMode::Masked, MlpMode::Sparse],
        };
        for mode in modes {
            let options = LoadOptions {
                mode: Some(mode),
                pruning: sparsity.map(|sparsity| MagnitudePruning {
                    sparsity,
                    scope: PruneScope::Layer,
                }),
                ..Default::default()
            };
            let model = load(&folder, &options, &device());
            let loss = model.loss(batch.tokens.clone(), batch.targets.clone());
            let loss = f64::from(loss.into_scalar::<f32>());
            assert!(
                (loss - expected).abs() < 1e-4,
                "{name}, {mode}: {loss}, the reference has {expected}"
            );
        }
    }
}

/// What transformers itself wrote for the same model.
#[test]
fn the_written_files_equal_those_of_transformers() {
    let Some(folder) = folder("byte-shakespeare") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    let pretrained = load_pretrained(&folder, &LoadOptions::default(), &device()).unwrap();
    let options = SaveOptions::default();
    save_pretrained(&pretrained.model, &pretrained.config, &to, &options).unwrap();

    let read = |folder: &Path| fs::read(folder.join("model.safetensors")).unwrap();
    assert!(read(&to) == read(&folder), "model.safetensors differs");
    let config = |folder: &Path| -> serde_json::Map<String, serde_json::Value> {
        serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap()
    };
    let (ours, theirs) = (config(&to), config(&folder));
    for (key, value) in &theirs {
        assert_eq!(ours.get(key), Some(value), "{key}");
    }
    let added: Vec<_> = ours
        .keys()
        .filter(|key| !theirs.contains_key(*key))
        .collect();
    assert_eq!(added, ["add_cross_attention", "tie_word_embeddings"]);
}

/// The reference measured the same blocks of 128 bytes.
#[test]
fn block_perplexity_is_that_of_the_reference() {
    let Some(folder) = folder("byte-shakespeare") else {
        return;
    };
    let text = fs::read_to_string(folder.join("prune_oracle.json")).unwrap();
    let oracle: HashMap<String, f64> = serde_json::from_str(&text).unwrap();
    let model = load(&folder, &LoadOptions::default(), &device());
    let corpus = Corpus::shakespeare();
    let text = corpus.held_out().slice(0..60 * 128);

    let plan = EvalPlan::new(EvalMethod::Block { size: 128 }, text.len()).unwrap();
    let score = plan.score(8, |windows| {
        Ok::<_, Infallible>(model.window_nll(&text, windows))
    });
    let loss = score.unwrap().loss();
    let expected = oracle["val_loss"];
    assert!((loss - expected).abs() < 1e-4, "{loss}, not {expected}");
}

/// Tokens that fill the context after a prompt, by full passes and with the cache.
#[test]
fn the_cache_does_not_change_what_the_sample_model_writes() {
    let Some(folder) = folder("byte-shakespeare") else {
        return;
    };
    let model = load(&folder, &LoadOptions::default(), &device());
    let prompt = b"First Citizen:\nBefore we proceed".map(u32::from);
    let context = 128;

    let mut expected = prompt.to_vec();
    while expected.len() < context {
        let bytes = expected.iter().map(|&token| token as i32);
        let data = TensorData::new(bytes.collect(), [1, expected.len()]);
        let logits = model.forward(Tensor::from_data(data, &device()));
        let last = logits.narrow(1, expected.len() - 1, 1);
        let best = last.argmax(2).into_data().iter::<u32>().next();
        expected.extend(best);
    }
    for record in [false, cfg!(feature = "flex")] {
        let mut decoder = Decoder::new(&model, 1, record);
        decoder.prefill(&[prompt]).unwrap();
        while decoder.position() < context - 1 {
            decoder.step().unwrap();
        }
        assert_eq!(decoder.tokens(0..context), [expected.clone()]);
    }
}
