//! `gpt2_dst --init`: runs that start from weights.

use crate::{
    fixture::Fixture,
    support::{bits, device, finish, log_lines, random_stream, tiny},
};
use clap::Parser;
use gpt2::{
    Args, LoadOptions, MlpLinear, MlpMode, PruneScope, SaveOptions, WeightFormat, load_pretrained,
    save_pretrained,
};
use serde_json::json;
use std::{fs, path::Path};

/// Options of a short run from the weights in `dir/hf`, whose sizes come from there.
fn args(dir: &Path) -> Args {
    let init = dir.join("hf");
    Fixture::with_sizes(256, 16).write(&init);
    Args {
        layers: None,
        width: None,
        heads: None,
        context: None,
        sparsity: None,
        mode: None,
        steps: Some(12),
        init: Some(init),
        ..tiny(dir)
    }
}

/// The same with weights whose `config.json` has a dropout.
fn args_with_dropout(dir: &Path) -> Args {
    let args = args(dir);
    let mut fixture = Fixture::with_sizes(256, 16);
    fixture.config["attn_pdrop"] = json!(0.1);
    fixture.write(&dir.join("hf"));
    args
}

fn stored(run: &Path) -> Vec<usize> {
    let model = load_pretrained(run, &LoadOptions::default(), &device())
        .unwrap()
        .model;
    model.mlp_layers().map(MlpLinear::stored).collect()
}

#[test]
fn sizes_come_from_the_files_and_weights_are_pruned() {
    let dir = tempfile::tempdir().unwrap();
    let args = args_with_dropout(dir.path());
    let _stream = random_stream();
    finish(&args).unwrap();

    let run = dir.path().join("run");
    let pretrained = load_pretrained(&run, &LoadOptions::default(), &device()).unwrap();
    let model = pretrained.config.model;
    let sizes = [model.layers, model.width, model.heads, model.context];
    assert_eq!(sizes, [2, 4, 2, 16]);
    assert_eq!((model.mode, model.sparsity), (MlpMode::Sparse, 0.9));
    assert_eq!(model.dropouts(), [0.0, 0.1, 0.0]);
    assert_eq!(stored(&run), [6; 4]);
    let last = log_lines(dir.path()).pop().unwrap();
    assert_eq!(last.step, 12);
    assert!(last.loss.is_finite());
}

#[test]
fn the_first_step_starts_from_the_weights() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = args_with_dropout(dir.path());
    args.mode = Some(MlpMode::Dense);
    args.update_every = None;
    args.steps = Some(1);
    args.learning_rate = Some(1e-12);
    args.dropout = Some(0.0);
    finish(&args).unwrap();

    let load = |path: &Path| load_pretrained(path, &LoadOptions::default(), &device()).unwrap();
    let after = load(&dir.path().join("run"));
    assert_eq!(after.config.model.dropouts(), [0.0; 3]);
    let before = load(&dir.path().join("hf"));
    for ((path, before), (_, after)) in bits(&before.model).iter().zip(bits(&after.model)) {
        for (&before, after) in before.iter().zip(after) {
            let [before, after] = [before, after].map(|bits| f32::from_bits(bits as u32));
            assert!(
                (before - after).abs() < 1e-6,
                "{path}: {before} became {after}"
            );
        }
    }
}

#[test]
fn all_matrices_can_compete_for_the_weights() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = args(dir.path());
    args.sparsity = Some(0.5);
    args.scope = Some(PruneScope::Global);
    finish(&args).unwrap();
    assert_eq!(stored(&dir.path().join("run")).iter().sum::<usize>(), 128);
}

#[test]
fn sparse_weights_keep_their_pattern() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = args(dir.path());
    let options = LoadOptions {
        mode: Some(MlpMode::Sparse),
        pruning: Some(gpt2::MagnitudePruning {
            sparsity: 0.75,
            scope: PruneScope::Global,
        }),
        ..Default::default()
    };
    let hf = dir.path().join("hf");
    let pretrained = load_pretrained(&hf, &options, &device()).unwrap();
    let counts: Vec<_> = pretrained
        .model
        .mlp_layers()
        .map(MlpLinear::stored)
        .collect();
    let sparse = dir.path().join("sparse");
    let save = SaveOptions {
        format: WeightFormat::Sparse,
        ..Default::default()
    };
    save_pretrained(&pretrained.model, &pretrained.config, &sparse, &save).unwrap();

    args.init = Some(sparse);
    args.update_every = None;
    args.method = Some(snack_burn::dst::Preset::Static);
    finish(&args).unwrap();
    assert_eq!(stored(&dir.path().join("run")), counts);
}

#[test]
fn matrices_that_pruning_empties_train_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = args(dir.path());
    let hf = dir.path().join("hf");
    let mut fixture = Fixture::with_sizes(256, 16);
    fixture.set("h.1.mlp.c_fc.weight", &[4, 16], &[1e-6; 64]);
    fixture.write(&hf);
    args.sparsity = Some(0.9);
    args.scope = Some(PruneScope::Global);
    finish(&args).unwrap();

    let counts = stored(&dir.path().join("run"));
    assert_eq!(counts.iter().sum::<usize>(), 26, "{counts:?}");
    assert_eq!(counts[2], 0);
}

