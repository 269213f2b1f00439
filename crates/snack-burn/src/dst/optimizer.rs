//! Optimizer states follow their coordinates.

use std::collections::BTreeMap;

use burn::module::ParamId;
use burn::optim::{ModuleOptimizer, OptimizerRecord};
use burn::store::RecordError;
use burn::tensor::TensorData;
use burn_pack::{Reader, Tensor, Writer};

use super::Remap;

/// Applies remaps to every state tensor of an optimizer that has one element per slot of the
/// given parameters: momenta, first and second moments, and whatever else an optimizer keeps.
/// Shared counters stay; fresh slots start at zero.
///
/// Burn keeps optimizer states type-erased, so this takes the way through the optimizer's record,
/// by which every optimizer names its tensors and their parameter.
///
/// # Errors
///
/// Returns Burn's error if the optimizer's record cannot be written or read.
pub fn remap_optimizer(
    optimizer: ModuleOptimizer,
    remaps: &BTreeMap<ParamId, Remap>,
) -> Result<ModuleOptimizer, RecordError> {
    let reader = Reader::from_bytes(optimizer.to_record().into_bytes()?)?;
    let scalars = reader.scalars().clone();
    let metadata = reader.metadata().clone();
    let mut tensors = Vec::new();
    for tensor in reader.into_tensors()? {
        let (name, dtype, shape, id, bytes) = tensor.into_parts()?;
        let remap = id.and_then(|id| remaps.get(&ParamId::from(id)));
        let data = TensorData::from_bytes(bytes, shape, dtype);
        let data = match remap {
            Some(remap) if data.shape().as_slice() == [remap.old_len] => remap.apply(data),
            _ => data,
        };
        let (bytes, shape, dtype) = data.into_parts();
        tensors.push(Tensor::new(name, dtype, shape, id, bytes));
    }
    let mut writer = Writer::new(tensors);
    for (key, value) in &scalars {
        writer = writer.with_scalar(key, *value);
    }
    for (key, value) in &metadata {
        writer = writer.with_metadata(key, value);
    }
    let record = OptimizerRecord::from_bytes(writer.into_bytes()?)?;
    Ok(optimizer.load_record(record))
}
