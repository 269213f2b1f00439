//! Weights that are written and read again.

use crate::{
    convert_support::{contents, converted, load, names},
    fixture::{Fixture, Stored, floats, integers, read_tensors},
    support::{bits, device, finish, tiny},
};
use burn::tensor::{Int, Tensor, Tolerance};
use gpt2::{HfConfig, MlpLinear, MlpMatrix, MlpMode, WeightDtype};
use half::bf16;
use safetensors::Dtype;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path, process::Command};

fn config(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join("config.json")).unwrap()).unwrap()
}

/// The header's free-form part.
fn notes(path: &Path) -> BTreeMap<String, String> {
    let bytes = fs::read(path).unwrap();
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    metadata.metadata().clone().unwrap().into_iter().collect()
}

#[test]
fn hugging_face_files_come_back_bit_by_bit() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new();
    let mut odd = fixture.values("h.1.mlp.c_proj.weight");
    (odd[0], odd[1], odd[2]) = (0.0, -0.0, f32::MIN_POSITIVE / 4.0);
    fixture.set("h.1.mlp.c_proj.weight", &[16, 4], &odd);
    fixture.write(dir.path());
    let to = dir.path().join("deep/er/to");
    converted(dir.path(), &to, &[]);

    let expected = fixture.prefixed();
    let path = to.join("model.safetensors");
    assert_eq!(read_tensors(&path), expected.tensors);
    assert_eq!(
        notes(&path),
        BTreeMap::from([("format".into(), "pt".into())])
    );
    assert_eq!(names(&to), ["config.json", "model.safetensors"]);
}

#[test]
fn the_configuration_has_all_that_transformers_needs() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new();
    fixture.config["attn_pdrop"] = json!(0.25);
    fixture.config["architectures"] = json!(["GPT2Model"]);
    fixture.config["summary_type"] = json!("cls_index");
    fixture.config["dtype"] = json!("float64");
    fixture.write(dir.path());
    let to = dir.path().join("to");
    converted(dir.path(), &to, &["--dtype", "bf16"]);

    let expected = json!({
        "activation_function": "gelu_new",
        "add_cross_attention": false,
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": 0.25,
        "bos_token_id": 3,
        "embd_pdrop": 0.0,
        "eos_token_id": null,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-5,
        "model_type": "gpt2",
        "n_embd": 4,
        "n_head": 2,
        "n_inner": null,
        "n_layer": 2,
        "n_positions": 6,
        "reorder_and_upcast_attn": false,
        "resid_pdrop": 0.0,
        "scale_attn_by_inverse_layer_idx": false,
        "scale_attn_weights": true,
        "summary_type": "cls_index",
        "tie_word_embeddings": true,
        "torch_dtype": "bfloat16",
        "use_cache": true,
        "vocab_size": 11,
    });
    assert_eq!(config(&to), expected);
    assert_eq!(load(&to).config.model, load(dir.path()).config.model);

    let small = HfConfig::new(gpt2::Gpt2Config::small()).to_json(WeightDtype::F32);
    let small: Value = serde_json::from_str(&small).unwrap();
    assert_eq!(small["eos_token_id"], json!(50_256));
}

#[test]
fn sparse_files_keep_values_and_pattern() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    let sparse = dir.path().join("sparse");
    let again = dir.path().join("again");
    converted(
        dir.path(),
        &sparse,
        &["--sparsity", "0.8", "--format", "sparse"],
    );
    converted(&sparse, &again, &["--format", "sparse"]);

    let pretrained = load(&sparse);
    assert_eq!(pretrained.warnings, []);
    assert_eq!(pretrained.config.model.mode, MlpMode::Sparse);
    assert_eq!(
        pretrained
            .model
            .mlp_layers()
            .map(MlpLinear::stored)
            .sum::<usize>(),
        4 * 13
    );
    assert_eq!(bits(&load(&again).model), bits(&pretrained.model));
    assert!(contents(&sparse) == contents(&again), "files differ");
}

