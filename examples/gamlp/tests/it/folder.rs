//! A small graph in the layout of the Open Graph Benchmark, written by the tests themselves.

use flate2::{Compression, write::GzEncoder};
use gamlp::{DataError, GraphData, GraphFolder, ReadOptions};
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// The text of every file, to be changed before it is written.
#[derive(Clone)]
pub struct Files(pub BTreeMap<&'static str, String>);

impl Files {
    /// 5 nodes, 4 edges, 2 features, 3 classes; node 4 has no edge, node 3 no label.
    pub fn new() -> Self {
        let files = [
            ("raw/num-node-list", "5\n"),
            ("raw/num-edge-list", "4\n"),
            ("raw/edge", "0,1\n1,2\n0,1\n2,3\n"),
            ("raw/node-feat", "1.0,-2\n0.5,0\n0,3e-1\n4,5\n-0.0,1\n"),
            ("raw/node-label", "0\n2\n1.0\nnan\n2\n"),
            ("split/random/train", "0\n2\n"),
            ("split/random/valid", "1\n"),
            ("split/random/test", "4\n"),
        ];
        Self(files.map(|(name, text)| (name, text.to_string())).into())
    }

    /// With other text in one file.
    pub fn with(mut self, name: &'static str, text: &str) -> Self {
        self.0.insert(name, text.into());
        self
    }

    /// Without one file.
    pub fn without(mut self, name: &'static str) -> Self {
        self.0.remove(name);
        self
    }

    pub fn write(&self) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        for (name, text) in &self.0 {
            let path = folder.file(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, gzip(text.as_bytes())).unwrap();
        }
        folder
    }
}

/// A folder that goes with the test.
pub struct Folder(TempDir);

impl Folder {
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(format!("{name}.csv.gz"))
    }

    pub fn read_with(&self, options: ReadOptions) -> Result<GraphData, DataError> {
        GraphFolder::open(self.path(), options)?.read()
    }

    pub fn read(&self) -> Result<GraphData, DataError> {
        self.read_with(ReadOptions::default())
    }

    /// The message of an error, without the path of the folder.
    pub fn message(&self, error: &DataError) -> String {
        let folder = format!("{}/", self.path().display());
        error.to_string().replace(&folder, "")
    }
}

pub fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}