#[test]
fn a_run_can_start_from_another_run() {
    let dir = tempfile::tempdir().unwrap();
    let first = tiny(dir.path());
    finish(&first).unwrap();
    let run = dir.path().join("run");
    let next = Args {
        layers: None,
        width: None,
        heads: None,
        context: None,
        sparsity: None,
        init: Some(run.clone()),
        out: Some(dir.path().join("next")),
        steps: Some(1),
        learning_rate: Some(1e-12),
        ..first
    };
    finish(&next).unwrap();
    let load = |path: &Path| load_pretrained(path, &LoadOptions::default(), &device()).unwrap();
    let patterns = |path: &Path| {
        let mut bits = bits(&load(path).model);
        bits.retain(|(path, _)| path.ends_with("pattern"));
        bits
    };
    assert_eq!(patterns(&dir.path().join("next")), patterns(&run));
    assert_eq!(load(&run).config.model.sparsity, 0.8);
}

#[test]
fn such_a_run_resumes_as_if_it_had_never_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let whole = args_with_dropout(dir.path());
    let _stream = random_stream();
    finish(&whole).unwrap();
    let load = |path: &Path| load_pretrained(path, &LoadOptions::default(), &device()).unwrap();
    let expected = bits(&load(&dir.path().join("run")).model);

    let out = Some(dir.path().join("parts"));
    let interrupt = gpt2::Interrupt::after_step(7);
    gpt2::run(
        &Args {
            out: out.clone(),
            ..whole.clone()
        },
        &interrupt,
    )
    .unwrap();
    // The weights are in the checkpoint by now.
    fs::remove_dir_all(dir.path().join("hf")).unwrap();
    finish(&Args {
        resume: true,
        out,
        quiet: true,
        ..Args::default()
    })
    .unwrap();
    assert_eq!(bits(&load(&dir.path().join("parts")).model), expected);
}

#[test]
fn flags_that_the_weights_contradict_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let base = args(dir.path());
    let init = base.init.as_ref().unwrap().display().to_string();
    let sizes = |flag: &str, given, found| {
        format!("{flag} is {given}, but must be {found} or left out: --init {init} has that size")
    };
    let cases = [
        (
            Args {
                layers: Some(3),
                ..base.clone()
            },
            sizes("--layers", 3, 2),
        ),
        (
            Args {
                width: Some(8),
                ..base.clone()
            },
            sizes("--width", 8, 4),
        ),
        (
            Args {
                heads: Some(1),
                ..base.clone()
            },
            sizes("--heads", 1, 2),
        ),
        (
            Args {
                context: Some(8),
                ..base.clone()
            },
            sizes("--context", 8, 16),
        ),
        (
            Args {
                mode: Some(MlpMode::Dense),
                sparsity: Some(0.5),
                update_every: None,
                ..base.clone()
            },
            "--sparsity is 0.5, but must be left out with --mode dense, where all weights exist"
                .into(),
        ),
        (
            Args {
                mode: Some(MlpMode::Dense),
                scope: Some(PruneScope::Global),
                update_every: None,
                ..base.clone()
            },
            "--scope is global, but must be left out where nothing is pruned; give --sparsity"
                .into(),
        ),
    ];
    for (args, expected) in cases {
        assert_eq!(finish(&args).unwrap_err().to_string(), expected);
        assert!(!dir.path().join("run").exists());
    }
    finish(&Args {
        layers: Some(2),
        width: Some(4),
        heads: Some(2),
        context: Some(16),
        ..base
    })
    .unwrap();
}

#[test]
fn weights_that_cannot_be_used_leave_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let args = args(dir.path());
    let hf = dir.path().join("hf");
    let message = || {
        let message = finish(&args).unwrap_err().to_string();
        assert!(!dir.path().join("run").exists());
        message
    };
    Fixture::new().write(&hf);
    assert!(message().contains("the tokenizer bytes has 256 tokens, but the model has 11"));

    let mut fixture = Fixture::with_sizes(256, 16);
    fixture.set("ln_f.bias", &[5], &[0.0; 5]);
    fixture.write(&hf);
    assert!(message().contains("ln_f.bias has shape [5], but must have [4]"));
    fs::remove_dir_all(&hf).unwrap();
    assert!(message().contains("cannot read"));
}

#[test]
fn a_resumed_run_takes_no_other_weights() {
    let parse = |flags: &[&str]| {
        let flags = ["gpt2_dst"].iter().chain(flags);
        Args::try_parse_from(flags).unwrap_err().exit_code()
    };
    assert_eq!(parse(&["--resume", "--init", "x"]), 2);
    assert_eq!(parse(&["--scope", "global"]), 2);
}

#[test]
fn weights_that_are_no_numbers_are_nothing_to_start_from() {
    let dir = tempfile::tempdir().unwrap();
    let args = args(dir.path());
    let mut fixture = Fixture::with_sizes(256, 16);
    fixture.set("ln_f.bias", &[4], &[0.0, f32::NAN, f32::INFINITY, -1.0]);
    fixture.write(&dir.path().join("hf"));

    let file = dir.path().join("hf/model.safetensors");
    let refused = |start: &str| {
        let message = finish(&args).unwrap_err().to_string();
        let start = format!("{start} in {} ", file.display());
        let rest = message.strip_prefix(&start).expect(&message).to_owned();
        assert!(!dir.path().join("run").exists());
        rest
    };
    let rest = refused("2 of the 4 elements of ln_f.bias");
    assert!(rest.starts_with("are infinite or not a number"), "{rest}");

    fixture.set("ln_f.bias", &[4], &[0.0, f32::NAN, 1.0, -1.0]);
    fixture.write(&dir.path().join("hf"));
    let rest = refused("1 of the 4 elements of ln_f.bias");
    assert!(rest.starts_with("is infinite or not a number"), "{rest}");
}