/// The layout that the documentation promises, read without the library.
#[test]
fn sparse_files_have_the_documented_layout() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new();
    let mut weights = vec![0.0; 64];
    (weights[1], weights[33], weights[18]) = (0.5, 0.25, -1.0);
    fixture.set("h.0.mlp.c_fc.weight", &[4, 16], &weights);
    fixture.write(dir.path());
    let to = dir.path().join("to");
    converted(dir.path(), &to, &["--mode", "sparse", "--format", "sparse"]);

    let path = to.join("model.sparse.safetensors");
    let tensors = read_tensors(&path);
    let matrix = "transformer.h.0.mlp.c_fc.weight";
    let part = |part: &str| &tensors[&format!("{matrix}.{part}")];
    assert!(!tensors.contains_key(matrix));
    assert_eq!(integers(part("shape")), [16, 4]);
    assert_eq!(integers(part("col_indices")), [0, 2, 1]);
    assert_eq!(floats(part("values")), [0.5, 0.25, -1.0]);
    let mut offsets = [3; 17];
    (offsets[0], offsets[1], offsets[2]) = (0, 0, 2);
    assert_eq!(integers(part("row_offsets")), offsets);
    assert_eq!(notes(&path)["format"], "gpt2-sparse-csr-v1");
    // Everything else is as in the dense layout.
    let expected = fixture.prefixed().tensors;
    let others = expected.iter().filter(|(name, _)| {
        !name.ends_with("mlp.c_fc.weight") && !name.ends_with("mlp.c_proj.weight")
    });
    for (name, tensor) in others {
        assert_eq!(tensors[name], *tensor, "{name}");
    }
}

#[test]
fn connections_of_value_zero_survive_the_sparse_layout() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new();
    fixture.set("h.0.mlp.c_fc.weight", &[4, 16], &[0.0; 64]);
    fixture.write(dir.path());
    let sparse = dir.path().join("sparse");
    converted(
        dir.path(),
        &sparse,
        &["--sparsity", "0.5", "--format", "sparse"],
    );
    let MlpLinear::Sparse(layer) = &load(&sparse).model.h[0].mlp.c_fc else {
        panic!("the layer is not sparse");
    };
    assert_eq!(layer.nnz(), 32);
    let hf = dir.path().join("hf");
    converted(&sparse, &hf, &[]);
    assert_eq!(bits(&load(&hf).model).len(), fixture.tensors.len());
    let zeros = &read_tensors(&hf.join("model.safetensors"))["transformer.h.0.mlp.c_fc.weight"];
    assert_eq!(floats(zeros), [0.0; 64]);
}

#[test]
fn runs_become_hugging_face_files_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    for (mode, update_every) in [
        (MlpMode::Sparse, Some(6)),
        (MlpMode::Masked, None),
        (MlpMode::Dense, None),
    ] {
        let mut args = tiny(dir.path());
        args.mode = Some(mode);
        args.update_every = update_every;
        args.sparsity = args.sparsity.filter(|_| mode != MlpMode::Dense);
        args.steps = Some(8);
        args.out = Some(dir.path().join(format!("run-{mode}")));
        finish(&args).unwrap();
        let run = args.out.unwrap();
        let [hf, sparse] = ["hf", "sparse"].map(|to| dir.path().join(format!("{to}-{mode}")));
        let original = load(&run);
        assert_eq!(original.config.model.mode, mode);

        converted(&run, &hf, &[]);
        let back = load(&hf);
        assert_eq!(back.warnings, []);
        for (a, b) in MlpMatrix::of_model(&original.model)
            .iter()
            .zip(MlpMatrix::of_model(&back.model))
        {
            assert_eq!(a.to_dense(), b.to_dense(), "{mode}: {}", a.name());
        }
        let not_mlp = |model| {
            let mut bits = bits(model);
            bits.retain(|(path, _)| !path.contains("mlp") || path.ends_with("bias"));
            bits.into_iter().map(|(_, bits)| bits).collect::<Vec<_>>()
        };
        assert_eq!(not_mlp(&original.model), not_mlp(&back.model), "{mode}");
        let tokens = Tensor::<2, Int>::from_data([[1, 200, 3, 10]], &device());
        back.model
            .forward(tokens.clone())
            .into_data()
            .assert_approx_eq::<f32>(
                &original.model.forward(tokens).into_data(),
                Tolerance::absolute(1e-5),
            );

        if mode != MlpMode::Dense {
            converted(&run, &sparse, &["--format", "sparse"]);
            let back = load(&sparse);
            for (a, b) in MlpMatrix::of_model(&original.model)
                .iter()
                .zip(MlpMatrix::of_model(&back.model))
            {
                assert_eq!(a.as_sparse(), b.as_sparse(), "{mode}: {}", a.name());
            }
        }
    }
}

