//! The factors of a growth window, layer by layer.

use std::collections::BTreeMap;

use burn::tensor::kind::Transaction as Transactional;
use burn::tensor::{DType, Tensor, TensorData, Transaction};

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

    /// The factors of layers, `members` by their place in `found`: all passes concatenated, on the
    /// device of the layer's values.
    pub fn factors(
        &self,
        found: &[FoundLayer],
        members: &[usize],
        scratch_bytes: usize,
    ) -> BTreeMap<usize, FoundFactors> {
        let pairs: Vec<_> = members
            .iter()
            .map(|&index| (index, self.pair(&found[index])))
            .collect();
        // All are asked before any answer is waited for.
        let tensors = pairs.iter().filter_map(|(_, pair)| pair.as_ref()).flatten();
        let flags: Vec<_> = tensors
            .filter(|tensor| !tensor.dims().contains(&0))
            .map(|tensor| tensor.clone().is_finite().all())
            .collect();
        let mut flags = read_all(flags).into_iter();
        let mut is_finite = |tensor: &Tensor<2>| {
            tensor.dims().contains(&0)
                || flags
                    .next()
                    .is_some_and(|flag| flag.iter::<bool>().all(|finite| finite))
        };
        let found = pairs.into_iter().map(|(index, pair)| {
            let factors = match pair {
                None => FoundFactors::Missing,
                Some([g, x]) => match [&g, &x].map(&mut is_finite) {
                    [true, true] => {
                        let factors = GradientFactors::new(g, x).with_scratch_bytes(scratch_bytes);
                        FoundFactors::Finite(Box::new(factors))
                    }
                    _ => FoundFactors::NotFinite,
                },
            };
            (index, factors)
        });
        found.collect()
    }

    /// Output gradients and inputs of all passes through a layer.
    fn pair(&self, layer: &FoundLayer) -> Option<[Tensor<2>; 2]> {
        let parts = self.parts.get(&layer.name)?;
        let device = layer.pattern.device();
        let all = |factor: fn(&Part) -> &Tensor<2>| {
            let parts = parts.iter().map(|part| factor(part).clone());
            let parts = parts.map(|part| part.detach().without_autodiff().to_device(device));
            let mut parts: Vec<_> = parts.collect();
            match parts.len() {
                1 => parts.remove(0),
                _ => Tensor::cat(parts, 0),
            }
        };
        Some([all(|part| &part.g), all(|part| &part.x)])
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

/// The content of tensors, read at once where one device has them all.
pub(crate) fn read_all<const D: usize, K: Transactional>(
    tensors: Vec<Tensor<D, K>>,
) -> Vec<TensorData> {
    let mut devices = tensors.iter().map(Tensor::device);
    let first = devices.next();
    match devices.all(|device| Some(device) == first) {
        true => tensors
            .into_iter()
            .fold(Transaction::default(), Transaction::register)
            .execute(),
        false => tensors.into_iter().map(Tensor::into_data).collect(),
    }
}
