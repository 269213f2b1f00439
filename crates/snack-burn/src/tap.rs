//! Factors of gradients on their way from backward passes to topology updates.
//!
//! The backward pass of a sparse product has the output gradient and the input at hand. It offers
//! them under the node that the values are in the graph of derivatives, and whoever listens for that
//! node keeps them. Where nobody listens, which is almost always, an offer costs one atomic load.
//!
//! A node rather than a parameter id: it belongs to the values of one step of one model. Copies of
//! the model that train beside it have other nodes, and so has the model itself after the next step,
//! so that nothing is kept for an updater that is no longer asked.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use burn::backend::autodiff::NodeId;
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Backend, BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind,
};
use burn::module::ParamId;
use burn::tensor::{DType, FloatDType, Int, Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::pattern::draw_distinct;

/// Armed listeners.
static ARMED: AtomicUsize = AtomicUsize::new(0);
static LISTENERS: Mutex<Vec<Weak<Mutex<Kept>>>> = Mutex::new(Vec::new());

/// The output gradient `[batch, m]` and the input `[batch, k]` of one backward pass of a layer.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub g: Tensor<2>,
    pub x: Tensor<2>,
}

/// Receives the factors of some layers while it is armed.
#[derive(Debug)]
pub(crate) struct Listener(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// The layer of each node.
    nodes: BTreeMap<u64, ParamId>,
    rows: Option<RowSample>,
    parts: BTreeMap<u64, Vec<Part>>,
}

/// Which rows of a batch are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSample {
    /// At most so many.
    pub most: usize,
    /// With the layer and the number of its parts this decides which.
    pub seed: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    pub fn new() -> Self {
        let kept = Arc::default();
        let mut listeners = lock(&LISTENERS);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(&kept));
        Self(kept)
    }

    /// Listens for these nodes of layers from now on, and for no others.
    pub fn listen(&self, nodes: impl IntoIterator<Item = (u64, ParamId)>, rows: Option<RowSample>) {
        let mut kept = lock(&self.0);
        let was = !kept.nodes.is_empty();
        kept.nodes = nodes.into_iter().collect();
        kept.rows = rows;
        match (was, !kept.nodes.is_empty()) {
            (false, true) => ARMED.fetch_add(1, Ordering::Relaxed),
            (true, false) => ARMED.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// Listens for the nodes of a replica too, for the layers that are being listened for.
    pub fn listen_also(&self, nodes: impl IntoIterator<Item = (u64, ParamId)>) {
        let mut kept = lock(&self.0);
        let wanted: BTreeSet<u64> = kept.nodes.values().map(|id| id.val()).collect();
        let nodes = nodes
            .into_iter()
            .filter(|(_, id)| wanted.contains(&id.val()));
        kept.nodes.extend(nodes);
    }

    /// Whether it listens for anything.
    pub fn is_armed(&self) -> bool {
        !lock(&self.0).nodes.is_empty()
    }

    /// What came since the last call.
    pub fn take(&self) -> BTreeMap<u64, Vec<Part>> {
        core::mem::take(&mut lock(&self.0).parts)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.listen([], None);
    }
}

/// Hands the factors of a layer's gradient to those who listen for the node of its values.
pub(crate) fn offer<B: Backend>(values: NodeId, g: &FloatTensor<B>, x: &FloatTensor<B>) {
    if ARMED.load(Ordering::Relaxed) == 0 {
        return;
    }
    let listeners: Vec<_> = lock(&LISTENERS).iter().filter_map(Weak::upgrade).collect();
    for listener in listeners {
        let mut kept = lock(&listener);
        let Some(id) = kept.nodes.get(&values.value).map(|id| id.val()) else {
            continue;
        };
        if let (Some(g), Some(x)) = (lift::<B>(g.clone()), lift::<B>(x.clone())) {
            let count = kept.parts.get(&id).map_or(0, Vec::len);
            let part = sampled(Part { g, x }, kept.rows, id, count);
            kept.parts.entry(id).or_default().push(part);
        }
    }
}

/// Some rows of both factors, scaled so that the expected gradient stays.
fn sampled(part: Part, rows: Option<RowSample>, id: u64, count: usize) -> Part {
    let [batch, _] = part.g.dims();
    let Some(RowSample { most, seed }) = rows.filter(|rows| rows.most < batch) else {
        return part;
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ id.rotate_left(17));
    rng.set_stream(count as u64);
    let chosen: Vec<i32> = draw_distinct(most, batch as u64, &mut rng)
        .into_iter()
        .map(|row| row as i32)
        .collect();
    let options = (&part.g.device(), DType::I32);
    let chosen = Tensor::<1, Int>::from_data(TensorData::new(chosen, [most]), options);
    Part {
        g: part.g.select(0, chosen.clone()) * (batch as f64 / most as f64),
        x: part.x.select(0, chosen),
    }
}

/// A tensor of a back end as users hold it, if the back end is one of those of this crate.
fn lift<B: Backend>(tensor: FloatTensor<B>) -> Option<Tensor<2>> {
    let tensor: Box<dyn Any> = Box::new(tensor);
    #[cfg(feature = "flex")]
    let tensor = match tensor.downcast::<FloatTensor<burn::backend::Flex>>() {
        Ok(tensor) => {
            return Some(untracked(DispatchTensorKind::Flex(BackendTensor::Float(
                *tensor,
            ))));
        }
        Err(tensor) => tensor,
    };
    #[cfg(feature = "__cube")]
    let tensor = match tensor.downcast::<FloatTensor<burn::backend::Cube>>() {
        Ok(tensor) => {
            return Some(untracked(DispatchTensorKind::Cube(BackendTensor::Float(
                *tensor,
            ))));
        }
        Err(tensor) => tensor,
    };
    drop(tensor);
    None
}

#[allow(dead_code)]
fn untracked(kind: DispatchTensorKind) -> Tensor<2> {
    Tensor::from_dispatch(DispatchTensor {
        kind,
        autodiff: DispatchAutodiffContext::Disabled,
    })
}

/// The values in another data type; who listens for them hears of the products of the cast.
pub(crate) fn cast(values: Tensor<1>, dtype: FloatDType) -> Tensor<1> {
    let cast = values.clone().cast(dtype);
    if ARMED.load(Ordering::Relaxed) == 0 {
        return cast;
    }
    if let (Some(node), Some(stand_in)) = (node_of(&values), node_of(&cast)) {
        let listeners: Vec<_> = lock(&LISTENERS).iter().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            let mut kept = lock(&listener);
            if let Some(&id) = kept.nodes.get(&node) {
                kept.nodes.insert(stand_in, id);
            }
        }
    }
    cast
}

/// The node of a tensor in the graph of derivatives, if it is tracked.
pub(crate) fn node_of<const D: usize>(tensor: &Tensor<D>) -> Option<u64> {
    if !tensor.is_tracked() {
        return None;
    }
    let DispatchTensorKind::Autodiff(kind) = tensor.clone().into_dispatch().kind else {
        return None;
    };
    match &*kind {
        #[cfg(feature = "flex")]
        DispatchTensorKind::Flex(BackendTensor::Autodiff(tensor)) => Some(tensor.id().value),
        #[cfg(feature = "__cube")]
        DispatchTensorKind::Cube(BackendTensor::Autodiff(tensor)) => Some(tensor.id().value),
        _ => None,
    }
}
