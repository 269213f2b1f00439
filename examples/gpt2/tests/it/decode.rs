//! The cache of keys and values against the full forward pass.

use crate::support::device;
use burn::tensor::{Int, Tensor, TensorData};
use gpt2::{DecodeError, Decoder, Gpt2, Gpt2Config, MlpMode};

const MODES: [MlpMode; 3] = [MlpMode::Dense, MlpMode::Masked, MlpMode::Sparse];
const CONTEXT: usize = 12;
const VOCABULARY: usize = 40;

/// Weights large enough that positions and tokens matter.
fn model(mode: MlpMode) -> Gpt2 {
    let config = Gpt2Config::new(2, 24, 3, CONTEXT)
        .with_vocabulary(VOCABULARY)
        .with_mode(mode)
        .with_sparsity(0.5);
    let mut model = config.init(7, &device());
    model.wte.weight = model.wte.weight.map(|weight| weight * 20.0);
    model.wpe.weight = model.wpe.weight.map(|weight| weight * 20.0);
    for block in &mut model.h {
        let weight = block.attn.c_attn.weight.clone();
        block.attn.c_attn.weight = weight.map(|weight| weight * 20.0);
        let bias = block.attn.c_attn.bias.take().unwrap();
        block.attn.c_attn.bias = Some(bias.map(|bias| bias + 0.3));
    }
    model
}

fn sequences(batch: usize) -> Vec<Vec<u32>> {
    let token =
        |row: usize, place: usize| ((row * 17 + place * place * 5 + place) % VOCABULARY) as u32;
    (0..batch)
        .map(|row| (0..CONTEXT).map(|place| token(row, place)).collect())
        .collect()
}

/// `[batch][place][vocabulary]`.
fn full_logits(model: &Gpt2, rows: &[Vec<u32>]) -> Vec<Vec<Vec<f32>>> {
    let flat: Vec<i32> = rows.iter().flatten().map(|&token| token as i32).collect();
    let data = TensorData::new(flat, [rows.len(), rows[0].len()]);
    let tokens = Tensor::<2, Int>::from_data(data, &device());
    let numbers = model
        .forward(tokens)
        .into_data()
        .try_to_vec::<f32>()
        .unwrap();
    let rows = numbers.chunks(rows[0].len() * VOCABULARY);
    rows.map(|row| row.chunks(VOCABULARY).map(<[f32]>::to_vec).collect())
        .collect()
}

fn assert_logits(text: &str, place: usize, found: &Tensor<2>, expected: &[Vec<Vec<f32>>]) {
    let found = found.to_data().try_to_vec::<f32>().unwrap();
    assert_eq!(found.len(), expected.len() * VOCABULARY, "{text}");
    for (row, found) in found.chunks(VOCABULARY).enumerate() {
        let expected = &expected[row][place];
        let scale = expected.iter().fold(0.0f32, |max, x| max.max(x.abs()));
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() <= 1e-5 * scale,
                "{text}, row {row}, place {place}: {found}, not {expected}"
            );
        }
    }
}

fn heads_of(rows: &[Vec<u32>], length: usize) -> Vec<&[u32]> {
    rows.iter().map(|row| &row[..length]).collect()
}

#[test]
fn every_position_has_the_logits_of_the_full_pass() {
    for mode in MODES {
        let model = model(mode);
        for batch in [1, 3] {
            let rows = sequences(batch);
            let expected = full_logits(&model, &rows);
            for record in [false, cfg!(feature = "flex")] {
                let mut decoder = Decoder::new(&model, batch, record);
                // The same decoder again and again: nothing may stay from the run before.
                for length in [1, 2, 5, CONTEXT - 1, CONTEXT] {
                    let text = format!("{mode}, batch {batch}, prompt {length}, record {record}");
                    let logits = decoder.prefill(&heads_of(&rows, length)).unwrap();
                    assert_logits(&text, length - 1, &logits, &expected);
                    for place in length..CONTEXT {
                        let tokens: Vec<u32> = rows.iter().map(|row| row[place]).collect();
                        decoder.feed(&tokens).unwrap();
                        let logits = decoder.step().unwrap().clone();
                        assert_logits(&text, place, &logits, &expected);
                        drop(logits);
                    }
                    assert_eq!(
                        decoder.step().unwrap_err(),
                        DecodeError::ContextFull { context: CONTEXT }
                    );
                }
            }
        }
    }
}

#[test]
fn the_logits_depend_on_the_cache() {
    let rows = sequences(2);
    let logits = full_logits(
        &model(MlpMode::Dense),
        &[rows[0].clone(), {
            let mut other = rows[0].clone();
            other[0] += 1;
            other
        }],
    );
    let (a, b) = (&logits[0][CONTEXT - 1], &logits[1][CONTEXT - 1]);
    let distance = a
        .iter()
        .zip(b)
        .fold(0.0f32, |max, (a, b)| max.max((a - b).abs()));
    assert!(
        distance > 0.01,
        "the test model forgets its first token: {distance}"
    );
}

