//! Every kind of bad input is named with its file and line.

use crate::folder::{Files, gzip};
use gamlp::{DataError, FeatureMatrix, FeatureSource, GamlpError, ReadOptions};
use snack_burn::error::SparseError;
use std::fs;

/// The message for a graph in which one file has this text.
fn message(name: &'static str, text: &str) -> String {
    let folder = Files::new().with(name, text).write();
    folder.message(&folder.read().unwrap_err())
}

#[test]
fn a_missing_file_is_named() {
    for name in Files::new().0.keys() {
        let folder = Files::new().without(name).write();
        let error = folder.read().unwrap_err();
        let hint = match *name {
            "raw/node-feat" => {
                "; for a graph without features choose those made from the degree of a node or \
                 from its number"
            }
            _ => "",
        };
        let expected = format!("there is no file {name}.csv.gz{hint}");
        assert_eq!(folder.message(&error), expected);
    }
}

#[test]
fn a_missing_or_empty_split_folder_is_named() {
    let folder = Files::new().write();
    fs::remove_dir_all(folder.path().join("split")).unwrap();
    let error = folder.read().unwrap_err();
    assert_eq!(folder.message(&error), "there is no folder split");
    fs::create_dir(folder.path().join("split")).unwrap();
    let error = folder.read().unwrap_err();
    assert!(folder.message(&error).contains("holds none"));
}

#[test]
fn a_pickled_split_is_refused() {
    let folder = Files::new().write();
    fs::write(folder.path().join("split/random/split_dict.pt"), "x").unwrap();
    let error = folder.read().unwrap_err();
    assert!(matches!(error, DataError::PickledSplit { .. }));
}

#[test]
fn ragged_rows_are_named() {
    assert_eq!(
        message("raw/node-feat", "1,2\n1,2\n1\n1,2\n1,2\n"),
        "raw/node-feat.csv.gz, line 3: it has 1 fields, but must have 2"
    );
    assert_eq!(
        message("raw/node-feat", "1,2\n1,2\n1,2\n1,2,3\n1,2\n"),
        "raw/node-feat.csv.gz, line 4: it has 3 fields, but must have 2"
    );
    assert_eq!(
        message("raw/edge", "0,1\n1,2,3\n0,1\n2,3\n"),
        "raw/edge.csv.gz, line 2: it has 3 fields, but must have 2"
    );
    assert_eq!(
        message("raw/edge", "0,1\n\n0,1\n2,3\n"),
        "raw/edge.csv.gz, line 2: it has 1 fields, but must have 2"
    );
}

#[test]
fn nodes_out_of_range_are_named() {
    let nodes = "the graph has 5 nodes, counted from 0";
    for (bad, node) in [("5,0", 5), ("0,-1", -1), ("4294967296,0", 1_i64 << 32)] {
        let found = message("raw/edge", &format!("0,1\n1,2\n0,1\n{bad}\n"));
        let expected = format!("raw/edge.csv.gz, line 4: there is no node {node}: {nodes}");
        assert_eq!(found, expected);
    }
    assert_eq!(
        message("split/random/valid", "1\n5\n"),
        format!("split/random/valid.csv.gz, line 2: there is no node 5: {nodes}")
    );
    assert_eq!(
        message("raw/edge", "0,1.5\n"),
        "raw/edge.csv.gz, line 1: \"1.5\" is not an integer"
    );
}

#[test]
fn labels_that_are_no_classes_are_named() {
    assert_eq!(
        message("raw/node-label", "0\n2\n1.5\nnan\n2\n"),
        "raw/node-label.csv.gz, line 3: \"1.5\" is not an integer"
    );
    assert_eq!(
        message("raw/node-label", "0\n-2\n1\nnan\n2\n"),
        "raw/node-label.csv.gz, line 2: the label is -2, but must be between 0 and 1023 in a graph of 5 nodes"
    );
}

#[test]
fn header_lines_are_named() {
    let hint = "; these files have no header line";
    for (file, text, field) in [
        ("raw/edge", "source,target\n0,1\n", "source"),
        ("raw/node-label", "label\n0\n", "label"),
        ("raw/node-feat", "f_0,f_1\n1,2\n", "f_0"),
    ] {
        let found = message(file, text);
        let start = format!("{file}.csv.gz, line 1: {field:?} is not a");
        assert!(
            found.starts_with(&start) && found.ends_with(hint),
            "{found}"
        );
    }
    let later = message("raw/node-label", "0\nlabel\n");
    assert_eq!(
        later,
        "raw/node-label.csv.gz, line 2: \"label\" is not an integer"
    );
}

