use super::DataError;
use clap::ValueEnum;
use core::hash::Hasher;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// What a stored edge stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
pub enum EdgeRule {
    /// The edge and its reverse, as in ogbn-products. An edge from a node to itself counts twice.
    AddReverse,
    /// The edge alone, as in ogbn-arxiv.
    AsStored,
}

impl core::fmt::Display for EdgeRule {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(match self {
            Self::AddReverse => "add-reverse",
            Self::AsStored => "as-stored",
        })
    }
}

/// Where the features of nodes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
pub enum FeatureSource {
    /// The data set.
    File,
    /// One feature, `ln(1 + d)` for a node with `d` incoming edges.
    Degree,
    /// The number of the node, one-hot: as many features as nodes.
    OneHot,
}

/// Features of nodes in single precision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FeatureMatrix {
    /// Number of features of a node.
    pub width: usize,
    /// `nodes x width` numbers, the features of a node next to each other.
    pub values: Vec<f32>,
}

impl FeatureMatrix {
    /// Most nodes that one-hot features are made for: 1 GiB of them.
    pub const MOST_ONE_HOT: usize = 1 << 14;

    /// One feature per node, `ln(1 + degree)`.
    pub fn from_degrees(degrees: &[u32]) -> Self {
        let feature = |&degree: &u32| f64::from(degree).ln_1p() as f32;
        Self {
            width: 1,
            values: degrees.iter().map(feature).collect(),
        }
    }

    /// The identity.
    ///
    /// # Errors
    ///
    /// [`DataError::OneHot`] if there are more than [`MOST_ONE_HOT`](Self::MOST_ONE_HOT) nodes.
    pub fn one_hot(nodes: usize) -> Result<Self, DataError> {
        let max = Self::MOST_ONE_HOT;
        if nodes > max {
            return Err(DataError::OneHot { nodes, max });
        }
        let mut values = vec![0.0; nodes * nodes];
        values.iter_mut().step_by(nodes + 1).for_each(|x| *x = 1.0);
        Ok(Self {
            width: nodes,
            values,
        })
    }

    /// The features of a node.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn row(&self, node: usize) -> &[f32] {
        &self.values[node * self.width..(node + 1) * self.width]
    }
}

/// The classes of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Vec<u32>);

impl Labels {
    /// The largest class, so that logits stay of a reasonable width.
    pub const MAX: u32 = (1 << 20) - 1;
    /// Stands for a node without label.
    const NONE: u32 = u32::MAX;

    /// The class of every node.
    pub fn new(labels: impl IntoIterator<Item = Option<u32>>) -> Self {
        let stored = labels.into_iter().map(|label| label.unwrap_or(Self::NONE));
        Self(stored.collect())
    }

    pub(crate) fn from_stored(labels: Vec<u32>) -> Self {
        Self(labels)
    }

    pub(crate) fn stored(&self) -> &[u32] {
        &self.0
    }

    /// The class of a node, if it has one.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn get(&self, node: u32) -> Option<u32> {
        let label = self.0[node as usize];
        (label != Self::NONE).then_some(label)
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// If there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of classes: one more than the largest.
    pub fn classes(&self) -> usize {
        let known = self.0.iter().filter(|&&label| label != Self::NONE);
        known.max().map_or(0, |&label| label as usize + 1)
    }
}

/// The nodes to learn from, to select by, and to judge by. No node is in two of them; a node may be
/// in none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSplit {
    /// To learn from.
    pub train: Vec<u32>,
    /// To select the best epoch by.
    pub valid: Vec<u32>,
    /// To judge the result by.
    pub test: Vec<u32>,
}

/// A graph whose nodes have features and classes.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphData {
    /// `[source, target]` of every stored edge.
    pub edges: Vec<[u32; 2]>,
    /// What a stored edge stands for.
    pub rule: EdgeRule,
    /// The features of every node.
    pub features: FeatureMatrix,
    /// The class of every node.
    pub labels: Labels,
    /// Which nodes serve for what.
    pub split: NodeSplit,
}

impl GraphData {
    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.labels.len()
    }

    /// XXH3 of edges, features, labels and splits, in the byte order of the machine.
    pub fn content_hash(&self) -> u64 {
        let mut hasher = XxHash3_64::new();
        let lists = [
            bytemuck::cast_slice(&self.edges),
            bytemuck::cast_slice(&self.features.values),
            bytemuck::cast_slice(self.labels.stored()),
            bytemuck::cast_slice(&self.split.train),
            bytemuck::cast_slice(&self.split.valid),
            bytemuck::cast_slice(&self.split.test),
        ];
        for bytes in lists {
            let bytes: &[u8] = bytes;
            hasher.write(&(bytes.len() as u64).to_le_bytes());
            hasher.write(bytes);
        }
        hasher.finish()
    }

    /// Number of incoming edges of every node, by the [`rule`](Self::rule).
    pub fn in_degrees(&self) -> Vec<u32> {
        let mut degrees = vec![0_u32; self.nodes()];
        for &[source, target] in &self.edges {
            degrees[target as usize] += 1;
            if self.rule == EdgeRule::AddReverse {
                degrees[source as usize] += 1;
            }
        }
        degrees
    }

    /// Replaces the features by those of `source`; those of a file stay.
    ///
    /// # Errors
    ///
    /// [`DataError::OneHot`] if there are too many nodes for one-hot features.
    pub fn with_features(mut self, source: FeatureSource) -> Result<Self, DataError> {
        match source {
            FeatureSource::File => {}
            FeatureSource::Degree => {
                self.features = FeatureMatrix::from_degrees(&self.in_degrees());
            }
            FeatureSource::OneHot => self.features = FeatureMatrix::one_hot(self.nodes())?,
        }
        Ok(self)
    }
}
