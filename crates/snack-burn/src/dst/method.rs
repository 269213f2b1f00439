//! Rules for a whole update.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{DstError, NetView, Plan, Signals, Turnover};

/// A complete rule: which connections of all layers of a group leave, and which enter.
///
/// [`Composed`](super::Composed) makes one of a prune and a grow criterion. A rule that is no such
/// composition implements this trait.
pub trait Method: Send + Sync {
    /// What the rule looks at, beyond patterns and values.
    fn needs(&self) -> Signals {
        Signals::NONE
    }

    /// One plan for every layer of the view, in its order.
    ///
    /// # Errors
    ///
    /// Returns an error if a criterion lacks data or proposes what it may not.
    fn plan(
        &self,
        net: &NetView<'_>,
        turnover: Turnover,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError>;

    /// Refuses numbers out of range, before anything is updated.
    ///
    /// # Errors
    ///
    /// The first that is.
    fn validate(&self) -> Result<(), DstError> {
        Ok(())
    }
}

impl Method for Box<dyn Method> {
    fn needs(&self) -> Signals {
        (**self).needs()
    }

    fn plan(
        &self,
        net: &NetView<'_>,
        turnover: Turnover,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        (**self).plan(net, turnover, random)
    }

    fn validate(&self) -> Result<(), DstError> {
        (**self).validate()
    }
}

/// The random numbers of one update: a function of seed, step and layer, so that no generator has
/// to be saved and replicas with one seed agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateRandom {
    /// The updater's seed.
    pub seed: u64,
    /// The optimizer step.
    pub step: u64,
}

impl UpdateRandom {
    /// The generator of a layer, by its place in the view.
    pub fn layer(&self, index: usize) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(self.step << 16 | index as u64);
        rng
    }
}
