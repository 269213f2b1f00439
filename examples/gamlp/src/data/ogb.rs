use super::{
    CacheError, ClassNames, DataError, EdgeRule, FeatureMatrix, FeatureSource, GraphCache,
    GraphData, Labels, LineFault, SourceId,
    lines::{most_values, read_lines},
    parse,
    split::{PARTS, read_split},
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
};

/// Most nodes of a graph, and most edges: a sparse matrix has 32-bit signed indices.
const MOST: i64 = i32::MAX as i64;

/// How a folder is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    /// What a stored edge stands for.
    pub rule: EdgeRule,
    /// Where the features come from.
    pub features: FeatureSource,
    /// The name of the split; may be absent if there is only one.
    pub split: Option<String>,
}

impl Default for ReadOptions {
    /// Reverse edges added, features of the data set, the only split.
    fn default() -> Self {
        Self {
            rule: EdgeRule::AddReverse,
            features: FeatureSource::File,
            split: None,
        }
    }
}

/// A folder in the node-property layout of the Open Graph Benchmark.
///
/// Of `mapping/` only [names of classes](Self::class_names) are read, and `processed/` is not.
#[derive(Debug, Clone)]
pub struct GraphFolder {
    raw: PathBuf,
    split: PathBuf,
    mapping: PathBuf,
    options: ReadOptions,
}

impl GraphFolder {
    /// Finds the files of a graph.
    ///
    /// # Errors
    ///
    /// The first file that is missing, or a split that cannot be told.
    pub fn open(folder: &Path, options: ReadOptions) -> Result<Self, DataError> {
        let split = find_split(&folder.join("split"), options.split.as_deref())?;
        let raw = folder.join("raw");
        let found = Self {
            raw,
            split,
            mapping: folder.join("mapping"),
            options,
        };
        for path in found.files() {
            match path.try_exists().map_err(DataError::read(&path))? {
                true => {}
                false if path == found.raw("node-feat") => {
                    return Err(DataError::NoFeatures { path });
                }
                false => return Err(DataError::Missing { path }),
            }
        }
        Ok(found)
    }

    /// What the classes are called, if the folder says so: the file `mapping/labelidx2*.csv.gz`.
    ///
    /// # Errors
    ///
    /// Any [`DataError`] about that file, with the line where there is one; a class without a name is
    /// one.
    pub fn class_names(&self, classes: usize) -> Result<Option<ClassNames>, DataError> {
        ClassNames::read(&self.mapping, classes)
    }

