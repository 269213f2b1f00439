//! Records that do not fit or were tampered with: an error that names the tensor, no panic, and a
//! module that is as it was.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::Module;
use burn::store::ModuleRecord;
use burn::tensor::TensorData;
use snack_burn::nn::SparseRecordError;
use snack_burn::prelude::*;

use crate::records::Net;
use crate::support::records::{contents, recorded, replaced, without};
use crate::support::{flex, panic_text};

const PATTERN: &str = "first.pattern";
const VALUES: &str = "first.values";

fn record() -> Option<(Net, ModuleRecord)> {
    let device = flex()?.device;
    let saved = Net::new([100, 200, 50], 1, &device).into_record();
    Some((Net::new([90, 200, 60], 2, &device), saved))
}

/// Loads, and asserts that the error names `path` and that nothing was loaded.
#[track_caller]
fn refused(net: &Net, record: ModuleRecord, path: &str) -> SparseRecordError {
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        net.clone().try_load_sparse_record(record)
    }));
    let error = match attempt {
        Ok(result) => result.map(|_| ()).expect_err("the record does not fit"),
        Err(payload) => panic!("a panic instead of an error: {}", panic_text(payload)),
    };
    let text = error.to_string();
    assert!(
        text.contains(path),
        "the error does not name {path}: {text}"
    );
    error
}

/// The recorded pattern as numbers: rows, columns, row offsets, columns of the slots.
fn words(record: &ModuleRecord) -> Vec<i32> {
    recorded(record, PATTERN).iter::<i32>().collect()
}

fn with_words(record: &ModuleRecord, words: Vec<i32>) -> ModuleRecord {
    let length = words.len();
    replaced(record, PATTERN, TensorData::new(words, [length]))
}

#[test]
fn invalid_patterns() {
    let Some((net, record)) = record() else {
        return;
    };
    let words = words(&record);
    let (rows, slots) = (24, 2 + 25);
    assert_eq!(words[..2], [rows as i32, 24]);
    assert_eq!(words.len(), slots + 100);
    let two_in_a_row = (0..rows)
        .find(|row| words[3 + row] - words[2 + row] >= 2)
        .unwrap();
    let slot = slots + words[2 + two_in_a_row] as usize;

    type Damage<'a> = (&'a str, Box<dyn Fn(&mut Vec<i32>)>);
    let damages: [Damage<'_>; 12] = [
        (
            "columns out of order",
            Box::new(move |w| w.swap(slot, slot + 1)),
        ),
        ("a column twice", Box::new(move |w| w[slot + 1] = w[slot])),
        ("a column outside", Box::new(move |w| w[slots + 99] = 24)),
        ("a negative column", Box::new(move |w| w[slot] = -1)),
        ("a negative offset", Box::new(|w| w[5] = -4)),
        ("offsets that fall", Box::new(|w| w[5] = 101)),
        ("a first offset above 0", Box::new(|w| w[2] = 1)),
        ("a last offset below nnz", Box::new(|w| w[26] -= 1)),
        ("a negative shape", Box::new(|w| w[0] = -24)),
        ("more rows than offsets", Box::new(|w| w[0] = i32::MAX)),
        ("one column less", Box::new(|w| w.truncate(126))),
        ("nothing", Box::new(|w| w.clear())),
    ];
    for (name, damage) in damages {
        let mut damaged = words.clone();
        damage(&mut damaged);
        let error = refused(&net, with_words(&record, damaged), PATTERN);
        let invalid = matches!(&error, SparseRecordError::InvalidPattern { .. });
        assert!(invalid, "{name}: {error:?}");
    }
}

