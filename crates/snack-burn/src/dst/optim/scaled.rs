//! Learning rates that depend on a layer's sparsity.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use burn::grad_clipping::GradientClipping;
use burn::module::{Module, ParamGroup, ParamId};
use burn::optim::{LearningRate, ModuleOptimizer, Optimizer};
use burn::tensor::{Device, Tensor, TensorData};

use crate::dst::{LayerChange, PerSlot, density_factor, slot_factors};
use crate::nn::find_layers;
use crate::pattern::Pattern;

/// An optimizer whose updates of one layer are multiplied by factors of that layer; made by
/// [`sparse_opt`] and [`scale_learning_rate`].
#[derive(Debug, Clone)]
pub struct Scaled<O> {
    inner: O,
    factors: Factors,
}

/// The factors of one layer, shared with the [`LayerScaling`] that renews them.
#[derive(Debug, Clone)]
enum Factors {
    /// One for the learning rate.
    Rate(Arc<Mutex<f64>>),
    /// One for every slot of the update.
    Slots(Arc<Mutex<Vec<f32>>>),
}

impl Factors {
    fn renew(&self, pattern: &Pattern) {
        match self {
            Self::Rate(factor) => {
                *factor.lock().unwrap_or_else(PoisonError::into_inner) =
                    f64::from(density_factor(pattern));
            }
            Self::Slots(factors) => {
                *factors.lock().unwrap_or_else(PoisonError::into_inner) = slot_factors(pattern);
            }
        }
    }
}

impl<O: Optimizer> Optimizer for Scaled<O> {
    type State<const D: usize> = O::State<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        match &self.factors {
            Factors::Rate(factor) => {
                let factor = *factor.lock().unwrap_or_else(PoisonError::into_inner);
                self.inner.step(lr * factor, tensor, grad, state)
            }
            Factors::Slots(factors) => {
                let factors = factors.lock().unwrap_or_else(PoisonError::into_inner);
                // The factors of all rows are 1 where all have the same number of inputs.
                if factors.iter().all(|&factor| factor == 1.0) {
                    return self.inner.step(lr, tensor, grad, state);
                }
                let data = TensorData::new(factors.clone(), tensor.dims());
                let data = data.convert_dtype(tensor.dtype());
                let factors = Tensor::<D>::from_data(data, (&tensor.device(), tensor.dtype()));
                let (stepped, state) = self.inner.step(lr, tensor.clone(), grad, state);
                (tensor.clone() + (stepped - tensor) * factors, state)
            }
        }
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        O::to_device(state, device)
    }
}

/// Renews the factors of all layers after topology updates: give it to
/// [`Dst::register`](crate::dst::Dst::register).
#[derive(Debug, Clone)]
pub struct LayerScaling {
    layers: BTreeMap<ParamId, Factors>,
}

impl PerSlot for LayerScaling {
    fn remap(&mut self, change: &LayerChange) {
        if let Some(factors) = self.layers.get(&change.values_id) {
            factors.renew(&change.after);
        }
    }
}

/// SparseOpt (2026): updates of the weights of row `i` are multiplied by the root of its number of
/// inputs over the mean of the layer, see [`row_factors`](crate::dst::row_factors).
///
/// The factors act on the update, not on the gradient, which Adam would not notice.
///
/// # Arguments
///
/// - `optimizer` - that of all other parameters.
/// - `inner` - that of the values of sparse layers.
/// - `clipping` - gradient clipping of the values.
/// - `model` - the model, with the coordinates that it has now.
///
/// # Example
///
/// ```
/// use burn::optim::SgdConfig;
/// use burn::tensor::Device;
/// use snack_burn::dst::sparse_opt;
/// use snack_burn::prelude::*;
///
/// let model = SparseLinearConfig::new(20, 10).init(&Device::default());
/// let mut dst = DstConfig::set().init(&model)?;
/// let sgd = SgdConfig::new();
/// let (optimizer, scaling) = sparse_opt(sgd.init(), sgd.build(), None, &model);
/// dst.register(scaling);
/// # Ok::<(), DstError>(())
/// ```
pub fn sparse_opt<O: Optimizer, M: Module>(
    optimizer: ModuleOptimizer,
    inner: O,
    clipping: Option<GradientClipping>,
    model: &M,
) -> (ModuleOptimizer, LayerScaling) {
    scaled(optimizer, inner, clipping, model, || {
        Factors::Slots(Arc::default())
    })
}

/// The learning rate of a sparse layer divided by its density (SMET; Xiao et al., 2026), see
/// [`density_factor`]. Arguments as of [`sparse_opt`].
pub fn scale_learning_rate<O: Optimizer, M: Module>(
    optimizer: ModuleOptimizer,
    inner: O,
    clipping: Option<GradientClipping>,
    model: &M,
) -> (ModuleOptimizer, LayerScaling) {
    scaled(optimizer, inner, clipping, model, || {
        Factors::Rate(Arc::default())
    })
}

fn scaled<O: Optimizer, M: Module>(
    mut optimizer: ModuleOptimizer,
    inner: O,
    clipping: Option<GradientClipping>,
    model: &M,
    new: impl Fn() -> Factors,
) -> (ModuleOptimizer, LayerScaling) {
    let mut layers = BTreeMap::new();
    for layer in find_layers(model) {
        let factors = new();
        factors.renew(layer.pattern.pattern());
        let scaled = Scaled {
            inner: inner.clone(),
            factors: factors.clone(),
        };
        let group = ParamGroup::from_ids(vec![layer.values_id]);
        optimizer = optimizer.with_group(group, scaled, clipping.clone());
        layers.insert(layer.values_id, factors);
    }
    (optimizer, LayerScaling { layers })
}
