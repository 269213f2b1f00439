//! Optimizer states follow their coordinates.

use std::collections::BTreeMap;

use burn::module::ParamId;
use burn::optim::{ModuleOptimizer, OptimizerRecord};
use burn::tensor::{Bytes, DType, Shape, TensorData};
use burn_pack::{Reader, Tensor, Writer};
use rayon::prelude::*;

use crate::dst::{DstError, LayerChange, Source, StatePolicy};
use crate::nn::layer_label;

/// What an update means for the optimizer's state of one parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotChange<'a> {
    /// Which slots go where.
    pub change: &'a LayerChange,
    /// What the state of new connections is.
    pub policy: StatePolicy,
    /// Gradient of the loss at new connections, ascending by slot, for
    /// [`StatePolicy::GradientSeed`].
    pub gradients: Option<&'a [f32]>,
}

/// Names of tensors that hold means or sums of squared gradients, in Burn's optimizers and in
/// those of this crate.
const SECOND_MOMENTS: [&str; 5] = ["moment_2", "max_moment_2", "square_avg", "avg", "sum"];
/// Names of tensors that hold the momentum of SGD.
const VELOCITIES: [&str; 1] = ["velocity"];

/// Applies changes to every state tensor of an optimizer that has one element per slot of the
/// given parameters: momenta, first and second moments, and whatever else an optimizer keeps.
/// Counters of a whole tensor stay; fresh slots follow the policy. An optimizer that was never
/// stepped stays as it is.
///
/// Burn keeps optimizer states type-erased, so this takes the way through the optimizer's record,
/// by which every optimizer names its tensors and their parameter.
///
/// # Errors
///
/// Returns an error if the optimizer's record cannot be written or read, or if the policy needs
/// what is not there.
pub fn remap_optimizer(
    optimizer: ModuleOptimizer,
    changes: &BTreeMap<ParamId, SlotChange<'_>>,
) -> Result<ModuleOptimizer, DstError> {
    match remapped_record(recorded(&optimizer)?, changes)? {
        Some(record) => Ok(optimizer.load_record(record)),
        None => Ok(optimizer),
    }
}

/// The serialized record of an optimizer; `None` if it has no states.
pub(crate) fn recorded(optimizer: &ModuleOptimizer) -> Result<Option<Bytes>, DstError> {
    let record = optimizer.to_record();
    match record.is_empty() {
        true => Ok(None),
        false => record.into_bytes().map(Some).map_err(failed),
    }
}

fn failed(error: impl std::fmt::Display) -> DstError {
    DstError::Optimizer {
        reason: error.to_string(),
    }
}

/// The record after the changes; `None` if it has no state of the parameters.
pub(crate) fn remapped_record(
    record: Option<Bytes>,
    changes: &BTreeMap<ParamId, SlotChange<'_>>,
) -> Result<Option<OptimizerRecord>, DstError> {
    let Some(bytes) = record.map(Bytes::shared) else {
        return Ok(None);
    };
    let reader = Reader::from_bytes(bytes.clone()).map_err(failed)?;
    let scalars = reader.scalars().clone();
    let metadata = reader.metadata().clone();
    let read = reader.into_tensors().map_err(failed)?;
    for (id, change) in changes {
        if change.policy == StatePolicy::LocalClock {
            let own = read.iter().filter(|t| t.param_id == Some(id.val()));
            check_clock(
                &change.change.name,
                own.map(|tensor| field_of(&tensor.name)),
            )?;
        }
    }
    let states: Result<Vec<State<'_>>, DstError> = read
        .into_iter()
        .map(|tensor| State::new(tensor, changes))
        .collect();
    let states = states?;
    if states.iter().all(|state| state.change.is_none()) {
        return Ok(None);
    }
    let bytes = match in_place(&bytes, &states) {
        Some(bytes) => bytes,
        None => {
            let tensors = states.into_par_iter().map(State::into_tensor).collect();
            let mut writer = Writer::new(tensors);
            for (key, value) in &scalars {
                writer = writer.with_scalar(key, *value);
            }
            for (key, value) in &metadata {
                writer = writer.with_metadata(key, value);
            }
            writer.into_bytes().map_err(failed)?
        }
    };
    OptimizerRecord::from_bytes(bytes).map(Some).map_err(failed)
}

/// A recorded tensor and what happens to it.
struct State<'a> {
    name: String,
    dtype: DType,
    shape: Shape,
    id: Option<u64>,
    bytes: Bytes,
    change: Option<&'a SlotChange<'a>>,
}

impl<'a> State<'a> {
    fn new(
        tensor: Tensor,
        changes: &'a BTreeMap<ParamId, SlotChange<'a>>,
    ) -> Result<Self, DstError> {
        let (name, dtype, shape, id, bytes) = tensor.into_parts().map_err(failed)?;
        let change = id.and_then(|id| changes.get(&ParamId::from(id)));
        let change = change.filter(|own| shape.as_slice() == [own.change.remap.old_len]);
        Ok(Self {
            name,
            dtype,
            shape,
            id,
            bytes,
            change,
        })
    }

    /// Bytes after the change.
    fn len(&self) -> usize {
        match self.change {
            Some(change) => change.change.remap.source.len() * self.dtype.size(),
            None => self.bytes.len(),
        }
    }

