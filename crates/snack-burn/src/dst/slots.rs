//! What an updater keeps for every connection.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::collect::FoundFactors;
use super::{ActivityConfig, DstError, Functional, History, LayerChange, LayerView, Signals};
use crate::nn::FoundLayer;
use crate::ops::Routines;
use crate::pattern::Pattern;
use crate::tap::Part;
use crate::tensor::{DevicePattern, GradientFactors, sampled_product};

/// Per-connection data of all layers, by path of the layer.
#[derive(Debug, Default)]
pub(crate) struct SlotStates {
    layers: BTreeMap<String, Slots>,
}

/// Per-connection data of a layer, only what some rule asks for.
#[derive(Debug)]
struct Slots {
    nnz: usize,
    /// The step after which each slot was born, 0 for the initial ones.
    born: Option<Vec<u32>>,
    /// Accumulated activity, `f32` on the device.
    activity: Option<Tensor<1>>,
    signs: Option<Vec<i8>>,
    history: Option<History>,
    device: Device,
}

/// The host form of a layer's per-connection data.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SlotsState {
    pub born: Option<Vec<u32>>,
    pub activity: Option<Vec<f32>>,
    pub signs: Option<Vec<i8>>,
    pub history: Option<Vec<u8>>,
}

impl SlotsState {
    pub fn to_data(&self) -> Vec<(&'static str, TensorData)> {
        fn data<T: burn::tensor::Element>(list: &Option<Vec<T>>) -> Option<TensorData> {
            let list = list.clone()?;
            let length = list.len();
            Some(TensorData::new(list, [length]))
        }
        let all = [
            ("born", data(&self.born)),
            ("activity", data(&self.activity)),
            ("signs", data(&self.signs)),
            ("history", data(&self.history)),
        ];
        all.into_iter()
            .filter_map(|(name, data)| Some((name, data?)))
            .collect()
    }

    /// Sets a field by name; `None` if there is none, or the data has another type.
    pub fn set(&mut self, field: &str, data: TensorData) -> Option<()> {
        match field {
            "born" => self.born = Some(data.try_into_vec().ok()?),
            "activity" => self.activity = Some(data.try_into_vec().ok()?),
            "signs" => self.signs = Some(data.try_into_vec().ok()?),
            "history" => self.history = Some(data.try_into_vec().ok()?),
            _ => return None,
        }
        Some(())
    }
}

/// What criteria see of a layer, owned.
pub(crate) struct OwnedView<'a> {
    name: &'a str,
    pattern: Arc<Pattern>,
    values: Cow<'a, [f32]>,
    gradient: Option<Vec<f32>>,
    activity: Option<Vec<f32>>,
    ages: Option<Vec<u32>>,
    signs: Option<&'a [i8]>,
    history: Option<&'a History>,
    factors: Option<&'a GradientFactors>,
}

impl<'a> OwnedView<'a> {
    pub fn as_view<'b>(&'b self, functional: Option<&'b Functional>) -> LayerView<'b> {
        let mut view = LayerView::new(self.name, &self.pattern, &self.values);
        view.gradient = self.gradient.as_deref();
        view.activity = self.activity.as_deref();
        view.ages = self.ages.as_deref();
        view.signs = self.signs;
        view.history = self.history;
        view.functional = functional;
        view.factors = self.factors.map(|factors| factors as _);
        view
    }

    pub fn name(&self) -> &'a str {
        self.name
    }
}

fn sign(value: f32) -> i8 {
    if value < 0.0 { -1 } else { 1 }
}

