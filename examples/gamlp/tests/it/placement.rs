//! Where the inputs of nodes lie: in memory, in files, on the device.

use crate::support::{device, finish, log_lines, tiny};
use burn::tensor::Tensor;
use gamlp::{
    Args, CacheError, GamlpError, GraphArgs, GraphData, GraphId, GraphSource, HopFiles, HopKind,
    Interrupt, NodeTask, Outcome, Part, Preparation, ReliableSet, SyntheticGraph,
};
use std::{fs, path::Path};

const HOPS: [usize; 2] = [3, 2];

fn graph() -> (GraphId, GraphData) {
    let data = SyntheticGraph::small().generate().unwrap();
    (GraphId::new(&GraphSource::Shipped, &data), data)
}

fn prepare(preparation: &Preparation) -> NodeTask {
    let (id, data) = graph();
    NodeTask::prepare(id, data, preparation, &device()).unwrap()
}

/// Bits of all matrices.
fn bits(task: &NodeTask) -> Vec<Vec<u32>> {
    let inputs = task.inputs();
    let matrices = inputs.hops().iter().chain([inputs.label_embedding()]);
    matrices
        .map(|matrix| matrix.values().iter().map(|x| x.to_bits()).collect())
        .collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn files_hold_what_memory_does_and_are_used_again() {
    let expected = bits(&prepare(&Preparation::in_memory(HOPS)));
    assert_eq!(expected.len(), 5);

    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("new");
    let preparation = Preparation {
        keep_graph: false,
        ..Preparation::in_files(HOPS, &folder)
    };
    let first = prepare(&preparation);
    assert!(first.inputs().hops().iter().all(|hop| hop.is_file()));
    assert!(first.inputs().label_embedding().is_file());
    assert_eq!(bits(&first), expected);
    let written = names(&folder);
    assert_eq!(written.len(), 5, "{written:?}");

    let files = HopFiles::new(&folder, first.id());
    let path = files.path(HopKind::Features(2));
    let time = || fs::metadata(&path).unwrap().modified().unwrap();
    let before = time();
    assert_eq!(bits(&prepare(&preparation)), expected);
    assert_eq!(time(), before);
    assert_eq!(names(&folder), written);

    // Later stages need the graph, whose features are still found.
    let task = prepare(&Preparation {
        keep_graph: true,
        ..preparation
    });
    assert_eq!(time(), before);
    let other = task.with_reliable(&ReliableSet::default()).unwrap();
    assert_eq!(bits(&other), expected);
    // Its embedding belongs to one model, so that no run can use it again.
    assert!(other.inputs().label_embedding().is_file());
    #[cfg(unix)]
    assert_eq!(names(&folder), written);
}

#[test]
fn a_limit_decides_between_memory_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut preparation = Preparation::in_files(HOPS, dir.path());
    preparation.host_bytes = preparation.bytes(&graph().1);
    assert_eq!(preparation.host_bytes, 600 * (4 * 16 + 5) * 4);
    assert!(!prepare(&preparation).inputs().hops()[0].is_file());
    assert!(names(dir.path()).is_empty());
    preparation.host_bytes -= 1;
    assert!(prepare(&preparation).inputs().hops()[0].is_file());
}