#[test]
fn runs_can_be_pruned_and_densified() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.steps = Some(2);
    finish(&args).unwrap();
    let run = dir.path().join("run");
    let [pruned, dense] = ["pruned", "dense"].map(|to| dir.path().join(to));
    let checkpoint = run.join("checkpoint.bpk");
    converted(
        &checkpoint,
        &pruned,
        &["--sparsity", "0.9", "--format", "sparse"],
    );
    converted(&run, &dense, &["--mode", "dense"]);

    let pruned = load(&pruned).model;
    let counts: Vec<_> = pruned.mlp_layers().map(MlpLinear::stored).collect();
    assert_eq!(counts, [102; 4]);
    let matrices = MlpMatrix::of_model(&load(&run).model);
    for (a, b) in MlpMatrix::of_model(&load(&dense).model)
        .iter()
        .zip(matrices)
    {
        assert_eq!(a.to_dense(), b.to_dense());
    }
}

#[test]
fn smaller_types_round_every_weight() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Fixture::new();
    fixture.write(dir.path());
    for format in ["hf", "sparse"] {
        let to = dir.path().join(format);
        converted(
            dir.path(),
            &to,
            &["--mode", "sparse", "--format", format, "--dtype", "bf16"],
        );
        let matrices = MlpMatrix::of_model(&load(&to).model);
        let expected = fixture.values("h.0.mlp.c_fc.weight");
        let expected: Vec<f32> = expected
            .iter()
            .map(|&value| bf16::from_f32(value).to_f32())
            .collect();
        assert_eq!(matrices[0].to_dense(), expected, "{format}");
    }
    let tensors = read_tensors(&dir.path().join("hf/model.safetensors"));
    assert!(
        tensors
            .values()
            .all(|(dtype, _, _): &Stored| *dtype == Dtype::BF16)
    );
}

/// Runs the reader in Python, where its two packages are installed.
#[test]
fn the_python_script_reads_what_was_written() {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scripts/read_sparse_checkpoint.py"
    );
    let python = |args: &[&str]| Command::new("python3").args(args).output();
    match python(&["-c", "import numpy, safetensors"]) {
        Ok(output) if output.status.success() => {}
        _ => {
            println!("skipped: no python3 with numpy and safetensors");
            return;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    for dtype in ["f32", "bf16"] {
        let [sparse, dense] =
            ["sparse", "dense"].map(|to| dir.path().join(format!("{to}-{dtype}")));
        let flags = ["--sparsity", "0.6", "--dtype", dtype];
        converted(dir.path(), &dense, &flags);
        converted(
            dir.path(),
            &sparse,
            &[&flags[..], &["--format", "sparse"]].concat(),
        );
        let output = dir.path().join(format!("{dtype}.safetensors"));
        let read = python(&[
            script,
            sparse.to_str().unwrap(),
            "--dense",
            output.to_str().unwrap(),
        ]);
        let read = read.unwrap();
        assert!(
            read.status.success(),
            "{}",
            String::from_utf8_lossy(&read.stderr)
        );

        let numbers = |(dtype, shape, bytes): &Stored| {
            let values: Vec<f32> = match dtype {
                Dtype::BF16 => {
                    let (words, _) = bytes.as_chunks::<2>();
                    words
                        .iter()
                        .map(|word| bf16::from_le_bytes(*word).to_f32())
                        .collect()
                }
                _ => floats(&(*dtype, shape.clone(), bytes.clone())),
            };
            (shape.clone(), values)
        };
        let found = read_tensors(&output);
        let expected = read_tensors(&dense.join("model.safetensors"));
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>()
        );
        for (name, tensor) in &expected {
            assert_eq!(numbers(&found[name]), numbers(tensor), "{dtype}: {name}");
        }
    }
}
