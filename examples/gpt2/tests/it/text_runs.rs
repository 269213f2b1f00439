//! Training runs on GPT-2 tokens and on texts of all kinds.

use crate::support::{finish, log_lines, tiny};
use gpt2::{Args, Gpt2Error, Interrupt, Outcome, RunState, Tokenizer, TrainOptions};
use snack_burn::prelude::Checkpoint;
use std::{fs, path::Path};

/// A run on GPT-2 tokens; its embeddings are small, but of 50257 tokens.
fn gpt2_tokens(dir: &Path) -> Args {
    Args {
        tokenizer: Some(Tokenizer::Gpt2),
        width: Some(4),
        layers: Some(1),
        batch: Some(2),
        steps: Some(4),
        sparsity: Some(0.5),
        ..tiny(dir)
    }
}

fn state(dir: &Path) -> RunState {
    let path = dir.join("run/checkpoint.bpk");
    RunState::from_value(&Checkpoint::load(&path).unwrap().user, &path).unwrap()
}

#[test]
fn a_run_on_gpt2_tokens_counts_tokens_and_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let args = gpt2_tokens(dir.path());
    let Outcome::Finished { summary, .. } = finish(&args).unwrap() else {
        panic!("nothing asked to stop");
    };

    let table = summary.to_string();
    assert!(
        table.contains("nats per token") && table.contains("per token\n"),
        "{table}"
    );
    assert!(!table.contains("byte\n"), "{table}");
    // An untrained model of 50257 tokens.
    let lines = log_lines(dir.path());
    assert!(
        (lines[0].loss - 50257_f64.ln()).abs() < 0.2,
        "{:?}",
        lines[0]
    );

    let state = state(dir.path());
    assert_eq!(state.options.model.vocabulary, 50257);
    assert!(state.corpus.text.tokens < state.corpus.text.bytes);
    let cached = fs::read_dir(dir.path().join("tokens")).unwrap();
    assert_eq!(cached.count(), 1);
}

#[test]
fn bytes_stay_nats_per_byte() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.steps = Some(2);
    let Outcome::Finished { summary, .. } = finish(&args).unwrap() else {
        panic!("nothing asked to stop");
    };
    let table = summary.to_string();
    assert!(
        table.contains("nats per byte") && table.contains("tokens (bytes) seen"),
        "{table}"
    );
}

#[test]
fn another_tokenizer_does_not_resume() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.steps = Some(2);
    finish(&args).unwrap();
    args.resume = true;
    args.tokenizer = Some(Tokenizer::Gpt2);

    let message = finish(&args).unwrap_err().to_string();
    assert!(
        message
            .contains("--tokenizer is gpt2, but the checkpoint was written with --tokenizer bytes"),
        "{message}"
    );
}

#[test]
fn a_model_of_another_vocabulary_is_refused_before_anything_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.steps = Some(2);
    finish(&args).unwrap();
    let path = dir.path().join("run/checkpoint.bpk");
    let mut checkpoint = Checkpoint::load(&path).unwrap();
    checkpoint.user["options"]["model"]["vocabulary"] = 50257.into();
    checkpoint.save(&path).unwrap();

    args.resume = true;
    args.text = vec![dir.path().join("absent.txt")];
    let error = finish(&args).unwrap_err();
    assert!(matches!(
        error,
        Gpt2Error::VocabularyMismatch {
            vocabulary: 50257,
            ..
        }
    ));
    assert_eq!(
        error.to_string(),
        "the tokenizer bytes has 256 tokens, but the model has 50257; models of 256 tokens go \
         with --tokenizer bytes, of 50257 with --tokenizer gpt2, no others"
    );
}

#[test]
fn a_text_of_its_own_is_held_out() {
    let dir = tempfile::tempdir().unwrap();
    let valid = dir.path().join("valid.txt");
    fs::write(
        &valid,
        "to be or not to be, that is the question\n".repeat(3),
    )
    .unwrap();
    let mut args = tiny(dir.path());
    args.steps = Some(2);
    args.valid = vec![valid.clone()];
    finish(&args).unwrap();
    let id = state(dir.path()).corpus.valid.unwrap();
    assert_eq!(id.bytes, 123);

    args.resume = true;
    args.steps = Some(3);
    args.valid = Vec::new();
    finish(&args).unwrap();

    fs::write(&valid, "another text, long enough for a window").unwrap();
    let message = finish(&args).unwrap_err().to_string();
    assert!(
        message.contains("--valid is") && message.contains("valid.txt (38 bytes"),
        "{message}"
    );
}

#[test]
fn a_held_out_text_that_is_too_short_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let valid = dir.path().join("valid.txt");
    fs::write(&valid, "to be or not").unwrap();
    let mut args = tiny(dir.path());
    args.valid = vec![valid];

    let message = finish(&args).unwrap_err().to_string();
    assert!(message.contains("valid.txt is too short"), "{message}");
    assert!(
        message.contains("its held-out part has 12 of 12 bytes, but must have at least 17"),
        "{message}"
    );
    assert!(!dir.path().join("run").exists());

    let message = finish(&Args {
        context: Some(5000),
        ..gpt2_tokens(dir.path())
    })
    .unwrap_err()
    .to_string();
    assert!(
        message.contains("5001 (one window of --context 5000 tokens"),
        "{message}"
    );
}

#[test]
fn a_text_that_is_not_utf8_stops_a_run_on_gpt2_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("latin1.txt");
    fs::write(&path, b"caf\xe9 ".repeat(200)).unwrap();
    let mut args = gpt2_tokens(dir.path());
    args.text = vec![path];

    let message = finish(&args).unwrap_err().to_string();
    assert!(
        message.contains("latin1.txt is not UTF-8: byte 3 is 0xe9"),
        "{message}"
    );
    assert!(!dir.path().join("run").exists());
    args.tokenizer = None;
    finish(&args).unwrap();
}

#[test]
fn the_folder_and_the_joined_file_are_one_text() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.steps = Some(2);
    let whole = fs::read(&args.text[0]).unwrap();
    finish(&args).unwrap();

    let parts = dir.path().join("parts");
    fs::create_dir(&parts).unwrap();
    fs::write(parts.join("1.txt"), &whole[..1000]).unwrap();
    fs::write(parts.join("2.txt"), &whole[1000..]).unwrap();
    args.resume = true;
    args.steps = Some(4);
    args.text = vec![parts.join("2.txt"), parts.join("1.txt")];
    finish(&args).unwrap();
    args.text = vec![parts];
    finish(&args).unwrap();
}

#[test]
fn windows_go_on_where_another_batch_left_off() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    gpt2::run(&args, &Interrupt::after_step(10)).unwrap();
    args.resume = true;
    args.batch = Some(2);
    finish(&args).unwrap();

    let counters = state(dir.path()).counters;
    assert_eq!(counters.tokens, (10 * 4 + 30 * 2) * 16);
    assert_eq!(TrainOptions::default().tokenizer, Tokenizer::Bytes);
}
