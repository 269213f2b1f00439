//! Optimizer state of connections that enter.

use serde::{Deserialize, Serialize};

use super::DstError;

/// What the optimizer's tensors hold for a connection that enters.
///
/// Adam divides by the root of a second moment that it corrects by one step counter for the whole
/// tensor. A newcomer whose moments are zero after many steps is not corrected at all: its first
/// update is 3.16 times too large, the twelfth 6.57 times. [`Borrow`](Self::Borrow) or
/// [`LocalClock`](Self::LocalClock) avoid that.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum StatePolicy {
    /// Zeros: right for SGD with momentum, too bold for Adam.
    Zero,
    /// The momentum of SGD is `c` times the gradient of the loss, all else zero (an option of
    /// RigL; Evci et al., 2020).
    GradientSeed {
        /// The factor, at least 0 and at most `1 / (1 - momentum)`.
        c: f32,
    },
    /// Zeros, among them the step counter that
    /// [`LocalClockAdam`](super::LocalClockAdam) keeps for every connection (SMET; Xiao et al.,
    /// 2026). The optimizer must keep one.
    LocalClock,
    /// First moments are zero, second moments the mean over the surviving connections of the same
    /// row, or of the layer where the row has none: small first steps without a counter.
    Borrow,
}

impl StatePolicy {
    pub(crate) fn validate(&self) -> Result<(), DstError> {
        match self {
            Self::GradientSeed { c } if !(*c >= 0.0 && c.is_finite()) => {
                Err(DstError::InvalidParameter {
                    what: "gradient seed",
                    value: f64::from(*c),
                    expected: "a finite number of at least 0",
                })
            }
            _ => Ok(()),
        }
    }
}
