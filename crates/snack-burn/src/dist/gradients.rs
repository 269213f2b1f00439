//! The gradients that all ranks apply.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::distributed::ReduceOperation;
use burn::tensor::{DType, Tensor};

use super::{Communicator, DistError};

/// Gradients of at most so many bytes travel together with others.
const SMALL: usize = 256 << 10;

/// The means of all gradients over ranks, parameter by parameter: those of a sparse layer slot by
/// slot, `nnz` numbers.
///
/// For a loss that is a mean over the batch and ranks with equal batches, they are the gradients of one
/// rank with the batches of all. Call it once for each optimizer step, after accumulation, and give
/// the optimizer what it returns.
///
/// Burn's own `ExecutionStrategy::ddp` reduces gradients during the backward pass instead; use one or
/// the other.
///
/// # Errors
///
/// As [`Communicator::all_reduce`]: parameters, or those that have gradients, differ between ranks.
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
        lists: Vec::new(),
    };
    model.visit(&mut taken);
    let lists = taken.lists;
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

/// Takes the gradients out as lists, in the order of the model.
struct Taken<'a> {
    grads: &'a mut GradientsParams,
    lists: Vec<(ParamId, Tensor<1>)>,
}

impl ModuleVisitor for Taken<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(grad) = self.grads.remove::<D>(param.id) {
            let length = grad.shape().num_elements();
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
