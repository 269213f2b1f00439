//! The factors of a growth window, layer by layer.

use std::collections::BTreeMap;

use burn::tensor::{DType, Tensor, TensorData};

use super::DstError;
use crate::nn::FoundLayer;
use crate::tap::Part;
use crate::tensor::GradientFactors;

/// What the backward passes since the last update offered, by path of the layer.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    parts: BTreeMap<String, Vec<Part>>,
}

/// The factors of a layer at an update.
pub(crate) enum FoundFactors {
    /// No backward pass went through the layer's weight.
    Missing,
    /// A number is infinite or undefined.
    NotFinite,
    /// All passes together.
    Finite(Box<GradientFactors>),
}

/// Output gradient and input of one backward pass, on the host.
pub(crate) type PartState = [TensorData; 2];

impl Collected {
    pub fn add(&mut self, layer: &str, parts: Vec<Part>) {
        let all = self.parts.entry(layer.to_string()).or_default();
        all.extend(parts);
    }

    pub fn clear(&mut self, layer: &str) {
        self.parts.remove(layer);
    }

    /// The factors of a layer: all passes concatenated, on the device of the layer's values.
    pub fn factors(&self, layer: &FoundLayer, scratch_bytes: usize) -> FoundFactors {
        let Some(parts) = self.parts.get(&layer.name) else {
            return FoundFactors::Missing;
        };
        let device = layer.pattern.device();
        let all = |factor: fn(&Part) -> &Tensor<2>| {
            let parts = parts.iter().map(|part| factor(part).clone());
            let mut parts: Vec<_> = parts.map(|part| part.to_device(device)).collect();
            match parts.len() {
                1 => parts.remove(0),
                _ => Tensor::cat(parts, 0),
            }
        };
        let (g, x) = (all(|part| &part.g), all(|part| &part.x));
        if !is_finite(&g) || !is_finite(&x) {
            return FoundFactors::NotFinite;
        }
        let factors = GradientFactors::new(g, x).with_scratch_bytes(scratch_bytes);
        FoundFactors::Finite(Box::new(factors))
    }

    /// What a checkpoint between two steps of a window must hold.
    pub fn to_state(&self) -> BTreeMap<String, Vec<PartState>> {
        let data = |part: &Part| [&part.g, &part.x].map(|factor| factor.to_data());
        let parts = self.parts.iter();
        parts
            .map(|(layer, parts)| (layer.clone(), parts.iter().map(data).collect()))
            .collect()
    }

    pub fn from_state(
        state: BTreeMap<String, Vec<PartState>>,
        found: &[FoundLayer],
    ) -> Result<Self, DstError> {
        let mut parts = BTreeMap::new();
        for (name, states) in state {
            let Some(layer) = found.iter().find(|layer| layer.name == name) else {
                return Err(DstError::UnknownLayer { name });
            };
            let device = layer.pattern.device();
            let place = |[g, x]: PartState| {
                let [g, x] = [g, x].map(|data| {
                    let dtype: DType = data.dtype();
                    Tensor::<2>::from_data(data, (device, dtype))
                });
                Part { g, x }
            };
            parts.insert(name, states.into_iter().map(place).collect());
        }
        Ok(Self { parts })
    }
}

fn is_finite(tensor: &Tensor<2>) -> bool {
    tensor.dims().contains(&0)
        || tensor
            .clone()
            .is_finite()
            .all()
            .into_data()
            .iter::<bool>()
            .all(|finite| finite)
}
