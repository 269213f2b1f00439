//! Writing weights, and the command `gpt2_convert`.

use crate::{
    fixture::{Fixture, Stored, floats, integers, read_tensors},
    support::{bits, device, finish, tiny},
};
use burn::tensor::{Int, Tensor, Tolerance};
use clap::{CommandFactory, Parser};
use gpt2::{
    ConvertArgs, HfConfig, LoadOptions, MlpLinear, MlpMatrix, MlpMode, Pretrained, SaveOptions,
    StorageReport, WeightDtype, convert, load_pretrained, save_pretrained,
};
use half::bf16;
use safetensors::Dtype;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn load(path: &Path) -> Pretrained {
    load_pretrained(path, &LoadOptions::default(), &device()).unwrap()
}

/// Converts with these further flags.
fn try_convert(from: &Path, to: &Path, flags: &[&str]) -> Result<(), String> {
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let args = ["gpt2_convert", "--quiet", "--from", from, "--to", to];
    let args = ConvertArgs::try_parse_from(args.iter().chain(flags)).unwrap();
    convert(&args).map_err(|error| error.to_string())
}

fn converted(from: &Path, to: &Path, flags: &[&str]) {
    try_convert(from, to, flags).unwrap();
}

/// File names and contents of a folder.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().into(), fs::read(&path).unwrap()))
        .collect()
}

fn names(dir: &Path) -> Vec<String> {
    let names = contents(dir).into_keys();
    names
        .map(|name| name.to_str().unwrap().to_owned())
        .collect()
}

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

#[test]
fn weights_too_large_for_the_type_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new();
    fixture.set("ln_f.bias", &[4], &[65504.0, 65520.0, -1e5, f32::INFINITY]);
    fixture.write(dir.path());
    let to = dir.path().join("to");
    let message = try_convert(dir.path(), &to, &["--dtype", "f16"]).unwrap_err();
    assert_eq!(
        message,
        "2 weights of transformer.ln_f.bias are too large for f16 and would become infinite; \
         choose bf16 or f32"
    );
    assert!(!to.exists(), "an error must not leave files");
    converted(dir.path(), &to, &["--dtype", "bf16"]);
}

#[test]
fn folders_with_content_are_kept_unless_told_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    let to = dir.path().join("to");
    fs::create_dir(&to).unwrap();
    fs::write(to.join("notes.txt"), b"mine").unwrap();
    let before = contents(&to);

    let message = try_convert(dir.path(), &to, &[]).unwrap_err();
    assert!(
        message.contains("is not empty; use --overwrite"),
        "{message}"
    );
    assert_eq!(contents(&to), before);

    converted(dir.path(), &to, &["--overwrite"]);
    assert_eq!(
        names(&to),
        ["config.json", "model.safetensors", "notes.txt"]
    );
    // The other layout takes the place of the first, also where source and result are one folder.
    converted(
        &to,
        &to,
        &["--overwrite", "--sparsity", "0.5", "--format", "sparse"],
    );
    assert_eq!(
        names(&to),
        ["config.json", "model.sparse.safetensors", "notes.txt"]
    );
    converted(&to, &to, &["--overwrite"]);
    assert_eq!(
        names(&to),
        ["config.json", "model.safetensors", "notes.txt"]
    );
}

#[test]
fn a_failure_leaves_the_folder_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new();
    fixture.write(dir.path());
    let to = dir.path().join("to");
    converted(dir.path(), &to, &[]);
    let before = contents(&to);

    fixture.set("wte.weight", &[11, 4], &[1e38; 44]);
    fixture.write(dir.path());
    try_convert(dir.path(), &to, &["--overwrite", "--dtype", "f16"]).unwrap_err();
    assert_eq!(contents(&to), before);

    let pretrained = load(dir.path());
    let options = SaveOptions {
        overwrite: true,
        companions: vec![dir.path().join("absent.json")],
        ..Default::default()
    };
    let error = save_pretrained(&pretrained.model, &pretrained.config, &to, &options);
    assert!(error.unwrap_err().to_string().starts_with("cannot copy"));
    assert_eq!(contents(&to), before);

    let file = dir.path().join("file");
    fs::write(&file, b"x").unwrap();
    let message = try_convert(dir.path(), &file, &["--overwrite"]).unwrap_err();
    assert!(message.starts_with("cannot use the folder"), "{message}");
}

#[cfg(unix)]
#[test]
fn files_are_as_readable_as_those_of_other_programs() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    let to = dir.path().join("to");
    converted(dir.path(), &to, &[]);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode();
    let expected = mode(dir.path().join("config.json"));
    for name in ["config.json", "model.safetensors"] {
        assert_eq!(mode(to.join(name)), expected, "{name}");
    }
}

