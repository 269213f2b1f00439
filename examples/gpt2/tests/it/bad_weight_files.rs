//! What the reader of weight files refuses, and how it says so.

use crate::{
    fixture::{Fixture, write_raw},
    support::device,
};
use gpt2::{LoadOptions, SaveOptions, WeightFormat, load_pretrained, save_pretrained};
use safetensors::Dtype;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path};

fn message(path: &Path) -> String {
    load_pretrained(path, &LoadOptions::default(), &device())
        .unwrap_err()
        .to_string()
}

/// The message about the files of a fixture, without the folder in it.
fn fixture_message(fixture: &Fixture) -> String {
    let dir = tempfile::tempdir().unwrap();
    fixture.write(dir.path());
    let folder = format!("{}{}", dir.path().display(), std::path::MAIN_SEPARATOR);
    message(dir.path()).replace(&folder, "")
}

#[test]
fn truncated_files_are_errors_at_any_length() {
    let dir = tempfile::tempdir().unwrap();
    let path = Fixture::new().write(dir.path());
    let whole = fs::read(&path).unwrap();
    let header = 8 + usize::try_from(u64::from_le_bytes(whole[..8].try_into().unwrap())).unwrap();

    let cut_to = |length: usize| {
        fs::write(&path, &whole[..length]).unwrap();
        let message = message(dir.path());
        assert!(
            message.contains("model.safetensors is damaged or no safetensors file"),
            "{length} bytes: {message}"
        );
        message
    };
    assert!(cut_to(0).contains("it has 0 bytes, but must have at least 8"));
    assert!(cut_to(7).contains("it has 7 bytes"));
    assert!(cut_to(8).contains("bytes long, but must have at most 0"));
    assert!(cut_to(header - 1).contains("header is"));
    let first = cut_to(header);
    assert!(
        first.contains("but there are only 0: the file is truncated"),
        "{first}"
    );
    let last = cut_to(whole.len() - 1);
    assert!(last.contains("the tensor wte.weight takes bytes"), "{last}");
    for length in (9..header)
        .step_by(301)
        .chain((header..whole.len()).step_by(97))
    {
        cut_to(length);
    }
}

/// A changed bit makes another file or a damaged one, but never a panic.
#[test]
fn changed_bits_of_the_header_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let path = Fixture::new().write(dir.path());
    let whole = fs::read(&path).unwrap();
    let header = 8 + usize::try_from(u64::from_le_bytes(whole[..8].try_into().unwrap())).unwrap();

    let mut refused = 0;
    for place in (0..header).step_by(3) {
        let mut changed = whole.clone();
        changed[place] ^= 1 << (place % 8);
        fs::write(&path, changed).unwrap();
        if let Err(error) = load_pretrained(dir.path(), &LoadOptions::default(), &device()) {
            let message = error.to_string();
            assert!(message.contains("model.safetensors"), "{place}: {message}");
            refused += 1;
        }
    }
    assert!(refused > header / 6, "{refused} of {}", header / 3);
}

#[test]
fn headers_longer_than_the_file_are_refused_unread() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write_config(dir.path());
    for length in [u64::MAX, 1 << 62, 50_000_000, 93] {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend([b' '; 92]);
        fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
        let expected = format!("its header is {length} bytes long, but must have at most 92");
        assert!(message(dir.path()).ends_with(&expected));
    }
}

