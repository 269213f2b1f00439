//! What an updater keeps for every connection.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use burn::tensor::{Bool, DType, Device, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::collect::{FoundFactors, read_all};
use super::identity::{LayerIdentity, check_unchanged};
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
    /// The connections that the data belongs to, shared with the model.
    pattern: Arc<Pattern>,
    /// Connections that the layer began with.
    initial: usize,
    /// What the layer's rule looks at.
    needs: Signals,
    /// The step after which each slot was born, 0 for the initial ones.
    born: Option<Vec<u32>>,
    /// Accumulated activity, `f32` on the device.
    activity: Option<Tensor<1>>,
    /// The newest step whose gradients were measured, and whether they were finite.
    measured: Option<(u64, Tensor<1, Bool>)>,
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
    initial: usize,
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
        view.initial = self.initial;
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

    /// Whether all values are finite; a multiple of the processor's vectors at a time.
    pub fn is_finite(&self) -> bool {
        let finite = |part: &[f32]| part.iter().fold(true, |all, value| all & value.is_finite());
        self.values.chunks(4096).all(finite)
    }
}

fn sign(value: f32) -> i8 {
    if value < 0.0 { -1 } else { 1 }
}

impl SlotStates {
    /// Initial data, or that of an interrupted run.
    pub fn new(
        found: &[FoundLayer],
        identities: &BTreeMap<String, LayerIdentity>,
        mut saved: BTreeMap<String, SlotsState>,
        needs: impl Fn(usize) -> Signals,
    ) -> Result<Self, DstError> {
        let unknown = |name: &&String| !found.iter().any(|layer| layer.name == **name);
        if let Some(name) = identities.keys().chain(saved.keys()).find(unknown) {
            return Err(DstError::UnknownLayer { name: name.clone() });
        }
        let mut layers = BTreeMap::new();
        for (index, layer) in found.iter().enumerate() {
            let needs = needs(index);
            let saved = saved.remove(&layer.name).unwrap_or_default();
            let pattern = layer.pattern.pattern();
            let nnz = pattern.nnz();
            let mut initial = nnz;
            if let Some(identity) = identities.get(&layer.name) {
                identity.check(&layer.name, &LayerIdentity::new(pattern, nnz, needs))?;
                initial = usize::try_from(identity.initial).unwrap_or(usize::MAX);
            } else if !identities.is_empty() {
                return Err(DstError::StateWithoutLayer {
                    layer: layer.name.clone(),
                });
            }
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
                pattern: pattern.clone(),
                initial,
                needs,
                born: needs
                    .ages
                    .then(|| saved.born.unwrap_or_else(|| vec![0; nnz])),
                activity: None,
                measured: None,
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
        Ok(Self { layers })
    }

    /// What the layers are now, for the state.
    pub fn identities(&self) -> BTreeMap<String, LayerIdentity> {
        let identity =
            |slots: &Slots| LayerIdentity::new(&slots.pattern, slots.initial, slots.needs);
        let layers = self.layers.iter();
        layers
            .map(|(name, slots)| (name.clone(), identity(slots)))
            .collect()
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
            let pattern = layer.pattern.pattern();
            if let Some(slots) = self.layers.get(&layer.name)
                && !Arc::ptr_eq(&slots.pattern, pattern)
            {
                check_unchanged(&layer.name, &slots.pattern, pattern)?;
            }
        }
        Ok(())
    }

    /// Shares the coordinates of the model, which are those that this data belongs to.
    pub fn share(&mut self, found: &[FoundLayer]) {
        for layer in found {
            if let Some(slots) = self.layers.get_mut(&layer.name) {
                slots.pattern = layer.pattern.pattern().clone();
            }
        }
    }

    /// Adds what one optimizer step's backward passes carried through every connection. A step with
    /// a number that is not finite does not count, as if it had not been.
    pub fn add_activity(
        &mut self,
        layer: &FoundLayer,
        parts: &[Part],
        rule: ActivityConfig,
        step: u64,
    ) {
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
        let Some(sum) = sum else {
            slots.activity = Some(activity);
            return;
        };
        if sum.dims() == [0] {
            slots.activity = Some(activity);
            slots.measured = Some((step, Tensor::from_data([true], &slots.device)));
            return;
        }
        let finite = sum.clone().is_finite().all();
        let counts = finite.clone().expand(activity.shape());
        let added = activity.clone() * rule.decay + sum.abs();
        slots.activity = Some(activity.mask_where(counts, added));
        slots.measured = Some((step, finite));
    }

    /// Whether the gradients of this step, from which activity is measured, are finite; `None` for
    /// layers without any.
    pub fn measured(
        &self,
        found: &[FoundLayer],
        members: &[usize],
        step: u64,
    ) -> BTreeMap<usize, Option<bool>> {
        let flag = |index: &usize| {
            let slots = self.layers.get(&found[*index].name)?;
            let (measured, finite) = slots.measured.as_ref()?;
            (*measured == step).then(|| finite.clone())
        };
        let flags: Vec<_> = members.iter().map(flag).collect();
        let mut read = read_all(flags.iter().flatten().cloned().collect()).into_iter();
        let answers = flags.iter().map(|flag| {
            let data = flag.as_ref().and_then(|_| read.next())?;
            Some(data.iter::<bool>().all(|finite| finite))
        });
        members
            .iter()
            .copied()
            .zip(answers.collect::<Vec<_>>())
            .collect()
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
                initial: slots.initial,
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
    pub fn apply(
        &mut self,
        change: &LayerChange,
        after: Arc<Pattern>,
        values: &[f32],
        step: u64,
        seed: u64,
    ) {
        let index = self.layers.keys().position(|name| *name == change.name);
        let Some(slots) = self.layers.get_mut(&change.name) else {
            return;
        };
        let remap = &change.remap;
        slots.pattern = after;
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