#[test]
fn a_valid_pattern_of_another_shape() {
    let Some((net, record)) = record() else {
        return;
    };
    // 24 columns fit 25 as well.
    let mut words = words(&record);
    words[1] = 25;
    let error = refused(&net, with_words(&record, words), PATTERN);
    let expected = SparseRecordError::Shape {
        path: PATTERN.to_string(),
        expected: vec![24, 24],
        found: vec![24, 25],
    };
    assert_eq!(error, expected);

    let layer = |d_input, d_output| {
        SparseLinearConfig::new(d_input, d_output)
            .with_nnz(Some(6))
            .with_seed(Some(1))
            .init(&flex().unwrap().device)
    };
    let error = layer(5, 4)
        .try_load_sparse_record(layer(4, 5).into_record())
        .unwrap_err();
    assert!(
        error.to_string().contains("`pattern` has shape [5, 4]"),
        "{error}"
    );
}

#[test]
fn missing_tensors() {
    let Some((net, record)) = record() else {
        return;
    };
    for path in [PATTERN, VALUES, "blocks.1.pattern", "blocks.1.values"] {
        let error = refused(&net, without(&record, path), path);
        assert!(
            matches!(error, SparseRecordError::Missing { .. }),
            "{error:?}"
        );
    }
    for path in ["first.bias", "blocks.0.bias", "head.weight"] {
        refused(&net, without(&record, path), path);
    }
}

#[test]
fn values_that_do_not_belong_to_the_pattern() {
    let Some((net, record)) = record() else {
        return;
    };
    for count in [99, 101, 0] {
        let values = TensorData::new(vec![0.5f32; count], [count]);
        let error = refused(&net, replaced(&record, VALUES, values), VALUES);
        let expected = SparseRecordError::Shape {
            path: VALUES.to_string(),
            expected: vec![100],
            found: vec![count],
        };
        assert_eq!(error, expected);
    }
    let square = TensorData::new(vec![0.5f32; 100], [10, 10]);
    refused(&net, replaced(&record, VALUES, square), VALUES);
}

#[test]
fn dense_tensors_of_another_shape_and_unknown_tensors() {
    let Some((net, record)) = record() else {
        return;
    };
    let other = TensorData::new(vec![0.5f32; 24], [24, 1]);
    refused(
        &net,
        replaced(&record, "head.weight", other.clone()),
        "head.weight",
    );
    refused(&net, replaced(&record, "unknown", other), "unknown");
}

/// The dense part is looked at after the sparse one: it must not be too late.
#[test]
fn nothing_is_loaded_if_anything_is_wrong() {
    let Some((net, record)) = record() else {
        return;
    };
    let record = without(&record, "blocks.1.bias");
    let before = contents(net.clone().into_record());
    let kept = net.clone();
    assert!(net.try_load_sparse_record(record).is_err());
    assert!(contents(kept.into_record()) == before);
}

#[test]
fn a_pattern_of_another_rank() {
    let Some((net, record)) = record() else {
        return;
    };
    let words = TensorData::new(words(&record), [1, 127]);
    refused(&net, replaced(&record, PATTERN, words), PATTERN);
}

/// Halves of columns are not rounded to some column.
#[test]
fn a_pattern_of_fractions() {
    let Some((net, record)) = record() else {
        return;
    };
    let words: Vec<f32> = words(&record)
        .iter()
        .map(|&word| word as f32 + 0.5)
        .collect();
    refused(
        &net,
        replaced(&record, PATTERN, TensorData::new(words, [127])),
        PATTERN,
    );
}

#[test]
fn values_that_are_integers() {
    let Some((net, record)) = record() else {
        return;
    };
    let counts = TensorData::new(vec![1i32; 100], [100]);
    refused(&net, replaced(&record, VALUES, counts), VALUES);
}

#[test]
fn the_panicking_form_says_the_same() {
    let Some((net, record)) = record() else {
        return;
    };
    let record = without(&record, VALUES);
    let attempt = catch_unwind(AssertUnwindSafe(|| net.load_sparse_record(record)));
    let text = panic_text(attempt.map(|_| ()).unwrap_err());
    assert_eq!(
        text,
        "Failed to load record: the record has no tensor `first.values`, which a sparse layer of \
         the module needs"
    );
}
