//! What the reader of weight files accepts.

use crate::{
    fixture::{Fixture, write_tensors},
    support::{bits, device},
};
use burn::tensor::{Int, Tensor, Tolerance};
use gpt2::{Gpt2Config, LoadOptions, LoadWarning, MlpLinear, MlpMode, Pretrained, load_pretrained};
use half::{bf16, f16};
use safetensors::Dtype;
use serde_json::json;
use std::{collections::BTreeMap, fs, path::Path};

fn load(path: &Path) -> Pretrained {
    load_pretrained(path, &LoadOptions::default(), &device()).unwrap()
}

fn load_fixture(fixture: &Fixture) -> Pretrained {
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    load(dir.path())
}

fn weight_bits(fixture: &Fixture) -> Vec<(String, Vec<i64>)> {
    bits(&load_fixture(fixture).model)
}

#[test]
fn every_tensor_goes_to_its_place_as_it_is() {
    let fixture = Fixture::new();
    let Pretrained {
        model, warnings, ..
    } = load_fixture(&fixture);
    assert_eq!(warnings, []);

    let found: BTreeMap<String, Vec<i64>> = bits(&model).into_iter().collect();
    assert_eq!(found.len(), fixture.tensors.len());
    for name in fixture.tensors.keys() {
        let place = name
            .replace("ln_1.weight", "ln_1.gamma")
            .replace("ln_1.bias", "ln_1.beta")
            .replace("ln_2.weight", "ln_2.gamma")
            .replace("ln_2.bias", "ln_2.beta")
            .replace("ln_f.weight", "ln_f.gamma")
            .replace("ln_f.bias", "ln_f.beta");
        let place = found
            .iter()
            .find(|(path, _)| path.replace(".Dense", "") == place);
        let (_, values) = place.unwrap_or_else(|| panic!("no {name} in {:?}", found.keys()));
        let expected: Vec<i64> = fixture
            .values(name)
            .iter()
            .map(|value| value.to_bits().into())
            .collect();
        assert_eq!(*values, expected, "{name}");
    }
}

#[test]
fn both_name_styles_give_the_same_model() {
    let fixture = Fixture::new();
    assert_eq!(
        weight_bits(&fixture),
        weight_bits(&fixture.clone().prefixed())
    );
}

#[test]
fn a_file_is_as_good_as_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let path = Fixture::new().write(dir.path());
    assert_eq!(bits(&load(&path).model), bits(&load(dir.path()).model));
}

#[test]
fn masks_of_the_attention_are_ignored() {
    let mut fixture = Fixture::new().prefixed();
    let expected = weight_bits(&fixture);
    fixture.set("transformer.h.0.attn.bias", &[1, 1, 6, 6], &[1.0; 36]);
    fixture.set("transformer.h.1.attn.masked_bias", &[], &[-1e4]);

    let pretrained = load_fixture(&fixture);
    assert_eq!(pretrained.warnings, []);
    assert_eq!(bits(&pretrained.model), expected);
}

#[test]
fn a_head_that_equals_the_embedding_stays_tied() {
    let mut fixture = Fixture::new().prefixed();
    let expected = weight_bits(&fixture);
    let embedding = fixture.tensors["transformer.wte.weight"].clone();
    fixture.tensors.insert("lm_head.weight".into(), embedding);

    let pretrained = load_fixture(&fixture);
    assert_eq!(pretrained.warnings, []);
    assert_eq!(bits(&pretrained.model), expected);
}

#[test]
fn halves_become_f32() {
    type Encode = fn(f32) -> [u8; 2];
    type Round = fn(f32) -> f32;
    let types: [(Dtype, Encode, Round); 2] = [
        (
            Dtype::F16,
            |x| f16::from_f32(x).to_le_bytes(),
            |x| f16::from_f32(x).to_f32(),
        ),
        (
            Dtype::BF16,
            |x| bf16::from_f32(x).to_le_bytes(),
            |x| bf16::from_f32(x).to_f32(),
        ),
    ];
    for (dtype, encode, round) in types {
        let mut halves = Fixture::new();
        let mut rounded = Fixture::new();
        for (name, (_, shape, _)) in Fixture::new().tensors {
            let values = halves.values(&name);
            let bytes = values.iter().flat_map(|&value| encode(value)).collect();
            let values: Vec<f32> = values.into_iter().map(round).collect();
            rounded.set(&name, &shape, &values);
            halves.tensors.insert(name, (dtype, shape, bytes));
        }
        assert_eq!(weight_bits(&halves), weight_bits(&rounded), "{dtype:?}");
    }
}

