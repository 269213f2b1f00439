//! `gpt2_generate`, as a program and through its parts.

use crate::{
    fixture::Fixture,
    program::{Run, program, run},
    support::{device, finish, tiny},
};
use gpt2::{Decoder, GenerateError, Gpt2Config, SampleError, Sampler, SamplingOptions, generate};
use serde_json::Value;
use std::{fs, path::Path};

/// A model of bytes with 2 blocks of width 4 and a context of 24.
fn bytes_model(dir: &Path) -> String {
    let model = dir.join("model");
    Fixture::with_sizes(256, 24).write(&model);
    model.to_str().unwrap().to_owned()
}

/// Runs the program on a model with these further flags.
fn generated(model: &str, flags: &[&str], input: &[u8]) -> Option<Run> {
    let args: Vec<&str> = ["--model", model].iter().chain(flags).copied().collect();
    Some(run(&program("gpt2_generate")?, &args, input))
}

fn json_of(run: &Run) -> Value {
    assert_eq!(run.code, Some(0), "{}", run.err);
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn text_goes_to_standard_output_and_speed_to_standard_error() {
    let dir = tempfile::tempdir().unwrap();
    let model = bytes_model(dir.path());
    let flags = ["--prompt", "to be", "--tokens", "12", "--seed", "3"];
    let Some(plain) = generated(&model, &flags, b"") else {
        return;
    };
    assert_eq!(plain.code, Some(0), "{}", plain.err);
    for part in [
        "prompt: 5 tokens in ",
        "text: 12 tokens; after the first ",
        "ms per token",
        "bytes: weights ",
        "keys and values 1,024",
    ] {
        assert!(plain.err.contains(part), "no {part:?} in {}", plain.err);
    }

    let json = generated(&model, &[&flags[..], &["--json"]].concat(), b"").unwrap();
    let value = json_of(&json);
    assert_eq!(json.err, "");
    assert_eq!(format!("{}\n", value["text"].as_str().unwrap()), plain.out);
    assert_eq!(value["tokens"].as_array().unwrap().len(), 12);
    assert_eq!(value["decode"]["tokens"], 11);
    assert_eq!(value["prompt_tokens"], 5);
    assert_eq!(value["memory"]["kv_cache"], 2 * 2 * 16 * 4 * 4);
    assert!(value["decode"]["ms_per_token"].as_f64().unwrap() > 0.0);

    let quiet = generated(&model, &[&flags[..], &["--quiet"]].concat(), b"").unwrap();
    assert_eq!((quiet.err.as_str(), &quiet.out), ("", &plain.out));
}

#[test]
fn prompts_come_from_a_flag_a_file_or_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let model = bytes_model(dir.path());
    let file = dir.path().join("prompt.txt");
    fs::write(&file, "or not").unwrap();
    let common = ["--tokens", "6", "--json"];
    let tokens = |flags: &[&str], input: &[u8]| {
        let run = generated(&model, &[&common, flags].concat(), input)?;
        Some(json_of(&run)["tokens"].clone())
    };
    let Some(expected) = tokens(&["--prompt", "or not"], b"ignored") else {
        return;
    };
    assert_eq!(
        tokens(&["--prompt-file", file.to_str().unwrap()], b""),
        Some(expected.clone())
    );
    assert_eq!(tokens(&[], b"or not"), Some(expected));
}