impl SlotStates {
    /// Initial data, or that of an interrupted run.
    pub fn new(
        found: &[FoundLayer],
        mut saved: BTreeMap<String, SlotsState>,
        needs: impl Fn(usize) -> Signals,
    ) -> Result<Self, DstError> {
        let mut layers = BTreeMap::new();
        for (index, layer) in found.iter().enumerate() {
            let needs = needs(index);
            let saved = saved.remove(&layer.name).unwrap_or_default();
            let pattern = layer.pattern.pattern();
            let nnz = pattern.nnz();
            let check = |found: usize| match found == nnz {
                true => Ok(()),
                false => Err(DstError::StateMismatch {
                    layer: layer.name.clone(),
                    expected: nnz,
                    found,
                }),
            };
            let device = layer.pattern.device().clone();
            let mut slots = Slots {
                nnz,
                born: needs
                    .ages
                    .then(|| saved.born.unwrap_or_else(|| vec![0; nnz])),
                activity: None,
                signs: None,
                history: None,
                device: device.clone(),
            };
            slots
                .born
                .as_ref()
                .map_or(Ok(()), |list| check(list.len()))?;
            if needs.activity {
                let list = saved.activity.unwrap_or_else(|| vec![0.0; nnz]);
                check(list.len())?;
                let data = TensorData::new(list, [nnz]);
                slots.activity = Some(Tensor::from_data(data, (&device, DType::F32)));
            }
            if needs.signs {
                let signs = saved.signs.unwrap_or_else(|| {
                    let values = layer.values.to_data();
                    values.iter::<f32>().map(sign).collect()
                });
                check(signs.len())?;
                slots.signs = Some(signs);
            }
            if needs.history || saved.history.is_some() {
                slots.history = Some(match saved.history {
                    Some(bytes) => History::from_bytes(&bytes)?,
                    None => History::new(pattern),
                });
            }
            layers.insert(layer.name.clone(), slots);
        }
        match saved.into_keys().next() {
            Some(name) => Err(DstError::UnknownLayer { name }),
            None => Ok(Self { layers }),
        }
    }

    pub fn to_state(&self) -> BTreeMap<String, SlotsState> {
        let state = |slots: &Slots| SlotsState {
            born: slots.born.clone(),
            activity: slots.activity.as_ref().map(numbers),
            signs: slots.signs.clone(),
            history: slots.history.as_ref().map(History::to_bytes),
        };
        let layers = self.layers.iter();
        layers
            .map(|(name, slots)| (name.clone(), state(slots)))
            .filter(|(_, state)| *state != SlotsState::default())
            .collect()
    }

    pub fn history(&self, layer: &str) -> Option<&History> {
        self.layers.get(layer)?.history.as_ref()
    }

    pub fn track_history(&mut self, found: &[FoundLayer]) {
        for layer in found {
            if let Some(slots) = self.layers.get_mut(&layer.name) {
                let pattern = layer.pattern.pattern();
                slots.history.get_or_insert_with(|| History::new(pattern));
            }
        }
    }

