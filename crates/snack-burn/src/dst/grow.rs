//! Which connections enter.

use rand::Rng;

use crate::error::SparseError;
use crate::pattern::Pattern;

/// Chooses new connections of a layer.
pub trait Grow: Send + Sync {
    /// `quota` distinct flat indices `row * k + col` of inactive coordinates, ascending.
    ///
    /// `pattern` holds the connections before the update, so that one that was just dropped does
    /// not return at once.
    ///
    /// # Errors
    ///
    /// Returns an error if there are fewer than `quota` inactive coordinates.
    fn propose(
        &self,
        pattern: &Pattern,
        quota: usize,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, SparseError>;
}

/// Every inactive coordinate with equal probability (SET; Mocanu et al., 2018).
#[derive(Debug, Clone, Copy, Default)]
pub struct Uniform;

impl Grow for Uniform {
    fn propose(
        &self,
        pattern: &Pattern,
        quota: usize,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, SparseError> {
        pattern.sample_inactive(quota, rng)
    }
}