#[test]
fn headers_that_are_wrong_name_the_tensor() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write_config(dir.path());
    let path = dir.path().join("model.safetensors");
    let entry = |dtype: &str, shape: Value, begin: i64, end: i64| json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]});
    let four = json!([4]);
    let cases = [
        (
            json!({"a": entry("F99", four.clone(), 0, 16)}),
            "the dtype of the tensor a is \"F99\", but must be a type such as F32, F16 or BF16",
        ),
        (
            json!({"a": {"dtype": "F32", "shape": [4]}}),
            "the data_offsets of the tensor a is missing, but must be two natural numbers",
        ),
        (
            json!({"a": entry("F32", json!([-4]), 0, 16)}),
            "the shape of the tensor a is [-4], but must be a list of natural numbers",
        ),
        (
            json!({"a": entry("F32", four.clone(), -16, 0)}),
            "the data_offsets of the tensor a is [-16,0], but must be two natural numbers",
        ),
        (
            json!({"a": entry("F32", four.clone(), 0, 16), "b": entry("F32", four.clone(), 12, 28)}),
            "the tensor b starts at byte 12, but a before it ends at 16",
        ),
        (
            json!({"a": entry("F32", four.clone(), 0, 16), "b": entry("F32", four.clone(), 16, 80)}),
            "the tensor b takes bytes 16 to 80 of the data, but there are only 32: the file is \
             truncated or its offsets are wrong",
        ),
        (
            json!({"a": entry("F32", four.clone(), 16, 0)}),
            "the tensor a takes bytes 16 to 0 of the data",
        ),
        (
            json!({"a": entry("F32", four.clone(), 16, 32)}),
            "bytes 0 to 16 of the data belong to no tensor",
        ),
        (
            json!({"a": entry("F32", four.clone(), 0, 16)}),
            "bytes 16 to 32 of the data belong to no tensor",
        ),
        (
            json!({"a": entry("F32", json!([5]), 0, 32)}),
            "the tensor a has 32 bytes, but F32 of shape [5] needs 20",
        ),
        (
            json!({"a": entry("F32", json!([1u64 << 40, 1u64 << 40]), 0, 32)}),
            "needs too many",
        ),
        (json!([1]), "its header is no JSON object of tensors"),
        (
            json!({"__metadata__": {"a": 1}, "a": entry("F32", json!([8]), 0, 32)}),
            "invalid JSON in header",
        ),
    ];
    for (header, expected) in cases {
        write_raw(&path, &header.to_string(), 32);
        let message = message(dir.path());
        assert!(
            message.contains("model.safetensors is damaged"),
            "{message}"
        );
        assert!(message.contains(expected), "{header}: {message}");
    }
    write_raw(&path, "{\"a", 32);
    assert!(message(dir.path()).contains("its header is no JSON object of tensors"));
}

#[test]
fn missing_tensors_are_listed() {
    let mut fixture = Fixture::new().prefixed();
    fixture.tensors.remove("transformer.wpe.weight");
    fixture.tensors.remove("transformer.h.1.mlp.c_proj.weight");
    assert_eq!(
        fixture_message(&fixture),
        "model.safetensors lacks 2 of the model's tensors: wpe.weight, h.1.mlp.c_proj.weight"
    );
    fixture.config["n_layer"] = json!(3);
    let message = fixture_message(&fixture);
    assert!(message.contains("lacks 14 of"), "{message}");
    assert!(message.ends_with(" and 2 more"), "{message}");
}

#[test]
fn other_shapes_are_named_with_the_expected_one() {
    let mut fixture = Fixture::new().prefixed();
    let transposed = fixture.tensors["transformer.h.0.mlp.c_proj.weight"].clone();
    fixture
        .tensors
        .insert("transformer.h.0.mlp.c_fc.weight".into(), transposed);
    assert_eq!(
        fixture_message(&fixture),
        "model.safetensors: the tensor h.0.mlp.c_fc.weight has shape [16, 4], but must have [4, 16]"
    );
    let mut fixture = Fixture::new();
    fixture.config["vocab_size"] = json!(1 << 20);
    assert_eq!(
        fixture_message(&fixture),
        "model.safetensors: the tensor wte.weight has shape [11, 4], but must have [1048576, 4]"
    );
}

#[test]
fn other_types_are_named() {
    let mut fixture = Fixture::new();
    let types = [
        (Dtype::F64, 32, "F64"),
        (Dtype::I64, 32, "I64"),
        (Dtype::U8, 4, "U8"),
    ];
    for (dtype, bytes, name) in types {
        let tensor = (dtype, vec![4], vec![0; bytes]);
        fixture.tensors.insert("ln_f.bias".into(), tensor);
        assert_eq!(
            fixture_message(&fixture),
            format!(
                "model.safetensors: the tensor ln_f.bias has type {name}, but must have F32, F16 \
                 or BF16"
            )
        );
    }
}

#[test]
fn a_head_of_its_own_is_refused() {
    let mut fixture = Fixture::new().prefixed();
    let mut head = fixture.values("transformer.wte.weight");
    head[3] += 1.0;
    head[9] += 1.0;
    fixture.set("lm_head.weight", &[11, 4], &head);
    assert_eq!(
        fixture_message(&fixture),
        "model.safetensors: lm_head.weight differs from wte.weight in 2 of 44 elements, but this \
         model has one tensor for both"
    );
    fixture.set("lm_head.weight", &[4], &[0.0; 4]);
    assert!(fixture_message(&fixture).contains("lm_head.weight has shape [4]"));
}

#[test]
fn a_tensor_under_both_names_is_refused() {
    let mut fixture = Fixture::new();
    fixture.set("transformer.ln_f.bias", &[4], &[0.0; 4]);
    assert_eq!(
        fixture_message(&fixture),
        "the tensor ln_f.bias occurs twice: in model.safetensors and in model.safetensors"
    );
}