    /// The model's layers must still have the connections that this data belongs to.
    pub fn check(&self, found: &[FoundLayer]) -> Result<(), DstError> {
        for layer in found {
            let nnz = layer.pattern.pattern().nnz();
            match self.layers.get(&layer.name) {
                Some(slots) if slots.nnz != nnz => {
                    return Err(DstError::StateMismatch {
                        layer: layer.name.clone(),
                        expected: nnz,
                        found: slots.nnz,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds what one optimizer step's backward passes carried through every connection. Numbers
    /// that are not finite count as zero.
    pub fn add_activity(&mut self, layer: &FoundLayer, parts: &[Part], rule: ActivityConfig) {
        let Some(slots) = self.layers.get_mut(&layer.name) else {
            return;
        };
        let Some(activity) = slots.activity.take() else {
            return;
        };
        let mut sum: Option<Tensor<1>> = None;
        for part in parts {
            let [g, x] = [&part.g, &part.x].map(|factor| {
                let factor = factor.clone().to_device(&slots.device).cast(DType::F32);
                match rule.per_sample {
                    true => factor.abs(),
                    false => factor,
                }
            });
            let more = sampled_product(g, x, &layer.pattern, Routines::default());
            sum = Some(match sum {
                Some(sum) => sum + more,
                None => more,
            });
        }
        slots.activity = Some(match sum {
            Some(sum) => {
                let bad = sum.clone().is_finite().bool_not();
                activity * rule.decay + sum.mask_fill(bad, 0.0).abs()
            }
            None => activity,
        });
    }

    /// What criteria see of the layers whose values are given.
    pub fn views<'a>(
        &'a self,
        found: &'a [FoundLayer],
        values: &'a [(usize, TensorData)],
        needs: Signals,
        factors: &'a BTreeMap<usize, FoundFactors>,
        step: u64,
    ) -> Vec<OwnedView<'a>> {
        let view = |(index, values): &'a (usize, TensorData)| {
            let layer = &found[*index];
            let slots = &self.layers[&layer.name];
            let factors = match factors.get(index) {
                Some(FoundFactors::Finite(factors)) => Some(&**factors),
                _ => None,
            };
            OwnedView {
                name: &layer.name,
                pattern: layer.pattern.pattern().clone(),
                values: match values.as_slice() {
                    Ok(values) => Cow::Borrowed(values),
                    Err(_) => Cow::Owned(values.iter::<f32>().collect()),
                },
                gradient: factors
                    .filter(|_| needs.gradient)
                    .map(|factors| gradient_at_slots(factors, &layer.pattern)),
                activity: slots.activity.as_ref().map(numbers),
                ages: slots.born.as_ref().map(|born| ages(born, step)),
                signs: slots.signs.as_deref(),
                history: slots.history.as_ref(),
                factors,
            }
        };
        values.iter().map(view).collect()
    }

    /// Follows an update of one layer; `values` are those of the new connections.
    pub fn apply(&mut self, change: &LayerChange, values: &[f32], step: u64, seed: u64) {
        let index = self.layers.keys().position(|name| *name == change.name);
        let Some(slots) = self.layers.get_mut(&change.name) else {
            return;
        };
        let remap = &change.remap;
        slots.nnz = change.after.nnz();
        if let Some(born) = &mut slots.born {
            *born = remap.apply_list(born, u32::try_from(step).unwrap_or(u32::MAX));
        }
        if let Some(activity) = slots.activity.take() {
            let data = remap.apply(activity.into_data());
            let moved = Tensor::from_data(data, (&slots.device, DType::F32));
            slots.activity = Some(moved);
        }
        if let Some(signs) = &mut slots.signs {
            *signs = remap.apply_list(signs, 0);
            let mut rng = ChaCha8Rng::seed_from_u64(!seed);
            rng.set_stream(step << 16 | index.unwrap_or(0) as u64);
            for (slot, &value) in remap.fresh().into_iter().zip(values) {
                signs[slot as usize] = match value == 0.0 {
                    true => [-1, 1][usize::from(rng.random_bool(0.5))],
                    false => sign(value),
                };
            }
        }
        if let Some(history) = &mut slots.history {
            history
                .record(&change.after)
                .expect("the history has the shape of its layer");
        }
    }
}

fn ages(born: &[u32], step: u64) -> Vec<u32> {
    let age = |born: &u32| match born {
        0 => u32::MAX,
        born => u32::try_from(step.saturating_sub(u64::from(*born))).unwrap_or(u32::MAX - 1),
    };
    born.iter().map(age).collect()
}

fn gradient_at_slots(factors: &GradientFactors, pattern: &DevicePattern) -> Vec<f32> {
    let [g, x] = [factors.g(), factors.x()].map(|factor| factor.clone().cast(DType::F32));
    numbers(&sampled_product(g, x, pattern, Routines::default()))
}

fn numbers(tensor: &Tensor<1>) -> Vec<f32> {
    let data = tensor.to_data();
    match data.as_slice::<f32>() {
        Ok(numbers) => numbers.to_vec(),
        Err(_) => data.iter::<f32>().collect(),
    }
}
