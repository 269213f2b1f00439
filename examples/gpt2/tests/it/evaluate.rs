//! `gpt2_eval`, as a program and through its parts.

use crate::{
    fixture::Fixture,
    program::{program, run},
    support::device,
};
use burn::tensor::{Int, Tensor, TensorData};
use gpt2::{EvalMethod, EvalPlan, Gpt2, Gpt2Config, MlpMode, Token, Tokens};
use serde_json::Value;
use std::{convert::Infallible, fs, path::Path};

const TEXT: &str = "to be, or not to be:\nthat is the question\n\nwhether 'tis nobler";
const CONTEXT: usize = 10;

/// The negative log likelihood of the last of these tokens, in `f64`.
fn nll_of_last(model: &Gpt2, tokens: &[Token]) -> f64 {
    let (last, before) = tokens.split_last().unwrap();
    let ids: Vec<i32> = before.iter().map(|&token| token.into()).collect();
    let data = TensorData::new(ids, [1, before.len()]);
    let logits = model.forward(Tensor::<2, Int>::from_data(data, &device()));
    let row = logits.narrow(1, before.len() - 1, 1).into_data();
    let row: Vec<f64> = row.iter().collect();
    let sum: f64 = row.iter().map(|logit| logit.exp()).sum();
    sum.ln() - row[*last as usize]
}

#[test]
fn every_token_is_scored_with_the_context_of_its_window() {
    let tokens: Vec<Token> = (0..47u16).map(|i| i * i * 7 % 31).collect();
    let text = Tokens::from_slice(&tokens);
    for mode in [MlpMode::Dense, MlpMode::Sparse] {
        let config = Gpt2Config::new(1, 16, 2, CONTEXT).with_vocabulary(31);
        let mut model = config.with_mode(mode).init(4, &device());
        model.wte.weight = model.wte.weight.map(|weight| weight * 20.0);
        for method in [
            EvalMethod::Block { size: CONTEXT },
            EvalMethod::Block { size: 7 },
            EvalMethod::Strided {
                context: CONTEXT,
                stride: 3,
            },
            EvalMethod::Strided {
                context: CONTEXT,
                stride: CONTEXT,
            },
            EvalMethod::Strided {
                context: 4,
                stride: 1,
            },
        ] {
            let plan = EvalPlan::new(method, tokens.len()).unwrap();
            let expected: f64 = plan
                .windows()
                .flat_map(|window| window.scored.map(move |end| (window.tokens.start, end)))
                .map(|(start, end)| nll_of_last(&model, &tokens[start..=end]))
                .sum();
            for batch in [1, 4, 100] {
                let score = plan.score(batch, |windows| {
                    Ok::<_, Infallible>(model.window_nll(&text, windows))
                });
                let nll = score.unwrap().nll;
                assert!(
                    (nll / expected - 1.0).abs() < 1e-5,
                    "{mode}, {method}, batch {batch}: {nll}, not {expected}"
                );
            }
        }
    }
}

fn bytes_model(dir: &Path) -> String {
    let model = dir.join("model");
    Fixture::with_sizes(256, CONTEXT).write(&model);
    model.to_str().unwrap().to_owned()
}

