//! Optimizer states follow their coordinates.

use std::collections::BTreeMap;

use burn::module::ParamId;
use burn::optim::{ModuleOptimizer, OptimizerRecord};
use burn::tensor::TensorData;
use burn_pack::{Reader, Tensor, Writer};
use rayon::prelude::*;

use crate::dst::{DstError, LayerChange, Source, StatePolicy};

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
    match remapped_record(&optimizer, changes)? {
        Some(record) => Ok(optimizer.load_record(record)),
        None => Ok(optimizer),
    }
}

/// The record of the optimizer after the changes; `None` if it has no state of the parameters.
pub(crate) fn remapped_record(
    optimizer: &ModuleOptimizer,
    changes: &BTreeMap<ParamId, SlotChange<'_>>,
) -> Result<Option<OptimizerRecord>, DstError> {
    let record = optimizer.to_record();
    if record.is_empty() {
        return Ok(None);
    }
    let failed = |error: &dyn std::fmt::Display| DstError::Optimizer {
        reason: error.to_string(),
    };
    let bytes = record.into_bytes().map_err(|error| failed(&error))?;
    let reader = Reader::from_bytes(bytes).map_err(|error| failed(&error))?;
    let scalars = reader.scalars().clone();
    let metadata = reader.metadata().clone();
    let read = reader.into_tensors().map_err(|error| failed(&error))?;
    for (id, change) in changes {
        if change.policy == StatePolicy::LocalClock {
            let own = read.iter().filter(|t| t.param_id == Some(id.val()));
            check_clock(change, own.map(|tensor| field_of(&tensor.name)))?;
        }
    }
    let tensors: Result<Vec<(Tensor, bool)>, DstError> = read
        .into_par_iter()
        .map(|tensor| {
            let (name, dtype, shape, id, bytes) =
                tensor.into_parts().map_err(|error| failed(&error))?;
            let change = id.and_then(|id| changes.get(&ParamId::from(id)));
            let data = TensorData::from_bytes(bytes, shape, dtype);
            let (data, moved) = match change {
                Some(change) if data.shape().as_slice() == [change.change.remap.old_len] => {
                    (change.apply(&name, data), true)
                }
                _ => (data, false),
            };
            let (bytes, shape, dtype) = data.into_parts();
            Ok((Tensor::new(name, dtype, shape, id, bytes), moved))
        })
        .collect();
    let (tensors, moved): (Vec<Tensor>, Vec<bool>) = tensors?.into_iter().unzip();
    if !moved.contains(&true) {
        return Ok(None);
    }
    let mut writer = Writer::new(tensors);
    for (key, value) in &scalars {
        writer = writer.with_scalar(key, *value);
    }
    for (key, value) in &metadata {
        writer = writer.with_metadata(key, value);
    }
    let bytes = writer.into_bytes().map_err(|error| failed(&error))?;
    let record = OptimizerRecord::from_bytes(bytes).map_err(|error| failed(&error))?;
    Ok(Some(record))
}

/// The last part of a tensor's name.
fn field_of(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Second moments need a step counter of the same shape.
fn check_clock<'a>(
    change: &SlotChange<'_>,
    fields: impl Iterator<Item = &'a str>,
) -> Result<(), DstError> {
    let fields: Vec<&str> = fields.collect();
    let divides = fields.iter().any(|field| SECOND_MOMENTS.contains(field));
    match divides && !fields.contains(&"time") {
        true => Err(DstError::Optimizer {
            reason: format!(
                "that of layer `{}` has one step counter for all connections, expected one for \
                 each, as `LocalClockAdam` keeps",
                change.change.name
            ),
        }),
        false => Ok(()),
    }
}

impl SlotChange<'_> {
    /// One state tensor after the change.
    fn apply(&self, name: &str, data: TensorData) -> TensorData {
        let field = field_of(name);
        let remap = &self.change.remap;
        match self.policy {
            StatePolicy::Borrow if SECOND_MOMENTS.contains(&field) => {
                let old: Vec<f32> = data.iter::<f32>().collect();
                remap.apply_with(data, Some(&self.borrowed(&old)))
            }
            StatePolicy::GradientSeed { c } if VELOCITIES.contains(&field) => {
                let seeds = self.gradients;
                let seeds: Option<Vec<f32>> =
                    seeds.map(|gradients| gradients.iter().map(|g| c * g).collect());
                remap.apply_with(data, seeds.as_deref())
            }
            _ => remap.apply(data),
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
