//! Records taken apart and put together again.

use burn::store::ModuleRecord;
use burn::tensor::TensorData;
use burn_pack::{Reader, Tensor, Writer};

/// The tensors of a record.
pub fn tensors_of(record: ModuleRecord) -> Vec<Tensor> {
    Reader::from_bytes(record.into_bytes().unwrap())
        .unwrap()
        .into_tensors()
        .unwrap()
}

/// The record of these tensors.
pub fn record_of(tensors: Vec<Tensor>) -> ModuleRecord {
    ModuleRecord::from_bytes(Writer::new(tensors).into_bytes().unwrap()).unwrap()
}

/// The record without one tensor.
pub fn without(record: &ModuleRecord, name: &str) -> ModuleRecord {
    let mut tensors = tensors_of(record.clone());
    let count = tensors.len();
    tensors.retain(|tensor| tensor.name != name);
    assert_eq!(tensors.len(), count - 1, "the record has `{name}`");
    record_of(tensors)
}

/// The record with other data under a name, which may be new.
pub fn replaced(record: &ModuleRecord, name: &str, data: TensorData) -> ModuleRecord {
    let mut tensors = tensors_of(record.clone());
    let id = tensors
        .iter()
        .find(|tensor| tensor.name == name)
        .and_then(|tensor| tensor.param_id);
    tensors.retain(|tensor| tensor.name != name);
    let (bytes, shape, dtype) = data.into_parts();
    tensors.push(Tensor::new(name.to_string(), dtype, shape, id, bytes));
    record_of(tensors)
}

/// A recorded tensor.
pub fn recorded(record: &ModuleRecord, name: &str) -> TensorData {
    let tensor = tensors_of(record.clone())
        .into_iter()
        .find(|tensor| tensor.name == name)
        .unwrap_or_else(|| panic!("no `{name}` in the record"));
    let (_, dtype, shape, _, bytes) = tensor.into_parts().unwrap();
    TensorData::from_bytes(bytes, shape, dtype)
}

/// Name, parameter id and bytes of every tensor: what must not change where nothing may.
pub fn contents(record: ModuleRecord) -> Vec<(String, Option<u64>, Vec<u8>)> {
    let mut contents: Vec<_> = tensors_of(record)
        .into_iter()
        .map(|tensor| {
            let bytes = tensor.to_bytes().unwrap().to_vec();
            (tensor.name, tensor.param_id, bytes)
        })
        .collect();
    contents.sort();
    contents
}
