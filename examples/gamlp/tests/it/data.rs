use crate::folder::{Files, gzip};
use gamlp::{EdgeRule, FeatureSource, GraphFolder, GraphNote, ReadOptions, SyntheticGraph};
use std::fs;

#[test]
fn a_folder_is_read_as_it_is() {
    let data = Files::new().write().read().unwrap();
    assert_eq!(data.nodes(), 5);
    assert_eq!(data.edges, [[0, 1], [1, 2], [0, 1], [2, 3]]);
    assert_eq!(data.rule, EdgeRule::AddReverse);
    assert_eq!(data.features.width, 2);
    assert_eq!(
        data.features.values,
        [1.0, -2.0, 0.5, 0.0, 0.0, 0.3, 4.0, 5.0, 0.0, 1.0]
    );
    assert_eq!(data.features.row(2), [0.0, 0.3]);
    let labels: Vec<_> = (0..5).map(|node| data.labels.get(node)).collect();
    assert_eq!(labels, [Some(0), Some(2), Some(1), None, Some(2)]);
    assert_eq!(data.labels.classes(), 3);
    assert_eq!(data.split.train, [0, 2]);
    assert_eq!(data.split.valid, [1]);
    assert_eq!(data.split.test, [4]);
}

#[test]
fn a_byte_order_mark_does_not_matter() {
    let expected = Files::new().write().read().unwrap();
    let mut marked = Files::new();
    for text in marked.0.values_mut() {
        text.insert(0, '\u{feff}');
    }
    assert_eq!(marked.write().read().unwrap(), expected);
}

#[test]
fn what_may_be_a_mistake_is_noted() {
    let data = Files::new().write().read().unwrap();
    let notes = data.notes();
    let (classes, nodes) = (3, 5);
    let expected = [
        GraphNote::ClassesNotLearned { found: 1, classes },
        GraphNote::NodesWithoutEdges { found: 1, nodes },
    ];
    assert_eq!(notes, expected);
    assert_eq!(
        notes[0].to_string(),
        "1 of 3 classes are without a node to learn from, and cannot be learned"
    );
    assert_eq!(
        notes[1].to_string(),
        "no edge leads to 1 of 5 nodes: what is propagated to them is zero"
    );
    let whole = Files::new()
        .with("raw/node-label", "0\n2\n1\n1\n2\n")
        .with("raw/edge", "0,1\n1,2\n0,4\n2,3\n")
        .with("split/random/train", "0\n1\n2\n")
        .with("split/random/valid", "4\n")
        .with("split/random/test", "3\n");
    assert_eq!(whole.write().read().unwrap().notes(), []);
}

#[test]
fn ends_of_lines_and_parts_of_a_stream_do_not_matter() {
    let expected = Files::new().write().read().unwrap();
    let folder = Files::new()
        .with("raw/edge", "0,1\r\n1,2\r\n 0 , 1\r\n2,3")
        .write();
    assert_eq!(folder.read().unwrap(), expected);
    let parts = [gzip(b"0\n2\n1."), gzip(b"0\nnan\n2\n")].concat();
    fs::write(folder.file("raw/node-label"), parts).unwrap();
    assert_eq!(folder.read().unwrap(), expected);
}

#[test]
fn degrees_and_numbers_replace_features() {
    let folder = Files::new().without("raw/node-feat").write();
    let read = |features, rule| {
        let options = ReadOptions {
            features,
            rule,
            ..ReadOptions::default()
        };
        folder.read_with(options).unwrap().features
    };
    let logs = |degrees: [f64; 5]| degrees.map(|d| d.ln_1p() as f32);
    let degrees = read(FeatureSource::Degree, EdgeRule::AddReverse);
    assert_eq!(
        (degrees.width, &degrees.values[..]),
        (1, &logs([2.0, 3.0, 2.0, 1.0, 0.0])[..])
    );
    let degrees = read(FeatureSource::Degree, EdgeRule::AsStored);
    assert_eq!(degrees.values, logs([0.0, 2.0, 1.0, 1.0, 0.0]));

    let numbers = read(FeatureSource::OneHot, EdgeRule::AddReverse);
    assert_eq!(numbers.width, 5);
    assert_eq!(numbers.row(1), [0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(numbers.values.iter().sum::<f32>(), 5.0);
}

#[test]
fn one_of_several_splits_can_be_named() {
    let folder = Files::new()
        .with("split/time/train", "4\n")
        .with("split/time/valid", "2\n")
        .with("split/time/test", "0\n")
        .write();
    let options = ReadOptions {
        split: Some("time".into()),
        ..ReadOptions::default()
    };
    assert_eq!(folder.read_with(options).unwrap().split.train, [4]);
    let error = folder.read().unwrap_err();
    assert_eq!(
        folder.message(&error),
        "split must hold the folder of one split, but holds random, time; choose one with --split"
    );
}

/// Blocks of lines are parsed by several threads, and stay in order.
#[test]
fn a_long_file_stays_in_order() {
    let count = 400_000;
    let edges: String = (0..count)
        .map(|i| format!("{},{}\n", i % 5, i % 3))
        .collect();
    let files = Files::new()
        .with("raw/edge", &edges)
        .with("raw/num-edge-list", &count.to_string());
    let data = files.write().read().unwrap();
    assert_eq!(data.edges.len(), count);
    let in_order = |(i, edge): (usize, &[u32; 2])| *edge == [i as u32 % 5, i as u32 % 3];
    assert!(data.edges.iter().enumerate().all(in_order));

    let wrong = edges.replacen("3,2\n", "3,x\n", 1) + "9,9\n";
    let folder = files.with("raw/edge", &wrong).write();
    let error = folder.read().unwrap_err();
    assert_eq!(
        folder.message(&error),
        "raw/edge.csv.gz, line 9: \"x\" is not an integer"
    );
}

#[test]
fn the_files_of_a_folder_are_known_before_they_are_read() {
    let folder = Files::new().write();
    let found = GraphFolder::open(folder.path(), ReadOptions::default()).unwrap();
    assert_eq!(found.files().len(), 8);
    assert!(found.files().iter().all(|path| path.is_file()));
}

#[test]
fn a_written_graph_is_read_as_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let read = || {
        GraphFolder::open(dir.path(), ReadOptions::default())
            .unwrap()
            .read()
            .unwrap()
    };
    let data = SyntheticGraph::small().generate().unwrap();
    data.write(dir.path(), "random").unwrap();
    assert_eq!(read(), data);
    // What was there is replaced; nodes without label stay so.
    let data = Files::new().write().read().unwrap();
    data.write(dir.path(), "random").unwrap();
    assert_eq!(read(), data);
    assert_eq!(
        std::fs::read_dir(dir.path().join("raw")).unwrap().count(),
        5
    );
}