#[test]
fn a_folder_in_the_place_of_a_file_is_not_called_damaged() {
    for name in [
        "raw/edge",
        "raw/node-feat",
        "raw/num-node-list",
        "split/random/test",
    ] {
        let folder = Files::new().without(name).write();
        fs::create_dir(folder.file(name)).unwrap();
        let error = folder.read().unwrap_err();
        assert!(matches!(error, DataError::Read { .. }), "{error}");
        assert!(
            folder
                .message(&error)
                .starts_with(&format!("{name}.csv.gz cannot be read: "))
        );
    }
}

#[test]
fn the_split_is_chosen_where_there_are_several() {
    let folder = Files::new().with("split/sales/train", "0\n").write();
    let error = folder.read().unwrap_err();
    assert_eq!(
        folder.message(&error),
        "split must hold the folder of one split, but holds random, sales; choose one with --split"
    );
    let options = ReadOptions {
        split: Some("time".into()),
        ..ReadOptions::default()
    };
    let error = folder.read_with(options).unwrap_err();
    assert_eq!(folder.message(&error), "there is no folder split/time");
}

#[test]
fn features_that_are_no_numbers_are_named() {
    for bad in ["nan", "NaN", "inf", "-1e39"] {
        let found = message("raw/node-feat", &format!("1,2\n1,{bad}\n"));
        let reason = "in field 2 is not a finite number in single precision";
        assert_eq!(
            found,
            format!("raw/node-feat.csv.gz, line 2: \"{bad}\" {reason}")
        );
    }
    assert_eq!(
        message("raw/node-feat", "1,2\n1,\n"),
        "raw/node-feat.csv.gz, line 2: \"\" is not a number"
    );
}

#[test]
fn splits_that_cannot_serve_are_named() {
    for part in [
        "split/random/train",
        "split/random/valid",
        "split/random/test",
    ] {
        assert_eq!(
            message(part, ""),
            format!("the split {part}.csv.gz is empty")
        );
    }
    assert_eq!(
        message("split/random/test", "4\n3\n"),
        "split/random/test.csv.gz, line 2: node 3 has no label"
    );
    assert_eq!(
        message("split/random/test", "4\n0\n"),
        "split/random/test.csv.gz, line 2: node 0 is already part of the train split"
    );
    assert_eq!(
        message("split/random/train", "0\n0\n"),
        "split/random/train.csv.gz, line 2: node 0 is already part of the train split"
    );
}

#[test]
fn counts_that_do_not_agree_are_named() {
    assert_eq!(
        message("raw/edge", "0,1\n"),
        "raw/edge.csv.gz has 1 lines, but must have 4 (the number in num-edge-list.csv.gz)"
    );
    assert_eq!(
        message("raw/node-feat", "0,1\n"),
        "raw/node-feat.csv.gz has 1 lines, but must have 5 (the number in num-node-list.csv.gz)"
    );
    assert_eq!(
        message("raw/node-feat", ""),
        "raw/node-feat.csv.gz has 0 lines, but must have 5 (the number in num-node-list.csv.gz)"
    );
    assert_eq!(
        message("raw/node-label", "0\n0\n0\n0\n0\n0\n"),
        "raw/node-label.csv.gz has 6 lines, but must have 5 (the number in num-node-list.csv.gz)"
    );
    assert_eq!(
        message("raw/num-node-list", "5\n5\n"),
        "raw/num-node-list.csv.gz has 2 lines, but must have 1 (one graph)"
    );
}

/// Where both are wrong, the count is what is reported: numbers may be out of range because of it.
#[test]
fn counts_come_before_numbers_out_of_range() {
    assert_eq!(
        message("raw/edge", "0,1\n1,9\n"),
        "raw/edge.csv.gz has 2 lines, but must have 4 (the number in num-edge-list.csv.gz)"
    );
    assert_eq!(
        message("raw/node-label", "0\n1024\n"),
        "raw/node-label.csv.gz has 2 lines, but must have 5 (the number in num-node-list.csv.gz)"
    );
    // The edge 2,3 is right, and the number of nodes is not.
    assert_eq!(
        message("raw/num-node-list", "3"),
        "raw/node-feat.csv.gz has 5 lines, but must have 3 (the number in num-node-list.csv.gz)"
    );
    // A line of another form is no number, and ends the reading.
    assert_eq!(
        message("raw/edge", "0,1\n1\n"),
        "raw/edge.csv.gz, line 2: it has 1 fields, but must have 2"
    );
}

