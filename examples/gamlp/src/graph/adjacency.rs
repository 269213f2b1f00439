use crate::{EdgeRule, GraphData};
use rayon::prelude::*;
use snack_burn::{error::SparseError, pattern::Pattern};

/// The edges of a graph as compressed rows: row `v` holds the sources of the edges into `v`, each once,
/// and how often it occurs.
///
/// No edge is added from a node to itself. A node without incoming edges has an empty row.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjacency {
    pattern: Pattern,
    counts: Vec<u32>,
}

impl Adjacency {
    /// Sorts the edges of a graph by target and source, and merges those that are equal.
    ///
    /// # Errors
    ///
    /// An error if there are more nodes or different edges than a [`Pattern`] can hold.
    ///
    /// # Panics
    ///
    /// Panics if an edge has an end that is no node.
    pub fn new(data: &GraphData) -> Result<Self, SparseError> {
        let degrees = data.in_degrees();
        let mut starts = Vec::with_capacity(degrees.len() + 1);
        let mut total = 0;
        starts.push(0);
        for &degree in &degrees {
            total += degree as usize;
            starts.push(total);
        }

        let mut next = starts[..degrees.len()].to_vec();
        let mut sources = vec![0_u32; total];
        let mut put = |source: u32, target: u32| {
            let slot = &mut next[target as usize];
            sources[*slot] = source;
            *slot += 1;
        };
        for &[source, target] in &data.edges {
            put(source, target);
            if data.rule == EdgeRule::AddReverse {
                put(target, source);
            }
        }
        drop(next);
        Self::merge(&degrees, sources)
    }

    /// Sorts and merges the sources of every row.
    fn merge(degrees: &[u32], mut sources: Vec<u32>) -> Result<Self, SparseError> {
        let mut rest = &mut sources[..];
        let mut rows = Vec::with_capacity(degrees.len());
        for &degree in degrees {
            let (row, after) = rest.split_at_mut(degree as usize);
            rows.push(row);
            rest = after;
        }
        let different: Vec<usize> = rows
            .into_par_iter()
            .map(|row| {
                row.sort_unstable();
                row.chunk_by(|a, b| a == b).count()
            })
            .collect();

        let mut offsets = Vec::with_capacity(degrees.len() + 1);
        let mut cols = Vec::with_capacity(different.iter().sum());
        let mut counts = Vec::with_capacity(cols.capacity());
        let mut start = 0;
        offsets.push(0);
        for &degree in degrees {
            let row = &sources[start..start + degree as usize];
            for equal in row.chunk_by(|a, b| a == b) {
                cols.push(equal[0]);
                counts.push(equal.len() as u32);
            }
            offsets.push(cols.len());
            start += degree as usize;
        }
        let nodes = degrees.len();
        Ok(Self {
            pattern: Pattern::from_offsets([nodes, nodes], offsets, cols)?,
            counts,
        })
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.pattern.shape()[0]
    }

    /// The different edges: row `v` holds the sources of the edges into `v`.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// How often every edge occurs, in the order of the pattern.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// The share of every edge among those into its target, `count / in-degree`: what makes the
    /// product with features a mean over neighbours.
    pub fn row_means(&self) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.counts.len());
        let mut rest = &self.counts[..];
        for node in 0..self.nodes() {
            let (row, after) = rest.split_at(self.pattern.row(node).len());
            rest = after;
            let degree: u64 = row.iter().map(|&count| u64::from(count)).sum();
            values.extend(
                row.iter()
                    .map(|&count| (f64::from(count) / degree as f64) as f32),
            );
        }
        values
    }
}
