//! Replaying a computation without the host's share of it.
//!
//! A kernel of a few microseconds is launched by a host that needs twenty to forty for each
//! operation. [`Captured`] records the launches of a closure once, as a hardware graph where the
//! back end has such (CUDA, ROCm, wgpu), and replays them in one go.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use burn::tensor::{Device, Graph, Tensor, capture};

/// Runs the closure unless it has panicked before, and keeps its panic.
type Caught<T> = Box<dyn FnMut() -> Option<T>>;
type Panic = Rc<RefCell<Option<Box<dyn Any + Send>>>>;

/// A captured computation that owns all it needs.
///
/// It wraps Burn's [`capture`], whose replay is unsafe because the recorded launches read and write
/// the very buffers of the recording. Here the closure is `'static`, so that it owns its tensors;
/// the graph keeps alive the buffers in between, which are its own; and the value stays on the
/// thread, and so on the stream, where it was recorded.
///
/// Where the back end records, a replay repeats the launches and nothing else. So the closure
///
/// - must not read from the device (`into_scalar`, `into_data`): it has no results yet then;
/// - must leave the state that it changes in the buffers that it reads it from, by [`store`]: an
///   ordinary assignment, or an operation that may reuse another operand's buffer, gives every
///   replay the first state again;
/// - draws random numbers once: every replay has those of the recording.
///
/// Elsewhere a replay runs the closure again, which asks for none of this: try a step where
/// [`is_hardware`](Self::is_hardware) says that it was recorded.
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
pub struct Captured<T> {
    graph: Graph<Option<T>, Caught<T>>,
    panic: Panic,
    /// Not `Send`: a replay belongs to the stream of the thread that recorded it.
    stream: PhantomData<*const ()>,
}

impl<T: 'static> Captured<T> {
    /// Runs the closure three times to warm up, and once more to record it. The warm-up moves on
    /// the state that the closure changes; a recording does not, a fourth ordinary run does. The
    /// device may be that of the closure with autodiff or without.
    ///
    /// While it records, other threads must leave the device alone: most of what they would ask of
    /// it fails then.
    ///
    /// # Panics
    ///
    /// Passes on a panic of the closure, after the recording has been closed.
    pub fn new<F: FnMut() -> T + 'static>(device: &Device, mut closure: F) -> Self {
        let panic = Panic::default();
        // A panic that unwound through the recording would leave the device in it for good.
        let caught: Caught<T> = Box::new({
            let panic = panic.clone();
            move || {
                if panic.borrow().is_some() {
                    return None;
                }
                let run = catch_unwind(AssertUnwindSafe(&mut closure));
                run.map_err(|payload| panic.replace(Some(payload))).ok()
            }
        });
        // Burn's autodiff decorator does not pass a capture on to the device below it.
        let graph = capture(&device.clone().without_autodiff(), caught);
        let captured = Self {
            graph,
            panic,
            stream: PhantomData,
        };
        captured.pass_on_panic();
        captured
    }

    fn pass_on_panic(&self) {
        if let Some(payload) = self.panic.take() {
            resume_unwind(payload);
        }
    }

    /// Runs the recorded computation and returns its output, whose buffers the next replay
    /// overwrites: read it before.
    ///
    /// # Panics
    ///
    /// Passes on a panic of the closure where it runs again.
    pub fn replay(&mut self) -> &T {
        // SAFETY: the closure is 'static and kept by the graph, so what it captured is alive; what
        // it allocated and dropped again is kept by the recording. `&mut self` excludes a second
        // replay, and the value cannot leave the thread whose stream recorded it. The output that
        // is handed out is only borrowed, or cloned into operations of the same stream.
        unsafe { self.graph.replay() };
        self.pass_on_panic();
        self.output()
    }

    /// The output of the last replay; before the first, that of the last run of the closure.
    pub fn output(&self) -> &T {
        let output = self.graph.output().as_ref();
        output.expect("a panic of the closure has been passed on")
    }

    /// Whether the back end replays a hardware graph; otherwise the closure runs again.
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