#[test]
fn recording_and_storage_do_not_change_the_text() {
    let dir = tempfile::tempdir().unwrap();
    let model = bytes_model(dir.path());
    for choice in [
        &["--temperature", "0"][..],
        &["--top-k", "9", "--top-p", "0.8"],
    ] {
        let tokens = |flags: &[&str]| {
            let flags = [&["--prompt", "abc", "--json"], choice, flags].concat();
            let value = json_of(&generated(&model, &flags, b"")?);
            Some((value["tokens"].clone(), value["mode"].clone()))
        };
        let Some((expected, mode)) = tokens(&[]) else {
            return;
        };
        assert_eq!(mode, "dense");
        // As many as the context has room for.
        assert_eq!(expected.as_array().unwrap().len(), 22);
        assert_eq!(tokens(&["--no-capture"]).unwrap().0, expected);
        for mode in ["masked", "sparse"] {
            assert_eq!(
                tokens(&["--mode", mode]),
                Some((expected.clone(), mode.into()))
            );
        }
        let pruned = tokens(&["--sparsity", "0.9", "--scope", "global"]).unwrap();
        assert_eq!(pruned.1, "sparse");
    }
}

#[test]
fn runs_and_their_checkpoints_are_models() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.steps = Some(3);
    finish(&args).unwrap();
    let folder = dir.path().join("run");
    let checkpoint = folder.join("checkpoint.bpk");
    let tokens = |path: &Path| {
        let flags = ["--prompt", "to be", "--temperature", "0", "--json"];
        let value = json_of(&generated(path.to_str().unwrap(), &flags, b"")?);
        assert_eq!(value["mode"], "sparse");
        assert!(value["memory"]["indices"].as_u64().unwrap() > 0);
        Some(value["tokens"].clone())
    };
    let Some(expected) = tokens(&folder) else {
        return;
    };
    assert_eq!(expected.as_array().unwrap().len(), 12);
    assert_eq!(tokens(&checkpoint), Some(expected));
}

#[test]
fn bad_input_is_named_with_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let model = bytes_model(dir.path());
    let other = dir.path().join("other");
    Fixture::new().write(&other);
    let other = other.to_str().unwrap();
    let absent = dir.path().join("absent");
    let absent = absent.to_str().unwrap();
    let long = "x".repeat(25);
    let cases: [(&str, &[&str], i32, &str); 14] = [
        (absent, &["--prompt", "a"], 1, "absent"),
        (
            other,
            &["--prompt", "a"],
            1,
            "the model has 11 tokens, but text becomes",
        ),
        (
            &model,
            &["--prompt", ""],
            2,
            "--prompt is empty, but must be at least one token long",
        ),
        (
            &model,
            &[],
            2,
            "the prompt on standard input is empty, but must be",
        ),
        (
            &model,
            &["--prompt-file", absent],
            1,
            "cannot read the prompt ",
        ),
        (
            &model,
            &["--prompt", &long],
            2,
            "--prompt is 25 tokens long, but must be at most the 24 of the model's context",
        ),
        (
            &model,
            &["--prompt", "abcd", "--tokens", "22"],
            2,
            "--tokens is 22, but must be between 1 and 21: the context of 24 tokens has 4 of the prompt",
        ),
        (
            &model,
            &["--prompt", "a", "--tokens", "0"],
            2,
            "--tokens is 0, but must be between 1 and 24",
        ),
        (
            &model,
            &["--prompt", "a", "--temperature", "nan"],
            2,
            "--temperature is NaN, but must be finite",
        ),
        (
            &model,
            &["--prompt", "a", "--temperature", "-1"],
            2,
            "--temperature is -1, but must be",
        ),
        (
            &model,
            &["--prompt", "a", "--top-p", "0"],
            2,
            "--top-p is 0, but must be above 0",
        ),
        (
            &model,
            &["--prompt", "a", "--top-p", "1.5"],
            2,
            "--top-p is 1.5, but must be above 0",
        ),
        (
            &model,
            &["--prompt", "a", "--top-k", "0"],
            2,
            "--top-k is 0, but must be at least 1",
        ),
        (
            &model,
            &["--prompt", "a", "--sparsity", "1"],
            2,
            "--sparsity is 1, but must be",
        ),
    ];
    for (model, flags, code, expected) in cases {
        let Some(run) = generated(model, flags, b"") else {
            return;
        };
        assert!(run.err.contains(expected), "{flags:?}: {}", run.err);
        assert_eq!((run.code, run.out.as_str()), (Some(code), ""), "{flags:?}");
    }
    let both = generated(&model, &["--prompt", "a", "--prompt-file", "b"], b"").unwrap();
    assert_eq!(both.code, Some(2));
}