/// What a file promises is not believed before it is read.
#[test]
fn a_count_cannot_ask_for_all_memory() {
    let range = "but must be between 0 and 2147483647";
    assert_eq!(
        message("raw/num-edge-list", "99999999999"),
        format!("raw/num-edge-list.csv.gz, line 1: the number of edges is 99999999999, {range}")
    );
    assert_eq!(
        message("raw/num-node-list", "-1"),
        format!("raw/num-node-list.csv.gz, line 1: the number of nodes is -1, {range}")
    );
    let reason = "(the number in num-edge-list.csv.gz)";
    assert_eq!(
        message("raw/num-edge-list", "2147483647"),
        format!("raw/edge.csv.gz has 4 lines, but must have 2147483647 {reason}")
    );
}

#[test]
fn a_stream_that_is_cut_short_or_damaged_is_named() {
    let lines: String = (0..300_000)
        .map(|i| format!("{},{}\n", i % 5, i % 3))
        .collect();
    let files = Files::new()
        .with("raw/num-edge-list", "300000")
        .with("raw/edge", &lines);
    let folder = files.write();
    let path = folder.file("raw/edge");
    let whole = fs::read(&path).unwrap();
    assert!(folder.read().is_ok());

    for cut in [0, 5, 40, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        let error = folder.read().unwrap_err();
        let DataError::Gzip { line, .. } = error else {
            panic!("{cut} bytes: {error}");
        };
        assert!((1..=300_001).contains(&line), "{cut} bytes: line {line}");
        let message = folder.message(&error);
        let start =
            format!("raw/edge.csv.gz, line {line}: the gzip stream is cut short or damaged");
        assert!(message.starts_with(&start), "{message}");
    }
    let mut damaged = whole.clone();
    let checksum = damaged.len() - 6;
    damaged[checksum] ^= 1;
    fs::write(&path, damaged).unwrap();
    let error = folder.read().unwrap_err();
    assert!(
        matches!(error, DataError::Gzip { line: 300_001, .. }),
        "{error}"
    );

    fs::write(&path, "0,1\n1,2\n0,1\n2,3\n").unwrap();
    let error = folder.read().unwrap_err();
    assert!(matches!(error, DataError::Gzip { line: 1, .. }), "{error}");
}

#[test]
fn a_line_without_end_is_refused() {
    let folder = Files::new().write();
    fs::write(folder.file("raw/edge"), gzip(&vec![b'1'; 70 << 20])).unwrap();
    let error = folder.read().unwrap_err();
    assert_eq!(
        folder.message(&error),
        "raw/edge.csv.gz, line 1: it is longer than 67108864 bytes"
    );
}

/// Making such a graph takes 16 GB, so only the message is tested.
#[test]
fn a_graph_of_too_many_different_edges_is_named() {
    let error = GamlpError::Graph {
        name: "large".into(),
        source: SparseError::TooManySlots { nnz: 1 << 31 },
    };
    assert_eq!(
        error.to_string(),
        "the graph large: a pattern of 2147483648 non-zeros is too large, expected 0..=2147483647"
    );
    assert_eq!(error.exit_code(), 1);
}

#[test]
fn one_hot_features_of_a_large_graph_are_refused() {
    let most = FeatureMatrix::MOST_ONE_HOT;
    let nodes = most + 1;
    let folder = Files::new()
        .with("raw/num-node-list", &nodes.to_string())
        .with("raw/node-label", &"0\n".repeat(nodes))
        .write();
    let options = ReadOptions {
        features: FeatureSource::OneHot,
        ..ReadOptions::default()
    };
    let error = folder.read_with(options).unwrap_err();
    assert!(matches!(error, DataError::OneHot { .. }), "{error}");
    assert!(error.to_string().contains("16385 x 16385"));
}

/// Unpacking stops with the first fault, however much is left.
#[test]
fn a_fault_at_the_start_of_a_long_file_ends_the_reading() {
    let lines = format!("x\n{}", "0,1\n".repeat(5_000_000));
    assert_eq!(
        message("raw/edge", &lines),
        "raw/edge.csv.gz, line 1: it has 1 fields, but must have 2"
    );
}
