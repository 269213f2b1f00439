//! Which connections enter.

mod gradient_top_k;
mod sampled;
mod unfired;
mod uniform;

pub use gradient_top_k::*;
pub use sampled::*;
pub use unfired::*;
pub use uniform::*;

use rand::Rng;

use super::{DstError, LayerView, Signals};
use crate::pattern::{Pattern, members};
use crate::tensor::Candidate;

/// How many connections a layer gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota<'a> {
    /// So many anywhere in the layer.
    Layer(usize),
    /// `rows[i]` in row `i`.
    Rows(&'a [usize]),
}

impl Quota<'_> {
    /// The number of connections in all.
    pub fn total(&self) -> usize {
        match self {
            Self::Layer(count) => *count,
            Self::Rows(rows) => rows.iter().sum(),
        }
    }
}

/// Rows and columns of a layer, each increasing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rectangle {
    /// Outputs.
    pub rows: Vec<u32>,
    /// Inputs.
    pub cols: Vec<u32>,
}

/// What is asked of a grow criterion.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Request<'a> {
    /// How many coordinates.
    pub quota: Quota<'a>,
    /// Coordinates that must not be proposed.
    pub taken: &'a Pattern,
    /// Where the coordinates must lie; `None` is the whole layer. Only with a quota for the layer.
    pub within: Option<&'a Rectangle>,
}

impl<'a> Request<'a> {
    /// Asks for coordinates outside `taken`, anywhere.
    pub fn new(quota: Quota<'a>, taken: &'a Pattern) -> Self {
        Self {
            quota,
            taken,
            within: None,
        }
    }
}

/// Chooses new connections of a layer.
pub trait Grow: Send + Sync {
    /// What the choice depends on, beyond pattern and values.
    fn needs(&self) -> Signals {
        Signals::NONE
    }

    /// Distinct flat indices `row * k + col` of coordinates that the request allows, ascending: as
    /// many as its quota says, or all that there are if those are fewer.
    ///
    /// # Errors
    ///
    /// Returns an error if data is not there that [`needs`](Self::needs) names.
    fn propose(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, DstError>;

    /// As [`propose`](Self::propose) with a score for every coordinate, best first, where the
    /// criterion has one that can be compared over layers. A scope of the whole network then gives
    /// the places to the best of all layers; without scores every layer regrows what it lost.
    ///
    /// # Errors
    ///
    /// As [`propose`](Self::propose).
    fn ranked(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Option<Vec<Candidate>>, DstError> {
        let _ = (layer, request, rng);
        Ok(None)
    }

    /// Refuses numbers out of range, before anything is updated.
    ///
    /// # Errors
    ///
    /// The first that is.
    fn validate(&self) -> Result<(), DstError> {
        Ok(())
    }
}

impl Grow for Box<dyn Grow> {
    fn needs(&self) -> Signals {
        (**self).needs()
    }

    fn propose(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, DstError> {
        (**self).propose(layer, request, rng)
    }

    fn ranked(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Option<Vec<Candidate>>, DstError> {
        (**self).ranked(layer, request, rng)
    }

    fn validate(&self) -> Result<(), DstError> {
        (**self).validate()
    }
}

/// The flat indices of distinct candidates of a layer with `size` coordinates, ascending.
pub(crate) fn flats_of(candidates: &[Candidate], size: u64) -> Vec<u64> {
    // A set of bits is faster than sorting, unless most of its words are empty.
    let inside = |candidate: &Candidate| candidate.flat < size;
    if size / 64 <= 4 * candidates.len() as u64 && candidates.iter().all(inside) {
        let mut words = vec![0u64; size.div_ceil(64) as usize];
        for candidate in candidates {
            words[(candidate.flat / 64) as usize] |= 1 << (candidate.flat % 64);
        }
        let flats = members(&words, candidates.len());
        if flats.len() == candidates.len() {
            return flats;
        }
    }
    let mut flats: Vec<u64> = candidates.iter().map(|candidate| candidate.flat).collect();
    flats.sort_unstable();
    flats
}

/// The coordinates of one row as a layer of its own.
pub(crate) fn row_pattern(pattern: &Pattern, row: usize) -> Pattern {
    let cols = pattern.row(row).to_vec();
    Pattern::from_offsets([1, pattern.columns()], vec![0, cols.len()], cols)
        .expect("a row of a pattern is a pattern")
}

/// Number of coordinates of a row that are not taken.
pub(crate) fn free_in_row(taken: &Pattern, row: usize) -> usize {
    taken.columns() - taken.row(row).len()
}
