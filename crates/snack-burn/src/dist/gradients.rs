//! The gradients that all ranks apply.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::distributed::ReduceOperation;
use burn::tensor::{DType, Int, Tensor};

use super::fingerprint::compare;
use super::wire::{Reader, Writer};
use super::{Communicator, DistError, Fingerprint};
use crate::tensor::visited_pattern;

/// Gradients of at most so many bytes travel together with others.
const SMALL: usize = 256 << 10;

/// The means of all gradients over ranks, parameter by parameter: those of a sparse layer slot by
/// slot, `nnz` numbers.
///
/// For a loss that is a mean over the batch and ranks with equal batches, they are the gradients of one
/// rank with the batches of all; with other batches every rank still weighs the same. Call it once for
/// each optimizer step, after accumulation, and give the optimizer what it returns.
///
/// A slot must mean the same connection everywhere, so fingerprints of the patterns are compared first;
/// a pattern that has not changed since the last time costs nothing but the message.
///
/// Burn's own `ExecutionStrategy::ddp` reduces gradients during the backward pass instead; use one or
/// the other.
///
/// # Errors
///
/// [`DistError::PatternsDiffer`] as [`check_patterns`](super::check_patterns);
/// [`DistError::TensorsDiffer`] if a parameter has a gradient on some ranks only, or of another length;
/// and as [`Communicator::all_reduce`].
pub fn reduce_gradients<M: Module>(
    ranks: &dyn Communicator,
    model: &M,
    mut grads: GradientsParams,
) -> Result<GradientsParams, DistError> {
    if ranks.ranks() == 1 {
        return Ok(grads);
    }
    let mut taken = Taken {
        grads: &mut grads,
        path: Vec::new(),
        lists: Vec::new(),
        words: Vec::new(),
        patterns: Vec::new(),
    };
    model.visit(&mut taken);
    let Taken {
        lists,
        words,
        patterns,
        ..
    } = taken;
    compare(ranks, patterns)?;
    compare_words(ranks, words)?;
    let (ids, lists): (Vec<_>, Vec<_>) = lists.into_iter().unzip();
    let lists = reduce_lists(ranks, lists)?;
    let mut put = Put {
        grads: &mut grads,
        lists: ids
            .into_iter()
            .zip(lists)
            .collect::<Vec<_>>()
            .into_iter()
            .peekable(),
    };
    model.visit(&mut put);
    Ok(grads)
}

/// Lists are joined before they travel, so that the shapes of what is reduced do not tell whose
/// gradients they are.
fn compare_words(ranks: &dyn Communicator, words: Vec<String>) -> Result<(), DistError> {
    const OPERATION: &str = "reduce gradients";
    let mut writer = Writer::default();
    words.iter().for_each(|words| writer.text(words));
    let messages = ranks.all_gather(OPERATION, writer.into_bytes())?;
    let expected = words_of(OPERATION, 0, &messages[0])?;
    for (rank, bytes) in messages.iter().enumerate().skip(1) {
        let found = words_of(OPERATION, rank, bytes)?;
        let length = expected.len().max(found.len());
        if let Some(index) = (0..length).find(|&index| expected.get(index) != found.get(index)) {
            let none = || "no more gradients".to_string();
            return Err(DistError::TensorsDiffer {
                rank,
                operation: OPERATION,
                expected: expected.get(index).cloned().unwrap_or_else(none),
                found: found.get(index).cloned().unwrap_or_else(none),
            });
        }
    }
    Ok(())
}

fn words_of(operation: &'static str, rank: usize, bytes: &[u8]) -> Result<Vec<String>, DistError> {
    let mut reader = Reader::new(bytes);
    let mut words = Vec::new();
    while !reader.is_at_end() {
        words.push(reader.text().ok_or_else(|| DistError::DamagedMessage {
            rank,
            operation,
            reason: "it is no list of gradients".into(),
        })?);
    }
    Ok(words)
}

/// The means of lists over ranks; small ones are joined, since a reduction has its price however
/// little it moves.
fn reduce_lists(
    ranks: &dyn Communicator,
    lists: Vec<Tensor<1>>,
) -> Result<Vec<Tensor<1>>, DistError> {
    let mut bundles: Vec<Bundle> = Vec::new();
    for (index, list) in lists.into_iter().enumerate() {
        let (length, dtype) = (list.dims()[0], list.dtype());
        let small = length * dtype.size() <= SMALL;
        let open = bundles
            .iter_mut()
            .find(|bundle| small && bundle.small && bundle.dtype == dtype);
        match open {
            Some(bundle) => bundle.lists.push((index, list)),
            None => bundles.push(Bundle {
                small,
                dtype,
                lists: vec![(index, list)],
            }),
        }
    }
    let mut places = Vec::with_capacity(bundles.len());
    let mut joined = Vec::with_capacity(bundles.len());
    for bundle in bundles {
        let lengths = bundle
            .lists
            .iter()
            .map(|(index, list)| (*index, list.dims()[0]));
        places.push(lengths.collect::<Vec<_>>());
        let mut lists: Vec<_> = bundle.lists.into_iter().map(|(_, list)| list).collect();
        joined.push(match lists.len() {
            1 => lists.remove(0),
            _ => Tensor::cat(lists, 0),
        });
    }
    let reduced = ranks.all_reduce(joined, ReduceOperation::Mean)?;
    let mut parts = Vec::new();
    for (list, places) in reduced.into_iter().zip(places) {
        if let [(index, _)] = places[..] {
            parts.push((index, list));
            continue;
        }
        let mut begin = 0;
        for (index, length) in places {
            parts.push((index, list.clone().slice(begin..begin + length)));
            begin += length;
        }
    }
    parts.sort_by_key(|(index, _)| *index);
    Ok(parts.into_iter().map(|(_, list)| list).collect())
}

/// Lists that travel together.
struct Bundle {
    small: bool,
    dtype: DType,
    /// With their places.
    lists: Vec<(usize, Tensor<1>)>,
}

/// Takes the gradients out as lists, in the order of the model, and says what they are of.
struct Taken<'a> {
    grads: &'a mut GradientsParams,
    path: Vec<String>,
    lists: Vec<(ParamId, Tensor<1>)>,
    words: Vec<String>,
    patterns: Vec<(String, Fingerprint)>,
}

impl ModuleVisitor for Taken<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_int<const D: usize>(&mut self, _param: &Param<Tensor<D, Int>>) {
        if let Some(pattern) = visited_pattern() {
            let layer = self.path[..self.path.len().saturating_sub(1)].join(".");
            self.patterns
                .push((layer, Fingerprint::of_placed(&pattern)));
        }
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(grad) = self.grads.remove::<D>(param.id) {
            let length = grad.shape().num_elements();
            let path = self.path.join(".");
            self.words
                .push(format!("a gradient of `{path}` with {length} numbers"));
            self.lists.push((param.id, grad.reshape([length])));
        }
    }
}

/// Puts them back.
struct Put<'a, I: Iterator<Item = (ParamId, Tensor<1>)>> {
    grads: &'a mut GradientsParams,
    lists: core::iter::Peekable<I>,
}

impl<I: Iterator<Item = (ParamId, Tensor<1>)>> ModuleVisitor for Put<'_, I> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some((_, list)) = self.lists.next_if(|(id, _)| *id == param.id) {
            let shape = param.lazy_shape();
            self.grads.register::<D>(param.id, list.reshape(shape));
        }
    }
}
