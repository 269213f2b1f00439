use super::{
    CacheError, ClassNames, DataError, EdgeRule, FeatureSource, GraphData, GraphFolder, ReadOptions,
};
use crate::{GamlpError, SyntheticGraph};
use core::{fmt, str::FromStr};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The graph that ships with the example.
const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/communities");

/// Where a graph comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GraphSource {
    /// The small graph of the example.
    Shipped,
    /// A folder in the layout of the Open Graph Benchmark.
    Folder {
        /// The folder.
        path: PathBuf,
        /// How it is read.
        options: ReadOptions,
    },
    /// A random graph.
    Synthetic(SyntheticSize),
}

/// The sizes of a random graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyntheticSize {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of stored edges; each stands for two.
    pub edges: usize,
    /// Number of features of a node.
    pub features: usize,
    /// Number of classes.
    pub classes: usize,
}

impl SyntheticSize {
    /// The random graph of these sizes; that of ogbn-products has its shares of the splits, any
    /// other a fifth to learn from and a fifth to select by.
    pub fn graph(self) -> SyntheticGraph {
        let products = SyntheticGraph::products();
        let base = match self == Self::of(&products) {
            true => products,
            false => SyntheticGraph::small(),
        };
        SyntheticGraph {
            nodes: self.nodes,
            edges: self.edges,
            features: self.features,
            classes: self.classes,
            ..base
        }
    }

    fn of(graph: &SyntheticGraph) -> Self {
        Self {
            nodes: graph.nodes,
            edges: graph.edges,
            features: graph.features,
            classes: graph.classes,
        }
    }
}

impl FromStr for SyntheticSize {
    type Err = String;

    /// `products`, or `NODES,EDGES,FEATURES,CLASSES`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "products" {
            return Ok(Self::of(&SyntheticGraph::products()));
        }
        let numbers: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[nodes, edges, features, classes]) => Ok(Self {
                nodes,
                edges,
                features,
                classes,
            }),
            _ => Err("expected `products` or four numbers NODES,EDGES,FEATURES,CLASSES".into()),
        }
    }
}

impl fmt::Display for GraphSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shipped => f.write_str("communities (shipped)"),
            Self::Folder { path, .. } => write!(f, "{}", path.display()),
            Self::Synthetic(size) => write!(
                f,
                "synthetic {},{},{},{}",
                size.nodes, size.edges, size.features, size.classes
            ),
        }
    }
}

impl GraphSource {
    /// A folder, read with [`ReadOptions::default`].
    pub fn folder(path: impl Into<PathBuf>) -> Self {
        Self::Folder {
            path: path.into(),
            options: ReadOptions::default(),
        }
    }

    /// Reads or makes the graph. What was read from a folder is kept in `cache` for the next time,
    /// if that is given; why that failed is returned beside the graph.
    ///
    /// # Errors
    ///
    /// [`GamlpError::NoFolder`], [`GamlpError::Data`], [`GamlpError::NoFeatures`] and [`GamlpError::Synthetic`].
    pub fn load(
        &self,
        cache: Option<&Path>,
    ) -> Result<(GraphData, Option<CacheError>), GamlpError> {
        let read = |path: &Path, options: ReadOptions, cache: Option<&Path>| {
            let folder = GraphFolder::open(path, options)?;
            match cache {
                Some(cache) => folder.read_cached(cache),
                None => Ok((folder.read()?, None)),
            }
        };
        let found = match self {
            Self::Shipped => read(Path::new(SHIPPED), ReadOptions::default(), None),
            Self::Folder { path, .. } if !path.is_dir() => {
                return Err(GamlpError::NoFolder { path: path.clone() });
            }
            Self::Folder { path, options } => read(path, options.clone(), cache),
            Self::Synthetic(size) => return Ok((size.graph().generate()?, None)),
        };
        found.map_err(|error| match error {
            DataError::NoFeatures { path } => GamlpError::NoFeatures { path },
            other => GamlpError::Data(other),
        })
    }
}

impl GraphSource {
    /// What the `classes` classes are called, if a folder says so.
    ///
    /// # Errors
    ///
    /// [`GamlpError::Data`].
    pub fn class_names(&self, classes: usize) -> Result<Option<ClassNames>, GamlpError> {
        match self {
            Self::Folder { path, options } => {
                Ok(GraphFolder::open(path, options.clone())?.class_names(classes)?)
            }
            Self::Shipped | Self::Synthetic(_) => Ok(None),
        }
    }
}

/// What tells one graph from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphId {
    /// Where it came from.
    pub name: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of stored edges.
    pub edges: usize,
    /// What a stored edge stands for.
    pub rule: EdgeRule,
    /// XXH3 of edges, features, labels and splits.
    pub hash: u64,
}

impl GraphId {
    /// Describes a graph.
    pub fn new(source: &GraphSource, data: &GraphData) -> Self {
        Self {
            name: source.to_string(),
            nodes: data.nodes(),
            edges: data.edges.len(),
            rule: data.rule,
            hash: data.content_hash(),
        }
    }

    /// Whether the other graph is the same one, wherever it came from.
    pub fn same_graph(&self, other: &Self) -> bool {
        (self.nodes, self.edges, self.rule, self.hash)
            == (other.nodes, other.edges, other.rule, other.hash)
    }
}

impl fmt::Display for GraphId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({} nodes, {} edges {}, {:016x})",
            self.name, self.nodes, self.edges, self.rule, self.hash
        )
    }
}

impl ReadOptions {
    /// With features made from the rest of the graph.
    pub fn with_features(mut self, features: FeatureSource) -> Self {
        self.features = features;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_that_differ_in_the_rule_alone_are_told_apart() {
        let mut data = SyntheticGraph::small().generate().unwrap();
        let id = |data: &GraphData| GraphId::new(&GraphSource::Shipped, data);
        let first = id(&data);
        data.rule = EdgeRule::AsStored;
        assert!(!first.same_graph(&id(&data)));
        assert!(
            first.to_string().contains("2400 edges add-reverse, "),
            "{first}"
        );
        assert!(id(&data).to_string().contains("2400 edges as-stored, "));
    }
}
