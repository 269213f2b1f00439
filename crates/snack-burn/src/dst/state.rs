//! Where an updater stands.

use std::collections::BTreeMap;

use burn::tensor::{Bytes, TensorData};
use burn_pack::{Reader, Scalar, Tensor, Writer};

use super::DstError;
use super::collect::PartState;
use super::identity::LayerIdentity;
use super::slots::SlotsState;
use crate::nn::layer_label;

/// The field of a layer's identity.
const LAYER: &str = "layer";

/// Where an updater stands, for checkpoints: the schedule's position, and what it keeps for every
/// connection.
///
/// Random growth depends on the seed, the step and the layer only, so no generator is part of it. The
/// names of the layers, their coordinates (as a checksum) and what their rules look at are, so that
/// the state of another model or rule is refused.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DstState {
    /// Optimizer steps seen.
    pub step: u64,
    /// Updates that were due and did not happen.
    pub skipped: u64,
    /// What the layers were; empty for a state of no particular model.
    pub(crate) layers: BTreeMap<String, LayerIdentity>,
    pub(crate) slots: BTreeMap<String, SlotsState>,
    pub(crate) factors: BTreeMap<String, Vec<PartState>>,
}

impl DstState {
    /// The state of a run at some step, of no particular model and rule, with nothing kept for any
    /// connection: for a rule that begins in the middle of a run.
    pub fn at_step(step: u64) -> Self {
        Self {
            step,
            ..Self::default()
        }
    }

    /// The state as a burnpack container.
    ///
    /// # Errors
    ///
    /// Returns an error if the container cannot be written.
    pub fn to_bytes(&self) -> Result<Bytes, DstError> {
        let mut tensors = Vec::new();
        let mut push = |name: String, data: TensorData| {
            let (bytes, shape, dtype) = data.into_parts();
            tensors.push(Tensor::new(name, dtype, shape, None, bytes));
        };
        for (layer, identity) in &self.layers {
            push(format!("{LAYER}:{layer}"), identity.to_data());
        }
        for (layer, slots) in &self.slots {
            for (field, data) in slots.to_data() {
                push(format!("{field}:{layer}"), data);
            }
        }
        for (layer, parts) in &self.factors {
            for (index, [g, x]) in parts.iter().enumerate() {
                push(format!("g{index}:{layer}"), g.clone());
                push(format!("x{index}:{layer}"), x.clone());
            }
        }
        let writer = Writer::new(tensors)
            .with_scalar("step", Scalar::from(self.step))
            .with_scalar("skipped", Scalar::from(self.skipped));
        writer
            .into_bytes()
            .map_err(|error| damaged(error.to_string()))
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// [`DstError::DamagedState`] for other bytes.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, DstError> {
        let reader = Reader::from_bytes(bytes).map_err(|error| damaged(error.to_string()))?;
        let scalar = |name: &str| {
            let scalar = reader.scalars().get(name).copied();
            scalar
                .and_then(|scalar| u64::try_from(scalar).ok())
                .ok_or_else(|| damaged(format!("it has no `{name}`")))
        };
        let mut state = Self {
            step: scalar("step")?,
            skipped: scalar("skipped")?,
            ..Self::default()
        };
        let mut factors: BTreeMap<String, BTreeMap<(usize, bool), TensorData>> = BTreeMap::new();
        let tensors = reader.into_tensors();
        for tensor in tensors.map_err(|error| damaged(error.to_string()))? {
            let (name, dtype, shape, _, bytes) = tensor
                .into_parts()
                .map_err(|error| damaged(error.to_string()))?;
            let data = TensorData::from_bytes(bytes, shape, dtype);
            let unknown = || damaged(format!("it has an unknown entry `{name}`"));
            let (field, layer) = name.split_once(':').ok_or_else(unknown)?;
            if field == LAYER {
                let identity = LayerIdentity::from_data(data).ok_or_else(unknown)?;
                state.layers.insert(layer.to_string(), identity);
                continue;
            }
            match field.split_at_checked(1) {
                Some((kind @ ("g" | "x"), index)) => {
                    let index: usize = index.parse().map_err(|_| unknown())?;
                    let parts = factors.entry(layer.to_string()).or_default();
                    parts.insert((index, kind == "x"), data);
                }
                _ => {
                    let slots = state.slots.entry(layer.to_string()).or_default();
                    slots.set(field, data).ok_or_else(unknown)?;
                }
            }
        }
        let kept = state.slots.keys().chain(factors.keys());
        if let Some(layer) = kept
            .into_iter()
            .find(|name| !state.layers.contains_key(*name))
        {
            return Err(damaged(format!(
                "it does not say which connections layer `{}` had",
                layer_label(layer)
            )));
        }
        for (layer, parts) in factors {
            let mut parts: Vec<TensorData> = parts.into_values().collect();
            if parts.len() % 2 == 1 {
                return Err(damaged(format!(
                    "a factor of layer `{}` is missing",
                    layer_label(&layer)
                )));
            }
            let mut pairs = Vec::new();
            while let (Some(x), Some(g)) = (parts.pop(), parts.pop()) {
                pairs.push([g, x]);
            }
            pairs.reverse();
            state.factors.insert(layer, pairs);
        }
        Ok(state)
    }
}

fn damaged(reason: String) -> DstError {
    DstError::DamagedState { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let slots = SlotsState {
            born: Some(vec![0, 7, u32::MAX]),
            activity: Some(vec![0.5, f32::MIN_POSITIVE, 3.0]),
            signs: Some(vec![1, -1, 1]),
            history: Some(vec![1, 2, 255]),
        };
        let part = |number: f32| [[[number, 1.0]], [[2.0, -0.0]]].map(TensorData::from);
        let identity = |nnz| LayerIdentity {
            shape: [5, 6],
            nnz,
            initial: 4,
            checksum: u64::MAX - 1,
            signals: 9,
        };
        let names = ["a.b", "", "a:b"];
        let state = DstState {
            step: u64::MAX / 3,
            skipped: 2,
            layers: names.map(|name| (name.to_string(), identity(3))).into(),
            slots: BTreeMap::from([
                ("a.b".into(), slots),
                (String::new(), SlotsState::default()),
            ]),
            factors: BTreeMap::from([("a:b".into(), vec![part(1.0), part(2.0)])]),
        };
        let mut expected = state.clone();
        // A layer for which nothing is kept is not written.
        expected.slots.remove("");
        let bytes = state.to_bytes().unwrap();
        assert_eq!(DstState::from_bytes(bytes.clone()).unwrap(), expected);
        let cut = Bytes::from_bytes_vec(bytes[..bytes.len() / 2].to_vec());
        assert!(matches!(
            DstState::from_bytes(cut),
            Err(DstError::DamagedState { .. })
        ));
        let unnamed = DstState {
            layers: BTreeMap::new(),
            ..state
        };
        let error = DstState::from_bytes(unnamed.to_bytes().unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the saved state of the updater is damaged: it does not say which connections layer \
             `a.b` had"
        );
    }
}