/// The most probable continuation, by full passes.
fn greedy(model: &Gpt2, prompt: &[u32], end: usize) -> Vec<u32> {
    let mut tokens = prompt.to_vec();
    while tokens.len() < end {
        let logits = &full_logits(model, &[tokens.clone()])[0][tokens.len() - 1];
        let best = (0..VOCABULARY).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
        tokens.push(best.unwrap() as u32);
    }
    tokens
}

#[test]
fn the_most_probable_tokens_follow_without_the_host() {
    for mode in MODES {
        let model = model(mode);
        let rows = sequences(3);
        let expected: Vec<Vec<u32>> = rows
            .iter()
            .map(|row| greedy(&model, &row[..3], CONTEXT))
            .collect();
        let mut decoder = Decoder::new(&model, 3, false);
        decoder.prefill(&heads_of(&rows, 3)).unwrap();
        for _ in 3..CONTEXT - 1 {
            decoder.step().unwrap();
        }
        assert_eq!(decoder.tokens(0..CONTEXT), expected, "{mode}");
        assert_eq!(decoder.position(), CONTEXT - 1);

        // One more token than the context can be written, though not read.
        decoder.step().unwrap();
        assert_eq!(decoder.tokens(CONTEXT..CONTEXT + 1).len(), 3);
    }
}

#[test]
fn infinite_values_of_an_earlier_prompt_are_forgotten() {
    let mut model = model(MlpMode::Dense);
    // Token 39 makes keys and values that are no numbers.
    model.wte.weight = model.wte.weight.map(|weight| {
        let bad = Tensor::full([1, 24], f32::INFINITY, &device());
        weight.slice_assign([39..40, 0..24], bad)
    });
    let mut decoder = Decoder::new(&model, 1, false);
    let run = |decoder: &mut Decoder| {
        decoder.prefill(&[[1, 2]]).unwrap();
        decoder.feed(&[3]).unwrap();
        let logits = decoder.step().unwrap().clone().narrow(1, 0, 39);
        logits.into_data().try_to_vec::<f32>().unwrap()
    };
    let clean = run(&mut decoder);
    decoder.prefill(&[[1, 2, 39, 39, 39]]).unwrap();
    assert_eq!(run(&mut decoder), clean);
    assert!(clean.iter().all(|logit| logit.is_finite()));
}

#[test]
fn tokens_that_do_not_fit_are_named_and_change_nothing() {
    let model = model(MlpMode::Sparse);
    let mut decoder = Decoder::new(&model, 2, false);
    assert_eq!(decoder.step().unwrap_err(), DecodeError::NoPrompt);
    assert_eq!(decoder.feed(&[1, 2]).unwrap_err(), DecodeError::NoPrompt);

    decoder.prefill(&[[1, 2], [3, 4]]).unwrap();
    let message =
        |result: Result<_, DecodeError>| result.map(|_: Tensor<2>| ()).unwrap_err().to_string();
    let long = vec![0; CONTEXT + 1];
    let cases: [(Vec<Vec<u32>>, &str); 5] = [
        (
            vec![vec![1]],
            "got 1 sequences, but the decoder was made for 2",
        ),
        (
            vec![vec![1], vec![]],
            "prompt 1 is empty, but must have at least one token",
        ),
        (
            vec![vec![1, 2], vec![1]],
            "prompt 1 has 1 tokens, but must have 2, as the first one has",
        ),
        (
            vec![vec![1], vec![40]],
            "token 40 of sequence 1 is outside the vocabulary of the model, which has 40 tokens",
        ),
        (
            vec![long.clone(), long],
            "the prompt has 13 tokens, but the context of the model is 12",
        ),
    ];
    for (prompts, expected) in cases {
        // The empty prompt is found before its length differs.
        let text = message(decoder.prefill(&prompts));
        assert_eq!(text, expected);
    }
    assert!(matches!(
        decoder.feed(&[1]).unwrap_err(),
        DecodeError::WrongBatch {
            found: 1,
            expected: 2
        }
    ));
    assert!(matches!(
        decoder.feed(&[1, 41]).unwrap_err(),
        DecodeError::UnknownToken {
            sequence: 1,
            token: 41,
            ..
        }
    ));
    assert_eq!(decoder.tokens(0..2), [[1, 2], [3, 4]]);
}

#[test]
fn memory_is_counted_by_kind() {
    let config = Gpt2Config::new(2, 24, 3, CONTEXT).with_vocabulary(VOCABULARY);
    for mode in MODES {
        let config = config.clone().with_mode(mode).with_sparsity(0.5);
        let mut decoder = Decoder::new(&config.init(1, &device()), 3, false);
        decoder.prefill(&[[1], [2], [3]]).unwrap();
        let memory = decoder.memory();

        let weights = match mode {
            MlpMode::Sparse => config.parameter_count(),
            MlpMode::Dense | MlpMode::Masked => config.dense_parameter_count(),
        };
        assert_eq!(memory.weights, 4 * weights, "{mode}");
        assert_eq!(memory.kv_cache, 4 * 2 * 2 * 3 * CONTEXT * 24, "{mode}");
        let nnz = 4 * config.mlp_nnz();
        match mode {
            MlpMode::Sparse => assert!(memory.indices >= 4 * nnz, "{}", memory.indices),
            _ => assert_eq!(memory.indices, 0, "{mode}"),
        }
    }
}