#[test]
fn configurations_that_are_not_supported_name_the_key() {
    let cases = [
        (
            "model_type",
            json!("llama"),
            "\"llama\", but must be \"gpt2\"",
        ),
        (
            "activation_function",
            json!("gelu"),
            "\"gelu\", but must be \"gelu_new\" or \"gelu_pytorch_tanh\"",
        ),
        (
            "scale_attn_weights",
            json!(false),
            "false, but must be true",
        ),
        (
            "scale_attn_by_inverse_layer_idx",
            json!(true),
            "true, but must be false",
        ),
        (
            "reorder_and_upcast_attn",
            json!(true),
            "true, but must be false",
        ),
        (
            "tie_word_embeddings",
            json!(false),
            "false, but must be true",
        ),
        (
            "add_cross_attention",
            json!(true),
            "true, but must be false",
        ),
        ("n_layer", json!(0), "0, but must be between 1 and 192"),
        (
            "n_layer",
            Value::Null,
            "missing, but must be between 1 and 192",
        ),
        (
            "n_embd",
            json!("4"),
            "\"4\", but must be between 1 and 16384",
        ),
        ("n_head", json!(3), "3, but must be a divisor of n_embd 4"),
        ("n_head", json!(5), "5, but must be between 1 and 4"),
        (
            "n_positions",
            json!(-6),
            "-6, but must be between 1 and 65536",
        ),
        (
            "vocab_size",
            json!(1.5),
            "1.5, but must be between 1 and 1048576",
        ),
        ("n_inner", json!(0), "0, but must be between 1 and 65536"),
        (
            "layer_norm_epsilon",
            json!(0.0),
            "0.0, but must be above 0 and at most 1",
        ),
        (
            "attn_pdrop",
            json!(1.0),
            "1.0, but must be at least 0 and below 1",
        ),
    ];
    for (key, value, expected) in cases {
        let mut fixture = Fixture::new();
        fixture.config[key] = value;
        assert_eq!(
            fixture_message(&fixture),
            format!("config.json: {key} is {expected}")
        );
    }
}

#[test]
fn folders_without_usable_files_say_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    assert!(message(&path.join("absent")).contains("cannot read"));

    assert!(message(path).ends_with(
        "it has none of model.safetensors, model.safetensors.index.json, model.sparse.safetensors"
    ));
    fs::write(path.join("pytorch_model.bin"), b"x").unwrap();
    assert!(message(path).contains("its pytorch_model.bin is not read"));

    Fixture::new().write(path);
    fs::write(path.join("model.sparse.safetensors"), b"x").unwrap();
    assert!(
        message(path)
            .contains("holds model.safetensors and model.sparse.safetensors; name the one to read")
    );
    fs::rename(
        path.join("model.sparse.safetensors"),
        path.join("checkpoint.bpk"),
    )
    .unwrap();
    assert!(message(path).contains("holds checkpoint.bpk and model.safetensors"));
    assert!(message(&path.join("checkpoint.bpk")).contains("cannot read checkpoint"));
    fs::remove_file(path.join("checkpoint.bpk")).unwrap();

    fs::write(path.join("config.json"), b"[]").unwrap();
    assert!(message(path).contains("config.json cannot be used: it is no JSON object"));
    fs::remove_file(path.join("config.json")).unwrap();
    assert!(message(path).contains("config.json: "));
}

#[test]
fn indices_of_shards_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Fixture::new();
    fs::rename(
        fixture.write(dir.path()),
        dir.path().join("one.safetensors"),
    )
    .unwrap();
    let index = |map: Value| {
        let text = json!({ "weight_map": map }).to_string();
        fs::write(dir.path().join("model.safetensors.index.json"), text).unwrap();
        message(dir.path())
    };
    let all: BTreeMap<_, _> = fixture
        .tensors
        .keys()
        .map(|n| (n, "one.safetensors"))
        .collect();
    let with = |name: &str, file: &str| {
        let mut map = json!(all);
        map[name] = json!(file);
        map
    };

    let absent = index(with("wte.weight", "two.safetensors"));
    assert!(absent.contains("two.safetensors: "), "{absent}");
    let unknown = index(with("x.weight", "one.safetensors"));
    assert!(
        unknown.ends_with("x.weight is not in one.safetensors, where it should be"),
        "{unknown}"
    );
    for outside in [
        "../one.safetensors",
        "/one.safetensors",
        "a/one.safetensors",
        ".",
        "",
    ] {
        let message = index(with("wte.weight", outside));
        assert!(
            message.contains("but must be a name without a folder"),
            "{message}"
        );
    }
    let no_index = index(json!("one.safetensors"));
    assert!(
        no_index.contains("it is no index of safetensors files"),
        "{no_index}"
    );
    let mut map = json!(all);
    map.as_object_mut().unwrap().remove("wpe.weight");
    let missing = index(map);
    assert!(
        missing.contains("index.json lacks 1 of the model's tensors: wpe.weight"),
        "{missing}"
    );
}

