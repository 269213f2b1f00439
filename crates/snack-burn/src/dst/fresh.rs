//! The values of new connections.

use rand::Rng;
use rand_distr::{Distribution, Normal, Uniform};
use serde::{Deserialize, Serialize};

use super::DstError;
use crate::pattern::Pattern;

/// What value a new connection starts with.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum FreshValue {
    /// 0: the function of the layer does not change (RigL, ITOP, MEST, SMET).
    #[default]
    Zero,
    /// `N(0, std^2)` (SET; Mocanu et al., 2018, with 0.1).
    Normal {
        /// The standard deviation.
        std: f64,
    },
    /// `U(-a, a)` with `a = gain / sqrt(F_i)`, where `F_i` is the number of non-zeros in row `i`
    /// after the update.
    Uniform {
        /// 1 gives the bound of Burn's and PyTorch's `Linear`.
        gain: f64,
    },
    /// A connection that was dropped and regrown in the same update is as if it had stayed, with
    /// its value and its optimizer state (RigL; Evci et al., 2020). Others start with the inner
    /// value.
    KeepIfReturned(Box<FreshValue>),
}

impl FreshValue {
    /// Whether a connection that is dropped and regrown in one update counts as a survivor.
    pub fn keeps_returned(&self) -> bool {
        matches!(self, Self::KeepIfReturned(_))
    }

    /// Draws the values of new connections.
    ///
    /// # Arguments
    ///
    /// * `pattern` - the coordinates after the update.
    /// * `fresh` - the slots of the new ones, increasing. With
    ///   [`KeepIfReturned`](Self::KeepIfReturned) those that returned are not among them.
    /// * `rng` - its state determines the values.
    ///
    /// # Returns
    ///
    /// One value per fresh slot, `[fresh.len()]`.
    ///
    /// # Panics
    ///
    /// Panics if a slot is not below `nnz`, slots are not in order, or a setting does not pass
    /// [`validate`](Self::validate).
    pub fn draw<R: Rng + ?Sized>(&self, pattern: &Pattern, fresh: &[u32], rng: &mut R) -> Vec<f32> {
        assert!(
            fresh.is_sorted()
                && fresh
                    .last()
                    .is_none_or(|&slot| (slot as usize) < pattern.nnz()),
            "fresh slots must be increasing and below {}",
            pattern.nnz()
        );
        match *self {
            Self::Zero => vec![0.0; fresh.len()],
            Self::Normal { std } => {
                let law = Normal::new(0.0, std).expect("a finite standard deviation");
                fresh.iter().map(|_| law.sample(rng) as f32).collect()
            }
            Self::Uniform { gain } => {
                let unit = Uniform::new_inclusive(-gain, gain).expect("a finite gain");
                let offsets = pattern.row_offsets();
                let mut row = 0;
                let value = |&slot: &u32| {
                    while offsets[row + 1] <= slot as usize {
                        row += 1;
                    }
                    let fan_in = offsets[row + 1] - offsets[row];
                    (unit.sample(rng) / (fan_in as f64).sqrt()) as f32
                };
                fresh.iter().map(value).collect()
            }
            Self::KeepIfReturned(ref inner) => inner.draw(pattern, fresh, rng),
        }
    }

    /// Refuses numbers out of range.
    ///
    /// # Errors
    ///
    /// [`DstError::InvalidParameter`] if `std` or `gain` is negative or not finite.
    pub fn validate(&self) -> Result<(), DstError> {
        let (what, value) = match *self {
            Self::Zero => return Ok(()),
            Self::Normal { std } => ("standard deviation of fresh values", std),
            Self::Uniform { gain } => ("gain of fresh values", gain),
            Self::KeepIfReturned(ref inner) => return inner.validate(),
        };
        match value >= 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(DstError::InvalidParameter {
                what,
                value,
                expected: "a finite number of at least 0",
            }),
        }
    }
}