#[test]
fn a_text_that_cannot_begin_leaves_standard_output_empty() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    let mut fixture = Fixture::with_sizes(256, 24);
    fixture.set("ln_f.weight", &[4], &[f32::NAN; 4]);
    fixture.write(&model);
    for flags in [&["--prompt", "a"][..], &["--prompt", "a", "--json"]] {
        let Some(run) = generated(model.to_str().unwrap(), flags, b"") else {
            return;
        };
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{}", run.err);
        assert!(
            run.err
                .contains("error: the model gives token 0 the logit NaN")
        );
    }
}

#[test]
fn help_tells_what_the_command_does() {
    let Some(program) = program("gpt2_generate") else {
        return;
    };
    let help = run(&program, &["--help"], b"");
    assert_eq!(help.code, Some(0));
    assert!(
        help.out.starts_with("Writes text with a GPT-2 model."),
        "{}",
        help.out
    );
    for flag in [
        "--model",
        "--prompt-file",
        "--top-p",
        "--no-capture",
        "Exit codes:",
    ] {
        assert!(help.out.contains(flag), "no {flag} in {}", help.out);
    }
    let defaults = SamplingOptions::default();
    for (name, value) in [
        ("temperature", defaults.temperature),
        ("seed", defaults.seed as f64),
    ] {
        let start = help.out.find(&format!("--{name} <")).unwrap();
        let text = &help.out[start..];
        let text = &text[..text.find("\n\n").unwrap()];
        assert!(text.contains(&format!("[default: {value}]")), "{text}");
    }
}

fn sampler(temperature: f64) -> Sampler {
    let options = SamplingOptions {
        temperature,
        ..Default::default()
    };
    Sampler::new(options).unwrap()
}

#[test]
fn tokens_are_emitted_once_each_and_stop_at_the_end_of_the_text() {
    let model = Gpt2Config::new(1, 16, 2, 40).init(2, &device());
    let mut decoder = Decoder::new(&model, 1, false);
    for temperature in [0.0, 1.0] {
        let mut run = |count, end| {
            let mut seen = Vec::new();
            let mut sampler = sampler(temperature);
            let generation = generate(
                &mut decoder,
                &[1, 2, 3],
                count,
                end,
                &mut sampler,
                |tokens| {
                    seen.extend_from_slice(tokens);
                },
            );
            let generation = generation.unwrap();
            assert_eq!(seen, generation.tokens);
            (seen, generation.decoded)
        };
        let (all, decoded) = run(38, None);
        assert_eq!((all.len(), decoded), (38, 37), "temperature {temperature}");
        assert_eq!(run(1, None), (all[..1].to_vec(), 0));
        assert_eq!(run(7, None), (all[..7].to_vec(), 6));

        let end = all[5];
        let first = all.iter().position(|&token| token == end).unwrap();
        assert_eq!(run(38, Some(end)).0, all[..first]);
    }
}

#[test]
fn logits_that_are_no_numbers_stop_the_text() {
    let mut model = Gpt2Config::new(1, 16, 2, 40).init(2, &device());
    model.ln_f.gamma = model.ln_f.gamma.map(|gamma| gamma * f32::NAN);
    let mut decoder = Decoder::new(&model, 1, false);
    for temperature in [0.0, 1.0] {
        let error = generate(
            &mut decoder,
            &[1],
            5,
            None,
            &mut sampler(temperature),
            |tokens| panic!("{tokens:?} were emitted"),
        );
        assert!(
            matches!(
                error,
                Err(GenerateError::Sample(SampleError::NotFinite { token: 0, value })) if value.is_nan()
            ),
            "{error:?}"
        );
    }
}
