//! Replaying a computation without the host's share of it.
//!
//! A kernel of a few microseconds is launched by a host that needs twenty to forty for each
//! operation. [`Captured`] records the launches of a closure once, as a hardware graph where the
//! device has such (CUDA, ROCm), and replays them in one go.

use std::marker::PhantomData;

use burn::tensor::{Device, Graph, Tensor, capture};

/// A captured computation that owns all it needs.
///
/// It wraps Burn's [`capture`], whose replay is unsafe because the recorded launches read and write
/// the very buffers of the recording. Here the closure is `'static`, so that it owns its tensors;
/// the graph keeps alive the buffers in between, which are its own; and the value stays on the
/// thread, and so on the stream, where it was recorded.
///
/// A replay goes on from the one before only if the closure leaves its state in the buffers that it
/// reads it from: [`store`] does so. An ordinary assignment, or an operation that may reuse another
/// operand's buffer, gives every replay the first state again. On a device without graphs a replay
/// runs the closure again.
///
/// # Example
///
/// A training step of a layer, whose weight the closure owns:
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use snack_burn::capture::{Captured, store};
/// use snack_burn::prelude::*;
///
/// let device = Device::flex().autodiff();
/// let layer = SparseLinearConfig::new(32, 16).with_sparsity(0.9).with_bias(false).init(&device);
/// let pattern = layer.pattern.clone();
/// let mut values = layer.values.val().detach().inner();
/// let x = Tensor::<2>::random([4, 32], Distribution::Default, &device);
/// let target = Tensor::<2>::zeros([4, 16], &device);
///
/// let mut step = Captured::new(&device, move || {
///     let tracked = Tensor::from_inner(values.clone()).require_grad();
///     let y = SparseTensor::new(tracked.clone(), pattern.clone()).spmm(x.clone());
///     let loss = (y - target.clone()).square().mean();
///     let grad = tracked.grad(&loss.backward()).expect("the values are tracked");
///     drop(tracked);
///     let stepped = values.clone() - grad * 0.1;
///     store(&mut values, stepped);
///     loss.inner()
/// });
/// let first: f32 = step.replay().clone().into_scalar();
/// let second: f32 = step.replay().clone().into_scalar();
/// assert!(second < first);
/// ```
pub struct Captured<T, F> {
    graph: Graph<T, F>,
    /// Not `Send`: a replay belongs to the stream of the thread that recorded it.
    stream: PhantomData<*const ()>,
}

impl<T, F: FnMut() -> T + 'static> Captured<T, F> {
    /// Runs the closure a few times to warm up and once to record it. State that it changes goes on
    /// through these runs. The device may be that of the closure with autodiff or without.
    ///
    /// While it records, other threads must leave the device alone: most of what they would ask of
    /// it fails then.
    pub fn new(device: &Device, closure: F) -> Self {
        Self {
            // Burn's autodiff decorator does not pass a capture on to the device below it.
            graph: capture(&device.clone().without_autodiff(), closure),
            stream: PhantomData,
        }
    }

    /// Runs the recorded computation and returns its output, whose buffers the next replay
    /// overwrites: read it before.
    pub fn replay(&mut self) -> &T {
        // SAFETY: the closure is 'static and kept by the graph, so what it captured is alive; what
        // it allocated and dropped again is kept by the recording. `&mut self` excludes a second
        // replay, and the value cannot leave the thread whose stream recorded it. The output that
        // is handed out is only borrowed, or cloned into operations of the same stream.
        unsafe { self.graph.replay() }
    }

    /// The output of the recording or of the last replay.
    pub fn output(&self) -> &T {
        self.graph.output()
    }

    /// Whether the device replays a hardware graph; otherwise the closure runs again.
    pub fn is_hardware(&self) -> bool {
        self.graph.is_hardware()
    }
}

/// Writes `value` into the buffer of `state`, where the next replay of a [`Captured`] reads it.
///
/// Nothing else may hold `state` when it is called: no clone, and no autodiff graph. Whether the
/// buffer was kept cannot be seen from outside; compare a few losses of a captured step with those
/// of the closure run by itself.
///
/// # Panics
///
/// Panics if the shapes differ.
pub fn store<const D: usize>(state: &mut Tensor<D>, value: Tensor<D>) {
    assert_eq!(
        state.dims(),
        value.dims(),
        "store: expected a value of the shape of the state"
    );
    let everything = value.dims().map(|size| 0..size);
    state.inplace(|state| state.slice_assign(everything, value));
}
