//! Whether all ranks have the same parameters.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Int, Tensor, TensorData};

use super::fingerprint::check_same;
use super::wire::{Reader, Writer};
use super::{Communicator, DistError};
use crate::nn::find_layers;

/// Compares all parameters of a model over ranks, patterns included, bit by bit (by checksums). Reads
/// everything to the host: for the beginning of a run, and for whoever doubts.
///
/// # Errors
///
/// [`DistError::ParametersDiffer`] with the first parameter that differs on the first rank that differs
/// from rank 0, and as [`check_patterns`](super::check_patterns).
pub fn check_values<M: Module>(ranks: &dyn Communicator, model: &M) -> Result<(), DistError> {
    const OPERATION: &str = "compare parameters";
    if ranks.ranks() == 1 {
        return Ok(());
    }
    check_same(ranks, &find_layers(model))?;
    let mut sums = Sums::default();
    model.visit(&mut sums);
    let own = sums.sums;
    let mut writer = Writer::default();
    for (path, sum) in &own {
        writer.text(path);
        writer.number(*sum);
    }
    let messages = ranks.all_gather(OPERATION, writer.into_bytes())?;
    let mut lists = Vec::with_capacity(messages.len());
    for (rank, bytes) in messages.iter().enumerate() {
        lists.push(read(bytes).ok_or_else(|| DistError::DamagedMessage {
            rank,
            operation: OPERATION,
            reason: "it is no list of parameters and checksums".into(),
        })?);
    }
    for (rank, found) in lists.iter().enumerate().skip(1) {
        let expected = &lists[0];
        let index = (0..expected.len().max(found.len()))
            .find(|&index| expected.get(index) != found.get(index));
        if let Some(index) = index {
            let parameter = expected.get(index).or(found.get(index));
            return Err(DistError::ParametersDiffer {
                parameter: parameter.map_or(String::new(), |(path, _)| path.clone()),
                rank,
            });
        }
    }
    Ok(())
}

fn read(bytes: &[u8]) -> Option<Vec<(String, u64)>> {
    let mut reader = Reader::new(bytes);
    let mut list = Vec::new();
    while !reader.is_at_end() {
        list.push((reader.text()?, reader.number()?));
    }
    Some(list)
}

/// Path and checksum of every parameter.
#[derive(Default)]
struct Sums {
    path: Vec<String>,
    sums: Vec<(String, u64)>,
}

impl Sums {
    fn add(&mut self, data: TensorData) {
        let sum = u64::from(crc32fast::hash(data.as_bytes()));
        self.sums.push((self.path.join("."), sum));
    }
}

impl ModuleVisitor for Sums {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.add(param.val().into_data());
    }

    fn visit_int<const D: usize>(&mut self, _param: &Param<Tensor<D, Int>>) {
        // Patterns, which are compared as such; other integers are not trained.
    }
}