    /// Every file that the graph is read from.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut names = vec!["num-node-list", "num-edge-list", "edge", "node-label"];
        if self.options.features == FeatureSource::File {
            names.push("node-feat");
        }
        let raw = names.iter().map(|name| self.raw(name));
        let split = PARTS.map(|part| self.split.join(format!("{part}.csv.gz")));
        raw.chain(split).collect()
    }

    fn raw(&self, name: &str) -> PathBuf {
        self.raw.join(format!("{name}.csv.gz"))
    }

    /// Reads the graph.
    ///
    /// # Errors
    ///
    /// Any [`DataError`], with the line where there is one.
    pub fn read(&self) -> Result<GraphData, DataError> {
        self.read_stored()?.with_features(self.options.features)
    }

    /// Reads the graph from a cache in `folder`, which is written if there is none or it cannot be
    /// used; the reason is returned as well.
    ///
    /// # Errors
    ///
    /// Any [`DataError`]. A cache that cannot be read or written is none.
    pub fn read_cached(&self, folder: &Path) -> Result<(GraphData, Option<CacheError>), DataError> {
        let source = SourceId::of(&self.files(), &self.options)?;
        let cache = GraphCache::new(folder, source);
        let reason = match cache.open() {
            Ok(Some(data)) => return Ok((data.with_features(self.options.features)?, None)),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        let data = self.read_stored()?;
        let written = cache.write(&data).map_err(CacheError::Io);
        let data = data.with_features(self.options.features)?;
        Ok((data, reason.or(written.err())))
    }

    /// What the files hold, without features that are made from the rest.
    fn read_stored(&self) -> Result<GraphData, DataError> {
        let nodes = self.count("num-node-list", "number of nodes")?;
        let edges = self.count("num-edge-list", "number of edges")?;
        let (edges, features, labels) = thread::scope(|scope| {
            let edges = scope.spawn(|| self.edges(nodes, edges));
            let features = self.features(nodes);
            let labels = self.labels(nodes);
            let edges = edges.join().expect("reading edges does not panic");
            (edges, features, labels)
        });
        let edges = match edges {
            // What the other files hold says whether the node or the number of nodes is wrong.
            Err(error) if error.is_out_of_range() => {
                features?;
                labels?;
                return Err(error);
            }
            edges => edges?,
        };
        let (features, labels) = (features?, labels?);
        Ok(GraphData {
            edges,
            rule: self.options.rule,
            features,
            split: read_split(&self.split, &labels)?,
            labels,
        })
    }

    fn count(&self, name: &str, what: &'static str) -> Result<usize, DataError> {
        let path = self.raw(name);
        let parse = |line: &[u8], counts: &mut Vec<usize>| {
            counts.push(parse::count(line, what, MOST)?);
            Ok(())
        };
        let mut counts = Vec::new();
        let found = read_lines(&path, parse, |block| counts.extend(block))?;
        match counts[..] {
            [count] => Ok(count),
            _ => Err(DataError::Lines {
                path,
                found,
                expected: 1,
                reason: "one graph",
            }),
        }
    }

    fn edges(&self, nodes: usize, count: usize) -> Result<Vec<[u32; 2]>, DataError> {
        let path = self.raw("edge");
        let mut edges = Vec::with_capacity(count.min(most_values(&path, 4)));
        let parse = |line: &[u8], edges: &mut Vec<_>| {
            edges.push(parse::edge(line, nodes)?);
            Ok(())
        };
        let read = read_lines(&path, parse, |block| edges.extend(block));
        expect_lines(path, read, count, "the number in num-edge-list.csv.gz")?;
        Ok(edges)
    }

    fn features(&self, nodes: usize) -> Result<FeatureMatrix, DataError> {
        if self.options.features != FeatureSource::File {
            return Ok(FeatureMatrix::default());
        }
        let path = self.raw("node-feat");
        // The first line decides, and blocks are parsed in any order: it is read on its own.
        let width = first_width(&path)?;
        let room = nodes.saturating_mul(width).min(most_values(&path, 2));
        let mut values = Vec::with_capacity(room);
        let parse = |line: &[u8], values: &mut Vec<_>| parse::features(line, width, values);
        let read = read_lines(&path, parse, |block| values.extend(block));
        expect_lines(path, read, nodes, "the number in num-node-list.csv.gz")?;
        Ok(FeatureMatrix { width, values })
    }

    fn labels(&self, nodes: usize) -> Result<Labels, DataError> {
        let path = self.raw("node-label");
        let parse = |line: &[u8], labels: &mut Vec<_>| {
            labels.push(parse::label(line, nodes)?);
            Ok(())
        };
        let mut labels = Vec::with_capacity(nodes.min(most_values(&path, 2)));
        let read = read_lines(&path, parse, |block| labels.extend(block));
        expect_lines(path, read, nodes, "the number in num-node-list.csv.gz")?;
        Ok(Labels::new(labels))
    }
}

/// Compares the number of lines that were read with that which another file says. A number that is out
/// of range may follow from a wrong count, so the lines are counted before it is reported.
fn expect_lines(
    path: PathBuf,
    read: Result<u64, DataError>,
    expected: usize,
    reason: &'static str,
) -> Result<(), DataError> {
    let expected = expected as u64;
    let found = match read {
        Err(error) if error.is_out_of_range() => {
            let count = |_: &[u8], _: &mut Vec<()>| Ok(());
            match read_lines(&path, count, |_| ())? {
                found if found == expected => return Err(error),
                found => found,
            }
        }
        read => read?,
    };
    match found == expected {
        true => Ok(()),
        false => Err(DataError::Lines {
            path,
            found,
            expected,
            reason,
        }),
    }
}

/// Number of fields in the first line; 0 if there is none.
fn first_width(path: &Path) -> Result<usize, DataError> {
    let width = OnceLock::new();
    // A fault ends the reading: it is the cheapest way to stop after the first line.
    let stop = |line: &[u8], _: &mut Vec<()>| {
        let found = *width.get_or_init(|| parse::fields_of(line));
        Err(LineFault::Fields { found, expected: 0 })
    };
    match read_lines(path, stop, |_| ()) {
        Ok(_) => Ok(0),
        Err(DataError::Line {
            fault: LineFault::Fields { found, .. },
            ..
        }) => Ok(found),
        Err(error) => Err(error),
    }
}

fn find_split(folder: &Path, name: Option<&str>) -> Result<PathBuf, DataError> {
    let found = match name {
        Some(name) => folder.join(name),
        None => {
            let mut names = Vec::new();
            for entry in fs::read_dir(folder).map_err(DataError::read_folder(folder))? {
                let entry = entry.map_err(DataError::read(folder))?;
                if entry.path().is_dir() {
                    names.push(entry.file_name().to_string_lossy().into_owned());
                }
            }
            names.sort();
            match &names[..] {
                [name] => folder.join(name),
                _ => {
                    return Err(DataError::WhichSplit {
                        path: folder.into(),
                        found: names,
                    });
                }
            }
        }
    };
    if !found.is_dir() {
        return Err(DataError::MissingFolder { path: found });
    }
    let pickled = found.join("split_dict.pt");
    match pickled.exists() {
        true => Err(DataError::PickledSplit { path: pickled }),
        false => Ok(found),
    }
}
