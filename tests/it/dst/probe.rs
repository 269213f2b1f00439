//! A grow criterion that keeps what it sees.

use std::sync::{Arc, Mutex};

use rand::Rng;
use snack_burn::dst::{Grow, LayerView, Request, Signals, Uniform};
use snack_burn::prelude::*;

/// What the criterion saw of a layer at an update.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub layer: String,
    /// Rows of the factors.
    pub batch: usize,
    /// The whole gradient `[m k]`.
    pub gradient: Vec<f64>,
}

#[derive(Debug, Clone, Default)]
pub struct Probe(Arc<Mutex<Vec<Seen>>>);

impl Probe {
    /// What was seen since the last call.
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Grow for Probe {
    fn needs(&self) -> Signals {
        Signals::FACTORS
    }

    fn propose(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, DstError> {
        let source = layer.factors()?;
        let all: Vec<u64> = (0..layer.pattern.size()).collect();
        let gradient = source.gradients(&all)?;
        self.0.lock().unwrap().push(Seen {
            layer: layer.name.to_string(),
            batch: source.batch(),
            gradient: gradient.into_iter().map(f64::from).collect(),
        });
        Uniform.propose(layer, request, rng)
    }
}