fn text(dir: &Path) -> String {
    let path = dir.join("text.txt");
    fs::write(&path, TEXT).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn three_perplexities_come_with_their_counts() {
    let Some(program) = program("gpt2_eval") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (model, text) = (bytes_model(dir.path()), text(dir.path()));
    let flags = ["--model", &model, "--text", &text, "--stride", "4"];
    let json = |more: &[&str]| -> Value {
        let run = run(&program, &[&flags[..], &["--json"], more].concat(), b"");
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
        serde_json::from_str(&run.out).unwrap()
    };
    let value = json(&[]);
    let count = TEXT.len();
    assert_eq!(value["bytes"], count);
    assert_eq!(value["tokens"], count);
    // 13 words and 4 ends of lines.
    assert_eq!(value["words"], 17);
    assert_eq!(
        value["block"]["scored_tokens"],
        count / CONTEXT * (CONTEXT - 1)
    );
    assert_eq!(value["block"]["size"], CONTEXT);
    assert_eq!(value["strided"]["scored_tokens"], count - 1);
    assert_eq!(value["strided"]["stride"], 4);
    let number = |pointer: &str| value.pointer(pointer).unwrap().as_f64().unwrap();
    for kind in ["block", "strided"] {
        let (loss, perplexity) = (
            number(&format!("/{kind}/loss")),
            number(&format!("/{kind}/perplexity")),
        );
        assert!((perplexity.ln() / loss - 1.0).abs() < 1e-12);
    }
    let nll = number("/strided/loss") * (count - 1) as f64;
    assert!((number("/word/perplexity").ln() * 17.0 / nll - 1.0).abs() < 1e-12);

    // Neither batch nor storage matter.
    for more in [
        &["--batch", "1"][..],
        &["--mode", "sparse"],
        &["--mode", "masked"],
    ] {
        let other = json(more);
        for pointer in ["/block/loss", "/strided/loss"] {
            let other = other.pointer(pointer).unwrap().as_f64().unwrap();
            assert!((other / number(pointer) - 1.0).abs() < 1e-6, "{more:?}");
        }
    }
    // Windows that do not overlap leave out the first token of each.
    let apart = json(&["--context", "4"]);
    assert_eq!(apart["word"]["perplexity"], Value::Null);

    let table = run(&program, &flags, b"");
    for part in [
        "17 words",
        "block:   perplexity ",
        "strided: perplexity ",
        " per word (17 words",
    ] {
        assert!(table.out.contains(part), "no {part:?} in {}", table.out);
    }
}

#[test]
fn bad_input_is_named_with_its_exit_code() {
    let Some(program) = program("gpt2_eval") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (model, text) = (bytes_model(dir.path()), text(dir.path()));
    let short = dir.path().join("short.txt");
    fs::write(&short, "nine long").unwrap();
    let short = short.to_str().unwrap();
    let other = dir.path().join("other");
    Fixture::new().write(&other);
    let other = other.to_str().unwrap();
    let broken = dir.path().join("broken");
    let mut fixture = Fixture::with_sizes(256, CONTEXT);
    fixture.set("ln_f.bias", &[4], &[f32::NAN; 4]);
    fixture.write(&broken);
    let broken = broken.to_str().unwrap();
    let absent = dir.path().join("absent");
    let absent = absent.to_str().unwrap();

    let cases: [(&str, &str, &[&str], i32, &str); 10] = [
        (absent, &text, &[], 1, "absent"),
        (&model, absent, &[], 1, "cannot read the text "),
        (
            other,
            &text,
            &[],
            1,
            "the model has 11 tokens, but text becomes 256",
        ),
        (broken, &text, &[], 1, "the loss of the text is NaN"),
        (
            &model,
            short,
            &[],
            1,
            "short.txt is too short: it has 9 tokens, but must have at least 10",
        ),
        (
            &model,
            &text,
            &["--stride", "0"],
            2,
            "--stride is 0, but must be between 1 and 10",
        ),
        (
            &model,
            &text,
            &["--stride", "11"],
            2,
            "--stride is 11, but must be between 1 and 10",
        ),
        (
            &model,
            &text,
            &["--context", "11"],
            2,
            "--context is 11, but must be between 2 and 10",
        ),
        (
            &model,
            &text,
            &["--context", "1"],
            2,
            "--context is 1, but must be between 2 and 10",
        ),
        (
            &model,
            &text,
            &["--batch", "0"],
            2,
            "--batch is 0, but must be between 1 and",
        ),
    ];
    for (model, text, flags, code, expected) in cases {
        let args = [&["--quiet", "--model", model, "--text", text], flags].concat();
        let run = run(&program, &args, b"");
        assert!(run.err.contains(expected), "{flags:?}: {}", run.err);
        assert_eq!((run.code, run.out.as_str()), (Some(code), ""), "{flags:?}");
    }
    let none = run(&program, &["--model", &model], b"");
    assert_eq!(none.code, Some(2));
}