#[test]
fn files_that_cannot_be_used_are_named_and_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let preparation = Preparation::in_files(HOPS, dir.path());
    let expected = bits(&prepare(&preparation));
    let (id, _) = graph();
    let files = HopFiles::new(dir.path(), &id);
    let kind = HopKind::Features(1);
    let path = files.path(kind);
    let whole = fs::read(&path).unwrap();
    let open = || files.open(kind, [600, 16]);
    assert_eq!(open().unwrap().unwrap().width(), 16);
    assert!(
        files
            .open(HopKind::Features(9), [600, 16])
            .unwrap()
            .is_none()
    );
    assert!(matches!(
        files.open(kind, [600, 17]),
        Err(CacheError::Stale)
    ));

    let other = GraphId { hash: 1, ..id };
    let foreign = HopFiles::new(dir.path(), &other);
    fs::copy(&path, foreign.path(kind)).unwrap();
    assert!(matches!(
        foreign.open(kind, [600, 16]),
        Err(CacheError::Stale)
    ));

    type Damage = fn(&mut Vec<u8>);
    type Expected = fn(&CacheError) -> bool;
    let damage: [(Damage, Expected); 5] = [
        (|file| file[0] ^= 1, |e| matches!(e, CacheError::Foreign)),
        (
            |file| file[8] ^= 2,
            |e| matches!(e, CacheError::Version { found: 3 }),
        ),
        (
            |file| file[50] ^= 1,
            |e| matches!(e, CacheError::Damaged { .. }),
        ),
        (
            |file| file[20_000] ^= 1,
            |e| matches!(e, CacheError::Damaged { .. }),
        ),
        (
            |file| file.truncate(30_000),
            |e| {
                matches!(
                    e,
                    CacheError::Length {
                        found: 30_000,
                        expected: 38_464
                    }
                )
            },
        ),
    ];
    for (change, expected_error) in damage {
        let mut file = whole.clone();
        change(&mut file);
        // Another file: the old one is mapped.
        fs::remove_file(&path).unwrap();
        fs::write(&path, file).unwrap();
        let error = open().unwrap_err();
        assert!(expected_error(&error), "{error}");
        assert_eq!(bits(&prepare(&preparation)), expected);
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("file");
    fs::write(&folder, "no folder").unwrap();
    let (id, data) = graph();
    let preparation = Preparation::in_files(HOPS, &folder);
    let error = NodeTask::prepare(id, data, &preparation, &device()).unwrap_err();
    assert!(matches!(error, GamlpError::HopFiles { .. }));
    assert!(error.to_string().contains("--host-mb"), "{error}");
}

/// Large graphs are propagated for minutes, and leave gigabytes.
#[test]
fn an_interrupt_ends_the_preparation_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let (in_files, in_memory) = (
        Preparation::in_files(HOPS, dir.path()),
        Preparation::in_memory(HOPS),
    );
    for preparation in [in_files, in_memory] {
        let preparation = Preparation {
            interrupt: Interrupt::after_step(0),
            ..preparation
        };
        let (id, data) = graph();
        let error = NodeTask::prepare(id, data, &preparation, &device()).unwrap_err();
        assert!(matches!(error, GamlpError::Interrupted), "{error}");
        assert_eq!(error.exit_code(), 130);
    }
    assert_eq!(names(dir.path()), [""; 0]);

    let out = dir.path().join("run");
    let args = Args {
        prepare: true,
        out: None,
        ..tiny(dir.path())
    };
    for args in [args, tiny(&out)] {
        let error = gamlp::run(&args, &Interrupt::after_step(0)).unwrap_err();
        assert!(matches!(error, GamlpError::Interrupted), "{error}");
    }
    assert!(!out.exists());
}

#[test]
fn rows_on_the_device_are_those_of_the_host() {
    let width = (4 * 16 + 5) * 4;
    // 120 nodes to learn from, 120 to select by, 360 to judge by.
    for (rows, expected) in [(119, 0), (120, 120), (239, 120), (599, 240), (600, 600)] {
        let preparation = Preparation {
            device_bytes: rows * width,
            ..Preparation::in_memory(HOPS)
        };
        let task = prepare(&preparation);
        assert_eq!(task.rows_on_device(), expected);
        let host = prepare(&Preparation::in_memory(HOPS));
        let split = task.split();
        let mixed = [split.train[5], split.test[3], split.valid[0]];
        let learned = [split.train[7], split.train[0], split.train[7]];
        for nodes in [&mixed, &learned] {
            for device in [device(), device().autodiff()] {
                let (found, expected) = (task.batch(nodes, &device), host.batch(nodes, &device));
                assert_eq!(found.hops.dims()[1], 4);
                assert_same(&found.hops, &expected.hops);
                assert_same(&found.label_embedding, &expected.label_embedding);
            }
        }
        let other = task.with_reliable(&ReliableSet::default()).unwrap();
        assert_eq!(other.rows_on_device(), expected);
    }
}

