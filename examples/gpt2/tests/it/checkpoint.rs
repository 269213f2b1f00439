use crate::support::{device, finish, tiny};
use burn::{module::Module, nn::LinearConfig, optim::AdamWConfig};
use gpt2::{Args, MlpMode};
use snack_burn::prelude::{Checkpoint, DstState};
use std::{fs, path::Path};

/// A finished run of two steps.
fn run(dir: &Path) -> Args {
    let mut args = tiny(dir);
    args.steps = Some(2);
    finish(&args).unwrap();
    args.resume = true;
    args
}

/// The error of `args`, which must leave both files as they were.
fn message(args: &Args) -> String {
    let out = args.out.as_ref().unwrap();
    let files = || ["checkpoint.bpk", "log.jsonl"].map(|file| fs::read(out.join(file)).ok());
    let before = files();
    let message = finish(args).unwrap_err().to_string();
    assert_eq!(
        files(),
        before,
        "an error must not touch the run: {message}"
    );
    message
}

#[test]
fn other_model_flags_are_refused_with_both_values() {
    let dir = tempfile::tempdir().unwrap();
    let args = run(dir.path());
    let cases = [
        (
            Args {
                width: Some(32),
                ..args.clone()
            },
            "--width is 32, but the checkpoint was written with --width 16",
        ),
        (
            Args {
                sparsity: Some(0.5),
                ..args.clone()
            },
            "--sparsity is 0.5, but the checkpoint was written with --sparsity 0.8",
        ),
        (
            Args {
                mode: Some(MlpMode::Dense),
                ..args.clone()
            },
            "--mode is dense, but the checkpoint was written with --mode sparse",
        ),
        (
            Args {
                seed: Some(9),
                ..args.clone()
            },
            "--seed is 9, but the checkpoint was written with --seed 42",
        ),
        (
            Args {
                steps: Some(1),
                ..args.clone()
            },
            "--steps is 1, but must be at least 2, the steps already done",
        ),
    ];
    for (args, expected) in cases {
        let message = message(&args);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn another_text_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = run(dir.path());
    let other = dir.path().join("other.txt");
    fs::write(&other, [b'x'; 1000]).unwrap();
    args.text = vec![other];

    let message = message(&args);
    assert!(message.contains("--text is"), "{message}");
    assert!(message.contains("other.txt (1000 bytes"), "{message}");
    assert!(message.contains("text.txt ("), "{message}");
}

#[test]
fn a_missing_checkpoint_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.resume = true;

    let message = message(&args);
    assert!(
        message.contains("nothing to resume: there is no"),
        "{message}"
    );
    assert!(message.contains("checkpoint.bpk"), "{message}");
    assert!(!dir.path().join("run").exists());
}

#[test]
fn damaged_checkpoints_are_errors_at_any_length() {
    let dir = tempfile::tempdir().unwrap();
    let args = run(dir.path());
    let path = args.out.as_ref().unwrap().join("checkpoint.bpk");
    let whole = fs::read(&path).unwrap();

    let cuts = [
        0,
        1,
        8,
        100,
        whole.len() / 3,
        whole.len() / 2,
        whole.len() - 1,
    ];
    for cut in cuts {
        fs::write(&path, &whole[..cut]).unwrap();
        let message = message(&args);
        assert!(message.contains("checkpoint.bpk"), "{cut} bytes: {message}");
    }
    fs::write(&path, b"this is a text, not a checkpoint").unwrap();
    assert!(message(&args).contains("checkpoint.bpk"));

    fs::write(&path, &whole).unwrap();
    finish(&args).unwrap();
}

#[test]
fn checkpoints_of_other_programs_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let args = run(dir.path());
    Checkpoint {
        model: LinearConfig::new(2, 2).init(&device()).into_record(),
        optimizer: AdamWConfig::new().init().to_record(),
        dst: DstState::default(),
        user: serde_json::json!({"epoch": 3}),
    }
    .save(args.out.as_ref().unwrap().join("checkpoint.bpk"))
    .unwrap();

    let message = message(&args);
    assert!(
        message.contains("was not written by this example"),
        "{message}"
    );
}

#[test]
fn a_model_that_does_not_fit_its_own_options_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let args = run(dir.path());
    let path = args.out.as_ref().unwrap().join("checkpoint.bpk");
    let mut checkpoint = Checkpoint::load(&path).unwrap();
    checkpoint.model = LinearConfig::new(2, 2).init(&device()).into_record();
    checkpoint.save(&path).unwrap();

    let message = message(&args);
    assert!(
        message.contains("was not written by this example"),
        "{message}"
    );
}

#[test]
fn a_damaged_log_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    finish(&args).unwrap();
    args.resume = true;
    let path = dir.path().join("run/log.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\n{", "\n", 1)).unwrap();

    let message = message(&args);
    assert!(
        message.contains("log.jsonl is damaged in line 2"),
        "{message}"
    );
}
