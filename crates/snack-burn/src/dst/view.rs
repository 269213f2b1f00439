//! What a criterion sees of a layer and of the network.

use super::{DstError, Functional, GradientSource, History, Quotas, Turnover};
use crate::pattern::Pattern;

/// One layer before an update, on the host.
///
/// Only what the criteria of the update [ask for](super::Signals) is there; [`new`](Self::new)
/// gives pattern and values, the rest is set field by field.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct LayerView<'a> {
    /// Path of the layer in the model.
    pub name: &'a str,
    /// The connections.
    pub pattern: &'a Pattern,
    /// The values of the connections, `[nnz]`, in slot order, as all lists here.
    pub values: &'a [f32],
    /// Connections that the layer began with.
    pub initial: usize,
    /// Gradient of the loss at the slots, `[nnz]`.
    pub gradient: Option<&'a [f32]>,
    /// Accumulated activity of the slots, `[nnz]`.
    pub activity: Option<&'a [f32]>,
    /// Optimizer steps since each slot was born, `[nnz]`; `u32::MAX` for the initial ones.
    pub ages: Option<&'a [u32]>,
    /// The sign that each slot was born with, `[nnz]`.
    pub signs: Option<&'a [i8]>,
    /// The coordinates that have ever been active.
    pub history: Option<&'a History>,
    /// Which inputs and outputs of the layer lie on paths through the network.
    pub functional: Option<&'a Functional>,
    /// The dense gradient.
    pub factors: Option<&'a dyn GradientSource>,
}

impl<'a> LayerView<'a> {
    /// A view of pattern and values only, of a layer that began with as many connections.
    ///
    /// # Panics
    ///
    /// Panics if there is not one value per slot.
    pub fn new(name: &'a str, pattern: &'a Pattern, values: &'a [f32]) -> Self {
        assert_eq!(
            values.len(),
            pattern.nnz(),
            "LayerView::new: expected one value per slot"
        );
        Self {
            name,
            pattern,
            values,
            initial: pattern.nnz(),
            gradient: None,
            activity: None,
            ages: None,
            signs: None,
            history: None,
            functional: None,
            factors: None,
        }
    }

    /// How many connections of the layer leave and enter.
    pub fn quotas(&self, turnover: Turnover) -> Quotas {
        let pattern = self.pattern;
        turnover.quotas_from(pattern.nnz(), pattern.size(), self.initial)
    }

    /// The gradient at the slots.
    ///
    /// # Errors
    ///
    /// Returns an error if it was not measured, as those below.
    pub fn gradient(&self) -> Result<&'a [f32], DstError> {
        self.gradient.ok_or_else(|| self.missing("gradients"))
    }

    /// The activity of the slots.
    ///
    /// # Errors
    ///
    /// As [`gradient`](Self::gradient).
    pub fn activity(&self) -> Result<&'a [f32], DstError> {
        self.activity.ok_or_else(|| self.missing("activity scores"))
    }

    /// The ages of the slots.
    ///
    /// # Errors
    ///
    /// As [`gradient`](Self::gradient).
    pub fn ages(&self) -> Result<&'a [u32], DstError> {
        self.ages.ok_or_else(|| self.missing("ages"))
    }

    /// The signs of the slots at birth.
    ///
    /// # Errors
    ///
    /// As [`gradient`](Self::gradient).
    pub fn signs(&self) -> Result<&'a [i8], DstError> {
        self.signs.ok_or_else(|| self.missing("signs"))
    }

    /// The coordinates that have ever been active.
    ///
    /// # Errors
    ///
    /// As [`gradient`](Self::gradient).
    pub fn history(&self) -> Result<&'a History, DstError> {
        self.history
            .ok_or_else(|| self.missing("the history of coordinates"))
    }

    /// Which inputs and outputs of the layer lie on paths through the network.
    ///
    /// # Errors
    ///
    /// As [`gradient`](Self::gradient).
    pub fn functional(&self) -> Result<&'a Functional, DstError> {
        self.functional.ok_or_else(|| self.missing("reachability"))
    }

    /// The dense gradient.
    ///
    /// # Errors
    ///
    /// As [`gradient`](Self::gradient).
    pub fn factors(&self) -> Result<&'a dyn GradientSource, DstError> {
        self.factors
            .ok_or_else(|| self.missing("the factors of the gradient"))
    }

    fn missing(&self, signal: &'static str) -> DstError {
        DstError::MissingSignal {
            layer: self.name.to_string(),
            signal,
        }
    }
}

/// All layers that one update rewires together.
#[derive(Clone)]
#[non_exhaustive]
pub struct NetView<'a> {
    /// The layers in the order of the model.
    pub layers: Vec<LayerView<'a>>,
    /// The optimizer step after which the update happens, counted from 1.
    pub step: u64,
}

impl<'a> NetView<'a> {
    /// A view of the given layers.
    pub fn new(layers: Vec<LayerView<'a>>, step: u64) -> Self {
        Self { layers, step }
    }
}