fn assert_same<const D: usize>(found: &Tensor<D>, expected: &Tensor<D>) {
    assert_eq!(found.device(), expected.device());
    found.to_data().assert_eq(&expected.to_data(), true);
}

/// Reliable nodes change the label embedding, of which the device has rows as well.
#[test]
fn rows_on_the_device_follow_the_labels() {
    let preparation = |device_bytes| Preparation {
        device_bytes,
        ..Preparation::in_memory(HOPS)
    };
    let (_, data) = graph();
    let mut reliable = ReliableSet {
        nodes: vec![data.split.test[0]],
        ..ReliableSet::default()
    };
    reliable.probabilities.width = 5;
    reliable.probabilities.values = vec![0.1, 0.9, 0.0, 0.0, 0.0];
    let of = |bytes| {
        let task = prepare(&preparation(bytes)).with_reliable(&reliable);
        task.unwrap()
    };
    let (found, expected) = (of(u64::MAX), of(0));
    let nodes = &data.split.test[..50];
    let labels = |task: &NodeTask| task.batch(nodes, &device()).label_embedding;
    assert_same(&labels(&found), &labels(&expected));
}

#[test]
fn runs_with_inputs_elsewhere_are_the_same_runs() {
    let stages = |dir: &Path| Args {
        epochs: vec![4, 3],
        threshold: Some(0.6),
        ..tiny(dir)
    };
    let plain = tempfile::tempdir().unwrap();
    finish(&stages(plain.path())).unwrap();
    let other = tempfile::tempdir().unwrap();
    let args = Args {
        graph: GraphArgs {
            host_mb: Some(0),
            device_mb: Some(1),
            cache: Some(other.path().join("cache")),
            ..GraphArgs::default()
        },
        ..stages(other.path())
    };
    finish(&args).unwrap();
    let results = |dir: &Path| -> Vec<_> {
        let lines = log_lines(dir).into_iter();
        lines.map(|line| (line.loss, line.accuracy)).collect()
    };
    assert_eq!(results(other.path()), results(plain.path()));
    assert_eq!(names(&other.path().join("cache")).len(), 4);
}

#[test]
fn a_graph_can_be_prepared_for_the_next_run() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let args = Args {
        prepare: true,
        out: None,
        graph: GraphArgs {
            cache: Some(cache.clone()),
            ..GraphArgs::default()
        },
        ..tiny(dir.path())
    };
    let outcome = finish(&args).unwrap();
    let expected = Outcome::Prepared {
        folder: cache.clone(),
        nodes: 600,
    };
    assert_eq!(outcome, expected);
    assert_eq!(names(dir.path()), ["cache"]);
    let times = || -> Vec<_> {
        let paths = names(&cache).into_iter().map(|name| cache.join(name));
        paths
            .map(|path| fs::metadata(path).unwrap().modified().unwrap())
            .collect()
    };
    let before = times();
    assert_eq!(before.len(), 4);
    let run = Args {
        prepare: false,
        graph: GraphArgs {
            host_mb: Some(0),
            ..args.graph
        },
        ..tiny(dir.path())
    };
    finish(&run).unwrap();
    assert_eq!(times(), before);
}

#[test]
fn only_the_parts_that_are_asked_for_are_evaluated() {
    let dir = tempfile::tempdir().unwrap();
    let args = Args {
        eval_parts: vec![Part::Valid],
        ..tiny(dir.path())
    };
    let outcome = finish(&args).unwrap().to_string();
    assert!(outcome.contains("validation accuracy"), "{outcome}");
    let lines = log_lines(dir.path());
    for accuracy in lines.iter().map(|line| line.accuracy.unwrap()) {
        assert_eq!((accuracy.train, accuracy.test), (None, None));
        assert!(accuracy.valid > 0.0);
    }
    let text = fs::read_to_string(dir.path().join("run/accuracy.svg")).unwrap();
    assert!(text.contains("to select by"));
}
