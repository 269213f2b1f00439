//! The command `gpt2_convert`: folders, options, reports and exit codes.

use crate::{
    convert_support::{contents, converted, load, names, try_convert},
    fixture::{Fixture, Stored, read_tensors},
    support::bits,
};
use clap::{CommandFactory, Parser};
use gpt2::{ConvertArgs, Pretrained, SaveOptions, StorageReport, WeightDtype, save_pretrained};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

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

#[test]
fn weights_are_never_left_with_the_configuration_of_others() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    let to = dir.path().join("to");
    converted(dir.path(), &to, &[]);
    fs::remove_file(to.join("config.json")).unwrap();
    fs::create_dir(to.join("config.json")).unwrap();
    fs::write(to.join("config.json/inside"), b"mine").unwrap();
    let before = contents(&to);

    for flags in [&["--overwrite"][..], &["--overwrite", "--dtype", "bf16"]] {
        let message = try_convert(dir.path(), &to, flags).unwrap_err();
        let expected = format!("cannot write {}: ", to.join("config.json").display());
        assert!(message.starts_with(&expected), "{message}");
        assert_eq!(contents(&to), before);
        assert_eq!(fs::read(to.join("config.json/inside")).unwrap(), b"mine");
        assert_eq!(fs::read_dir(&to).unwrap().count(), 2);
    }
}

#[test]
fn weights_that_a_killed_command_put_aside_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    let before = contents(dir.path());
    let logits = |path: &Path| bits(&load(path).model);
    let expected = logits(dir.path());
    // The old weights are aside, and new ones of another model have their name.
    let old = dir.path().join(".gpt2-convert-a1B2c3.tmp/undo/old");
    fs::create_dir_all(&old).unwrap();
    fs::rename(
        dir.path().join("model.safetensors"),
        old.join("model.safetensors"),
    )
    .unwrap();
    fs::write(dir.path().join("model.safetensors"), b"other").unwrap();

    assert_eq!(logits(dir.path()), expected);
    assert_eq!(contents(dir.path()), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before.len());
}

#[test]
fn what_killed_commands_left_is_no_content_and_goes() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    let to = dir.path().join("to");
    let leave = |name: &str| {
        let folder = to.join(name);
        fs::create_dir_all(&folder).unwrap();
        for file in ["lock", "model.safetensors", ".tmpx1Y2z3"] {
            fs::write(folder.join(file), b"not complete").unwrap();
        }
        folder
    };
    let leftover = leave(".gpt2-convert-a1B2c3.tmp");
    converted(dir.path(), &to, &[]);
    assert_eq!(names(&to), ["config.json", "model.safetensors"]);
    assert_eq!(fs::read_dir(&to).unwrap().count(), 2);

    let foreign = leave(".gpt2-convert-notes.tmp");
    leave(".gpt2-convert-a1B2c3.tmp");
    converted(dir.path(), &to, &["--overwrite"]);
    assert!(foreign.join("lock").exists() && !leftover.exists());

    fs::remove_file(to.join("config.json")).unwrap();
    fs::remove_file(to.join("model.safetensors")).unwrap();
    let message = try_convert(dir.path(), &to, &[]).unwrap_err();
    assert!(message.contains("is not empty"), "{message}");
}

#[test]
fn files_that_cannot_be_written_are_named_as_they_would_be() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    let to = dir.path().join("to");
    let target = to.join("model.safetensors");
    fs::create_dir_all(target.join("inner")).unwrap();
    let message = try_convert(dir.path(), &to, &["--overwrite"]).unwrap_err();
    let start = format!("cannot write {}: ", target.display());
    let reason = message.strip_prefix(&start).unwrap();
    assert!(!reason.contains("path") && !reason.contains(".tmp"));
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
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