/// A sparse file whose tensors were changed after it was written.
fn sparse_message(change: impl FnOnce(&mut Fixture)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new();
    // The first matrix: output 1 reads inputs 0 and 2, output 2 reads input 1.
    let mut weights = vec![0.0; 64];
    (weights[1], weights[33], weights[18]) = (0.5, 0.25, -1.0);
    fixture.set("h.0.mlp.c_fc.weight", &[4, 16], &weights);
    fixture.write(dir.path());
    let options = LoadOptions {
        mode: Some(gpt2::MlpMode::Sparse),
        ..Default::default()
    };
    let pretrained = load_pretrained(dir.path(), &options, &device()).unwrap();
    let options = SaveOptions {
        format: WeightFormat::Sparse,
        ..Default::default()
    };
    let to = dir.path().join("sparse");
    save_pretrained(&pretrained.model, &pretrained.config, &to, &options).unwrap();

    let path = to.join("model.sparse.safetensors");
    fixture.tensors = crate::fixture::read_tensors(&path);
    change(&mut fixture);
    crate::fixture::write_tensors(&path, &fixture.tensors);
    message(&to)
}

#[test]
fn coordinates_of_sparse_matrices_are_checked() {
    const MATRIX: &str = "transformer.h.0.mlp.c_fc.weight";
    let set = |part: &'static str, values: Vec<i32>| {
        sparse_message(move |fixture| {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes());
            let tensor = (Dtype::I32, vec![values.len()], bytes.collect());
            fixture.tensors.insert(format!("{MATRIX}.{part}"), tensor);
        })
    };
    let offsets = |change: (usize, i32)| {
        let mut offsets = vec![3; 17];
        (offsets[0], offsets[1], offsets[2]) = (0, 0, 2);
        offsets[change.0] = change.1;
        offsets
    };
    let invalid = "the coordinates of h.0.mlp.c_fc.weight are invalid";
    let cases = [
        (set("col_indices", vec![0, 4, 1]), invalid),
        (set("col_indices", vec![2, 0, 1]), invalid),
        (set("col_indices", vec![0, 0, 1]), invalid),
        (
            set("col_indices", vec![0, -2, 1]),
            "column index -2 at position 1",
        ),
        (
            set("col_indices", vec![0, 2]),
            "col_indices has shape [2], but must have [3]",
        ),
        (set("row_offsets", offsets((1, 3))), invalid),
        (set("row_offsets", offsets((0, 1))), invalid),
        (set("row_offsets", offsets((16, 4))), invalid),
        (
            set("row_offsets", offsets((3, -1))),
            "row offset index -1 at position 3",
        ),
        (
            set("row_offsets", vec![0, 3]),
            "row_offsets has shape [2], but must have [17]",
        ),
        (
            set("shape", vec![4, 16]),
            "h.0.mlp.c_fc.weight has shape [4, 16], but must have [16, 4]",
        ),
        (
            set("shape", vec![-16, 4]),
            "h.0.mlp.c_fc.weight has shape [-16, 4], but must have [16, 4]",
        ),
    ];
    for (message, expected) in cases {
        assert!(message.contains("model.sparse.safetensors"), "{message}");
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let missing = sparse_message(|fixture| {
        fixture.tensors.remove(&format!("{MATRIX}.row_offsets"));
    });
    assert!(
        missing.ends_with("tensors: h.0.mlp.c_fc.weight.row_offsets"),
        "{missing}"
    );
    let float = sparse_message(|fixture| {
        fixture.set(&format!("{MATRIX}.col_indices"), &[3], &[0.0; 3]);
    });
    assert!(
        float.ends_with("col_indices has type F32, but must have I32"),
        "{float}"
    );
}

#[test]
fn another_version_of_the_sparse_layout_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write_config(dir.path());
    let header = json!({"__metadata__": {"format": "gpt2-sparse-csr-v2"}});
    let path = dir.path().join("model.sparse.safetensors");
    write_raw(&path, &header.to_string(), 0);
    assert!(message(dir.path()).ends_with("has version v2 of the sparse layout, but must have v1"));
}