    /// Writes the state after the change over zeros.
    fn write(&self, out: &mut [u8]) {
        match self.change {
            Some(change) => {
                let data =
                    || TensorData::from_bytes(self.bytes.clone(), self.shape.clone(), self.dtype);
                let fresh = change.fresh(&self.name, data);
                let remap = &change.change.remap;
                remap.write(&self.bytes, self.dtype, fresh.as_deref(), out);
            }
            None => out.copy_from_slice(&self.bytes),
        }
    }

    fn into_tensor(self) -> Tensor {
        let (bytes, shape) = match self.change {
            Some(change) => {
                let mut out = vec![0; self.len()];
                self.write(&mut out);
                let shape = Shape::new([change.change.remap.source.len()]);
                (Bytes::from_bytes_vec(out), shape)
            }
            None => (self.bytes, self.shape),
        };
        Tensor::new(self.name, self.dtype, shape, self.id, bytes)
    }
}

/// The record after changes that leave all sizes as they are, written on all cores: everything but
/// the states stays.
fn in_place(record: &Bytes, states: &[State<'_>]) -> Option<Bytes> {
    let mut places = Vec::with_capacity(states.len());
    for state in states {
        let begin = state.bytes.as_ptr().addr();
        let begin = begin.checked_sub(record.as_ptr().addr())?;
        if state.len() != state.bytes.len() || begin + state.len() > record.len() {
            return None;
        }
        places.push((begin, state));
    }
    places.sort_by_key(|(begin, state)| (*begin, state.len()));
    let mut out = vec![0; record.len()];
    let (mut rest, mut end) = (out.as_mut_slice(), 0);
    let mut parts = Vec::with_capacity(places.len());
    for (begin, state) in places {
        let (gap, more) = rest.split_at_mut_checked(begin.checked_sub(end)?)?;
        gap.copy_from_slice(&record[end..begin]);
        let (part, more) = more.split_at_mut(state.len());
        parts.push((part, state));
        (rest, end) = (more, begin + state.len());
    }
    rest.copy_from_slice(&record[end..]);
    parts
        .into_par_iter()
        .for_each(|(part, state)| state.write(part));
    Some(Bytes::from_bytes_vec(out))
}

/// The last part of a tensor's name.
fn field_of(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Whether the optimizer has states; those of the given layers must have a step counter for every
/// element if they have second moments.
pub(crate) fn check_local_clocks(
    optimizer: &ModuleOptimizer,
    layers: &[(ParamId, String)],
) -> Result<bool, DstError> {
    let Some(bytes) = recorded(optimizer)? else {
        return Ok(false);
    };
    let tensors = Reader::from_bytes(bytes).map_err(failed)?.into_tensors();
    let tensors = tensors.map_err(failed)?;
    for (id, layer) in layers {
        let own = tensors.iter().filter(|t| t.param_id == Some(id.val()));
        check_clock(layer, own.map(|tensor| field_of(&tensor.name)))?;
    }
    Ok(true)
}

/// Second moments need a step counter of the same shape.
fn check_clock<'a>(layer: &str, fields: impl Iterator<Item = &'a str>) -> Result<(), DstError> {
    let fields: Vec<&str> = fields.collect();
    let divides = fields.iter().any(|field| SECOND_MOMENTS.contains(field));
    match divides && !fields.contains(&"time") {
        true => Err(DstError::Optimizer {
            reason: format!(
                "that of layer `{}` has one step counter for all connections, expected one for \
                 each, as `LocalClockAdam` keeps",
                layer_label(layer)
            ),
        }),
        false => Ok(()),
    }
}

impl SlotChange<'_> {
    /// What a state has at the new slots, if not zero.
    fn fresh(&self, name: &str, data: impl FnOnce() -> TensorData) -> Option<Vec<f32>> {
        let field = field_of(name);
        match self.policy {
            StatePolicy::Borrow if SECOND_MOMENTS.contains(&field) => {
                let old: Vec<f32> = data().iter::<f32>().collect();
                Some(self.borrowed(&old))
            }
            StatePolicy::GradientSeed { c } if VELOCITIES.contains(&field) => {
                let seeds = self.gradients?;
                Some(seeds.iter().map(|g| c * g).collect())
            }
            _ => None,
        }
    }

    /// Mean over the surviving slots of the row of each fresh slot, or of the layer.
    fn borrowed(&self, old: &[f32]) -> Vec<f32> {
        let after = &self.change.after;
        let source = &self.change.remap.source;
        let mut rows = vec![(0f64, 0u32); after.rows()];
        for ((row, _), source) in after.iter().zip(source) {
            if let Source::Old(slot) = source {
                rows[row].0 += f64::from(old[*slot as usize]);
                rows[row].1 += 1;
            }
        }
        let (sum, count) = rows
            .iter()
            .fold((0.0, 0), |all, row| (all.0 + row.0, all.1 + row.1));
        let mean = |(sum, count): (f64, u32)| sum / f64::from(count.max(1));
        after
            .iter()
            .zip(source)
            .filter(|(_, source)| **source == Source::Fresh)
            .map(|((row, _), _)| match rows[row].1 {
                0 => mean((sum, count)) as f32,
                _ => mean(rows[row]) as f32,
            })
            .collect()
    }
}
