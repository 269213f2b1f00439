//! Names of classes: read with a data set, and printed with what is classified.

use crate::{
    folder::{Files, gzip},
    support::{finish, tiny},
};
use gamlp::{
    Args, DataError, GraphArgs, GraphFolder, GraphSource, InferArgs, Outcome, ReadOptions,
};
use std::fs;

const FILE: &str = "mapping/labelidx2area";

fn names(files: &Files) -> Result<Option<Vec<String>>, String> {
    let folder = files.write();
    let graph = GraphFolder::open(folder.path(), ReadOptions::default()).unwrap();
    let names = graph.class_names(3);
    let names = names.map_err(|error: DataError| folder.message(&error))?;
    Ok(names.map(|names| (0..3).map(|class| names.of(class).into()).collect()))
}

#[test]
fn names_are_those_of_the_lines() {
    assert_eq!(names(&Files::new()), Ok(None));
    let nodes_alone = Files::new().with("mapping/nodeidx2name", "node idx,name\n0,a\n");
    assert_eq!(names(&nodes_alone), Ok(None));
    let text = "label idx,area\r\n2,\"c, \"\"d\"\"\"\r\n0,a & b\r\n1,\r\n7,of no node\r\n";
    let expected = ["a & b", "", "c, \"d\""].map(String::from).to_vec();
    assert_eq!(names(&Files::new().with(FILE, text)), Ok(Some(expected)));
}

#[test]
fn what_names_no_class_is_named() {
    let message = |text: &str| names(&Files::new().with(FILE, text)).unwrap_err();
    let file = "mapping/labelidx2area.csv.gz";
    assert_eq!(
        message("label idx,area\n0,a\n1;b\n2,c\n"),
        format!("{file}, line 3: it has 1 fields, but must have 2")
    );
    assert_eq!(
        message("label idx,area\n0,a\n0,b\n2,c\n"),
        format!("{file}, line 3: class 0 has a name already")
    );
    for text in ["", "0,a\n1,b\n2,c\n"] {
        assert_eq!(
            message(text),
            format!(
                "{file} has no line for class 0 after its header line, but must name all 3 classes"
            )
        );
    }
    let two = Files::new().with(FILE, "").with("mapping/labelidx2b", "");
    assert_eq!(
        names(&two).unwrap_err(),
        "mapping must hold one file labelidx2*.csv.gz, but holds labelidx2area.csv.gz, \
         labelidx2b.csv.gz"
    );
}

#[test]
fn classified_nodes_have_the_names_of_their_classes() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("graph");
    let data = GraphSource::Shipped.load(None).unwrap().0;
    data.write(&folder, "random").unwrap();
    let mapping = folder.join("mapping");
    fs::create_dir(&mapping).unwrap();
    let lines: String = (0..5)
        .map(|class| format!("{class},name {class}\n"))
        .collect();
    let text = format!("label idx,name\n{lines}");
    let path = mapping.join("labelidx2name.csv.gz");
    fs::write(&path, gzip(text.as_bytes())).unwrap();

    let args = Args {
        epochs: vec![1],
        graph: GraphArgs {
            data: Some(folder),
            cache: Some(dir.path().join("cache")),
            ..GraphArgs::default()
        },
        ..tiny(dir.path())
    };
    let Outcome::Finished { dir: run, .. } = finish(&args).unwrap() else {
        panic!("nothing asked to stop");
    };
    let args = InferArgs {
        run: Some(run),
        classify: vec![3, 17],
        graph: GraphArgs {
            data: None,
            ..args.graph
        },
        device: args.device,
        quiet: true,
        ..InferArgs::default()
    };
    let found = gamlp::classify(&args).unwrap().0;
    for node in &found {
        assert_eq!(node.class_name, Some(format!("name {}", node.class)));
        let label = data.labels.get(node.node).unwrap();
        assert_eq!(node.label_name, Some(format!("name {label}")));
    }

    fs::write(&path, gzip(b"label idx,name\n0,a\n1\n")).unwrap();
    let error = gamlp::classify(&args).unwrap_err().to_string();
    assert!(error.contains("csv.gz, line 3: it has 1 fields"), "{error}");
}