#[test]
fn the_files_of_the_tokenizer_come_along() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    for name in ["vocab.json", "merges.txt", "notes.txt"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    let to = dir.path().join("to");
    converted(dir.path(), &to, &[]);
    assert_eq!(
        names(&to),
        [
            "config.json",
            "merges.txt",
            "model.safetensors",
            "vocab.json"
        ]
    );
    assert_eq!(fs::read(to.join("merges.txt")).unwrap(), b"merges.txt");
}

#[test]
fn the_report_counts_weights_and_bytes() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    let to = dir.path().join("to");
    converted(
        dir.path(),
        &to,
        &["--sparsity", "0.75", "--format", "sparse", "--dtype", "f16"],
    );
    let Pretrained { model, config, .. } = load(&to);
    let report = StorageReport::new(&model, &config, WeightDtype::F16);

    let value = serde_json::to_value(&report).unwrap();
    assert_eq!(
        value["matrices"][1],
        json!({
            "name": "h.0.mlp.c_proj.weight",
            "shape": [4, 16],
            "size": 64,
            "nnz": 16,
            "density": 0.25,
            "value_bytes": 32,
            "index_bytes": 4 * (16 + 5 + 2),
            "dense_bytes": 128,
        })
    );
    assert_eq!(value["total"]["nnz"], 64);
    assert_eq!(value["total"]["dense_bytes"], 512);
    // The bytes are those in the file.
    let size = |(_, _, bytes): &Stored| bytes.len();
    let file: usize = read_tensors(&to.join("model.sparse.safetensors"))
        .values()
        .map(size)
        .sum();
    let total = report.total.value_bytes + report.total.index_bytes + report.other_bytes;
    assert_eq!(file, total);

    let text = report.to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 7);
    let expected = "h.0.mlp.c_proj.weight           4 x 16            16   0.2500             32             92            128";
    assert_eq!(lines[2], expected);
}

#[test]
fn options_without_effect_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    let to = dir.path().join("to");
    let message = |flags| try_convert(dir.path(), &to, flags).unwrap_err();
    assert_eq!(
        message(&["--format", "sparse"]),
        "--format is sparse, but must be hf for dense layers; add --mode sparse or --sparsity"
    );
    assert_eq!(
        message(&["--mode", "dense", "--sparsity", "0.5"]),
        "--sparsity is 0.5, but must be left out with --mode dense, where all weights exist"
    );
    assert!(message(&["--sparsity", "-1"]).starts_with("--sparsity is -1, but must be"));
    assert!(!to.exists());

    let parse = |flags: &[&str]| {
        let flags = ["gpt2_convert"].iter().chain(flags);
        ConvertArgs::try_parse_from(flags).unwrap_err().exit_code()
    };
    assert_eq!(parse(&["--from", "x"]), 2);
    assert_eq!(parse(&["--to", "x"]), 2);
    assert_eq!(parse(&["--from", "x", "--to", "y", "--scope", "global"]), 2);
    assert_eq!(parse(&["--from", "x", "--report", "--overwrite"]), 2);
    assert_eq!(parse(&["--from", "x", "--to", "y", "--dtype", "f64"]), 2);
    ConvertArgs::command().debug_assert();
}

/// The path of a program of this example, if it was built beside this binary.
fn program(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let program = own.ancestors().nth(2).unwrap().join("examples").join(name);
    if !program.exists() {
        println!("skipped: {} was not built", program.display());
    }
    program.exists().then_some(program)
}

#[test]
fn the_program_reports_in_json_and_by_exit_code() {
    let Some(program) = program("gpt2_convert") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    let run = |flags: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("--from").arg(dir.path()).args(flags);
        command.output().unwrap()
    };
    let report = run(&["--report=json", "--sparsity", "0.5"]);
    assert_eq!(report.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["total"]["nnz"], 128);
    let table = run(&["--report"]);
    assert!(
        String::from_utf8(table.stdout)
            .unwrap()
            .contains("all MLP matrices")
    );

    assert_eq!(run(&["--report", "--sparsity", "2"]).status.code(), Some(2));
    assert_eq!(run(&[]).status.code(), Some(2));
    fs::write(dir.path().join("model.safetensors"), b"damaged").unwrap();
    let damaged = run(&["--report"]);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(
        String::from_utf8(damaged.stderr)
            .unwrap()
            .starts_with("error: ")
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