#[test]
fn shards_are_joined_by_their_index() {
    let fixture = Fixture::new().prefixed();
    let dir = tempfile::tempdir().unwrap();
    fixture.write_config(dir.path());
    let mut shards = [BTreeMap::new(), BTreeMap::new()];
    let mut weight_map = BTreeMap::new();
    for (number, (name, tensor)) in fixture.tensors.iter().enumerate() {
        shards[number % 2].insert(name.clone(), tensor.clone());
        weight_map.insert(
            name.clone(),
            format!("model-{}-of-2.safetensors", number % 2),
        );
    }
    for (number, shard) in shards.iter().enumerate() {
        let path = dir.path().join(format!("model-{number}-of-2.safetensors"));
        write_tensors(&path, shard);
    }
    let index = dir.path().join("model.safetensors.index.json");
    let text = json!({"metadata": {"total_size": 1}, "weight_map": weight_map});
    fs::write(&index, text.to_string()).unwrap();

    let expected = weight_bits(&fixture);
    assert_eq!(bits(&load(dir.path()).model), expected);
    assert_eq!(bits(&load(&index).model), expected);
}

#[test]
fn the_configuration_is_read_whole() {
    let mut fixture = Fixture::new();
    let changes = [
        ("embd_pdrop", json!(0.1)),
        ("attn_pdrop", json!(0.2)),
        ("resid_pdrop", json!(0.3)),
        ("layer_norm_epsilon", json!(1e-6)),
        ("activation_function", json!("gelu_pytorch_tanh")),
        ("n_inner", json!(16)),
        ("an_unknown_key", json!([1, 2])),
    ];
    for (key, value) in changes {
        fixture.config[key] = value;
    }
    let expected = Gpt2Config::new(2, 4, 2, 6)
        .with_vocabulary(11)
        .with_mode(MlpMode::Dense)
        .with_sparsity(0.0)
        .with_epsilon(1e-6)
        .with_dropout(0.1)
        .with_attention_dropout(Some(0.2))
        .with_residual_dropout(Some(0.3));
    let pretrained = load_fixture(&fixture);

    assert_eq!(pretrained.config.model, expected);
    let block = &pretrained.model.h[1];
    assert_eq!(pretrained.model.dropout.prob, 0.1);
    assert_eq!(block.attn.attention_dropout.prob, 0.2);
    assert_eq!(block.attn.residual_dropout.prob, 0.3);
    assert_eq!(block.mlp.residual_dropout.prob, 0.3);
}

#[test]
fn keys_that_are_absent_have_the_values_of_transformers() {
    let mut fixture = Fixture::new();
    let keys = fixture.config.as_object_mut().unwrap();
    for key in [
        "embd_pdrop",
        "attn_pdrop",
        "resid_pdrop",
        "layer_norm_epsilon",
        "activation_function",
        "model_type",
        "n_inner",
    ] {
        keys.remove(key);
    }
    let config = load_fixture(&fixture).config.model;
    assert_eq!(config.dropouts(), [0.1; 3]);
    assert_eq!(config.epsilon, 1e-5);
    assert_eq!(config.inner(), 16);
}

#[test]
fn the_inner_width_may_differ_from_four_times_the_width() {
    let mut fixture = Fixture::new();
    fixture.config["n_inner"] = json!(3);
    for block in 0..2 {
        let mlp = format!("h.{block}.mlp");
        fixture.set(&format!("{mlp}.c_fc.weight"), &[4, 3], &[0.5; 12]);
        fixture.set(&format!("{mlp}.c_fc.bias"), &[3], &[0.1; 3]);
        fixture.set(&format!("{mlp}.c_proj.weight"), &[3, 4], &[0.25; 12]);
    }
    let Pretrained { model, config, .. } = load_fixture(&fixture);

    assert_eq!(config.model.inner(), 3);
    assert_eq!(model.h[0].mlp.c_fc.dims(), [4, 3]);
    let tokens = Tensor::<2, Int>::from_data([[1, 2, 3]], &device());
    assert_eq!(model.forward(tokens).dims(), [1, 3, 11]);
}

