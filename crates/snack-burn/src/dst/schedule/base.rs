use serde::{Deserialize, Serialize};

use crate::dst::DstError;

/// Decides at which steps the topology changes, and by how much.
///
/// A pure function of the step, so that an interrupted run needs no state to continue.
pub trait Schedule: Send + Sync {
    /// What to replace after optimizer step `step`, counted from 1; `None` leaves the topology as
    /// it is.
    fn turnover(&self, step: u64) -> Option<Turnover>;

    /// Whether step `step` is one of the last `window` steps up to and including an update, whose
    /// gradients a grow criterion collects.
    fn captures(&self, step: u64, window: u64) -> bool {
        (step..step.saturating_add(window)).any(|step| self.turnover(step).is_some())
    }

    /// Refuses settings with which [`turnover`](Self::turnover) makes no sense.
    ///
    /// # Errors
    ///
    /// The first setting that is out of range.
    fn validate(&self) -> Result<(), DstError> {
        Ok(())
    }
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn turnover(&self, step: u64) -> Option<Turnover> {
        (**self).turnover(step)
    }

    fn captures(&self, step: u64, window: u64) -> bool {
        (**self).captures(step, window)
    }

    fn validate(&self) -> Result<(), DstError> {
        (**self).validate()
    }
}

/// The shares of connections that an update drops and grows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Turnover {
    /// Share that leaves, in `[0, 1)`.
    pub drop: f64,
    /// Share that enters, at least 0.
    pub grow: f64,
    /// What both are shares of.
    pub of: ShareOf,
}

/// What a share of connections is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ShareOf {
    /// The connections before the update, `nnz`.
    #[default]
    NonZeros,
    /// All coordinates, `m k`, as in MEST (Yuan et al., 2021): at density 0.1 a share of 0.05 is
    /// half of the connections.
    Positions,
    /// The connections that the layer began with, `n0`, over which there may be a surplus, as in
    /// MEST's soft memory bound: an update leaves `n0 + round(grow n0)` connections as far as there
    /// are coordinates, and what was above `n0` before leaves. `drop` is not looked at. With a
    /// `grow` of 0 exactly `n0` are left, whatever happened before.
    Initial,
}

/// Numbers of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quotas {
    /// Connections that leave.
    pub drop: usize,
    /// Connections that enter.
    pub grow: usize,
}

impl Turnover {
    /// As many connections enter as leave: a share of the non-zeros.
    pub fn replace(fraction: f64) -> Self {
        Self::new(fraction, fraction)
    }

    /// Shares of the non-zeros.
    pub fn new(drop: f64, grow: f64) -> Self {
        Self {
            drop,
            grow,
            of: ShareOf::NonZeros,
        }
    }

    /// Shares of all coordinates.
    pub fn of_positions(drop: f64, grow: f64) -> Self {
        Self {
            drop,
            grow,
            of: ShareOf::Positions,
        }
    }

    /// A surplus over the connections that the layer began with, see [`ShareOf::Initial`].
    pub fn surplus(share: f64) -> Self {
        Self {
            drop: 0.0,
            grow: share,
            of: ShareOf::Initial,
        }
    }

    /// Whether as many connections enter as leave.
    pub(crate) fn conserves(&self) -> bool {
        self.drop == self.grow && self.of != ShareOf::Initial
    }

    /// The numbers for a scope with `nnz` connections in `size` coordinates, that began with so
    /// many. [`LayerView::quotas`](crate::dst::LayerView::quotas) knows how many a layer began with.
    ///
    /// Shares are rounded to the nearest number, halves up. One connection stays, and no more enter
    /// than there are inactive coordinates before the update. Where the shares are equal, so are
    /// the numbers: the number of non-zeros never drifts.
    pub fn quotas(&self, nnz: usize, size: u64) -> Quotas {
        self.quotas_from(nnz, size, nnz)
    }

    /// As [`quotas`](Self::quotas) where the number of connections is no longer the `initial` one.
    pub fn quotas_from(&self, nnz: usize, size: u64, initial: usize) -> Quotas {
        let free = usize::try_from(size.saturating_sub(nnz as u64)).unwrap_or(usize::MAX);
        let whole = match self.of {
            ShareOf::NonZeros => nnz as f64,
            ShareOf::Positions => size as f64,
            ShareOf::Initial => {
                let surplus = (self.grow * initial as f64).round() as usize;
                let left = initial.saturating_add(surplus);
                let left = left.min(usize::try_from(size).unwrap_or(usize::MAX));
                let grow = surplus.min(free);
                return Quotas {
                    drop: (nnz + grow).saturating_sub(left).min(nnz),
                    grow,
                };
            }
        };
        let round = |share: f64, most: usize| ((share * whole).round() as usize).min(most);
        let drop = round(self.drop, nnz.saturating_sub(1));
        if self.drop == self.grow {
            let replaced = drop.min(free);
            return Quotas {
                drop: replaced,
                grow: replaced,
            };
        }
        Quotas {
            drop,
            grow: round(self.grow, free),
        }
    }

    /// Refuses shares out of range.
    ///
    /// # Errors
    ///
    /// [`DstError::InvalidFraction`] if `drop` is not in `[0, 1)`, [`DstError::InvalidParameter`]
    /// if `grow` is negative or not finite.
    pub fn validate(&self) -> Result<(), DstError> {
        check_fraction("drop fraction", self.drop)?;
        if !(self.conserves() || self.grow >= 0.0 && self.grow.is_finite()) {
            return Err(DstError::InvalidParameter {
                what: "grow fraction",
                value: self.grow,
                expected: "a finite number of at least 0",
            });
        }
        Ok(())
    }

    /// The turnover, or `None` if nothing leaves and nothing enters.
    pub(super) fn unless_zero(self) -> Option<Self> {
        let changes = self.drop != 0.0 || self.grow != 0.0 || self.of == ShareOf::Initial;
        changes.then_some(self)
    }
}

pub(super) fn check_fraction(what: &'static str, value: f64) -> Result<(), DstError> {
    match (0.0..1.0).contains(&value) {
        true => Ok(()),
        false => Err(DstError::InvalidFraction { what, value }),
    }
}