#[test]
fn tensors_without_a_place_are_listed() {
    let mut fixture = Fixture::new().prefixed();
    fixture.set("score.weight", &[2, 4], &[0.0; 8]);
    fixture.set("transformer.h.7.ln_1.bias", &[4], &[0.0; 4]);

    let warnings = load_fixture(&fixture).warnings;
    let names = vec!["h.7.ln_1.bias".to_string(), "score.weight".to_string()];
    assert_eq!(warnings, [LoadWarning::Unused { names }]);
    assert_eq!(
        warnings[0].to_string(),
        "2 tensors have no place in the model and are left out: h.7.ln_1.bias, score.weight"
    );
    fixture.tensors.remove("score.weight").unwrap();
    assert_eq!(
        load_fixture(&fixture).warnings[0].to_string(),
        "1 tensor has no place in the model and is left out: h.7.ln_1.bias"
    );
}

#[test]
fn weights_that_are_no_numbers_are_counted() {
    let mut fixture = Fixture::new();
    fixture.set("ln_f.bias", &[4], &[0.0, f32::NAN, f32::INFINITY, -1.0]);
    let mut weights = fixture.values("h.1.mlp.c_fc.weight");
    weights[5] = f32::NEG_INFINITY;
    fixture.set("h.1.mlp.c_fc.weight", &[4, 16], &weights);

    let warnings: Vec<_> = load_fixture(&fixture)
        .warnings
        .iter()
        .map(LoadWarning::to_string)
        .collect();
    let expected = [
        "1 of the 64 elements of h.1.mlp.c_fc.weight is infinite or not a number",
        "2 of the 4 elements of ln_f.bias are infinite or not a number",
    ];
    assert_eq!(warnings.len(), expected.len());
    for (warning, expected) in warnings.iter().zip(expected) {
        assert!(
            warning.ends_with(&format!("model.safetensors: {expected}")),
            "{warning}"
        );
    }
}

#[test]
fn only_the_mlp_matrices_become_sparse() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new();
    let mut weights = fixture.values("h.0.mlp.c_fc.weight");
    weights[7] = 0.0;
    weights[20] = -0.0;
    fixture.set("h.0.mlp.c_fc.weight", &[4, 16], &weights);
    fixture.write(dir.path());
    let load = |mode| {
        let options = LoadOptions {
            mode: Some(mode),
            ..Default::default()
        };
        load_pretrained(dir.path(), &options, &device()).unwrap()
    };

    let sparse = load(MlpMode::Sparse);
    let MlpLinear::Sparse(layer) = &sparse.model.h[0].mlp.c_fc else {
        panic!("the layer is not sparse");
    };
    assert_eq!(layer.weight_shape(), [16, 4]);
    assert_eq!(layer.nnz(), 62);
    assert!(!layer.pattern().contains(7, 0));
    assert!(!layer.pattern().contains(4, 1));
    let values = layer.values.val().into_data();
    for ((output, input), value) in layer.pattern().iter().zip(values.iter::<f32>()) {
        assert_eq!(value, weights[input * 16 + output]);
    }
    let sparsity = sparse.config.model.sparsity;
    assert!((sparsity - 2.0 / 256.0).abs() < 1e-12, "{sparsity}");

    let tokens = Tensor::<2, Int>::from_data([[1, 2, 3, 10, 0, 4]], &device());
    let logits = |mode| load(mode).model.forward(tokens.clone()).into_data();
    let dense = logits(MlpMode::Dense);
    for mode in [MlpMode::Masked, MlpMode::Sparse] {
        logits(mode).assert_approx_eq::<f32>(&dense, Tolerance::absolute(1e-6));
    }
}
