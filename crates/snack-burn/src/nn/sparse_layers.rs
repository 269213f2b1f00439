//! Finding the sparse layers of a module, and giving them other coordinates.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Int, Tensor, TensorData};

use crate::pattern::Pattern;
use crate::tap;
use crate::tensor::{DevicePattern, HostIndex, replace_pattern, visited_pattern};

const SPARSE_LINEAR: &str = "Struct:SparseLinear";

/// What messages call a layer, which is the whole model if its path is empty.
pub(crate) fn layer_label(name: &str) -> &str {
    match name {
        "" => "(model)",
        name => name,
    }
}

/// A sparse layer as a traversal of its module sees it.
#[derive(Debug, Clone)]
pub struct SparseLayer {
    /// Path of the layer in the module, such as `blocks.0.mlp.c_fc`; empty for the module itself.
    pub name: String,
    /// The values, `[nnz]`.
    pub values: Tensor<1>,
    /// Parameter id of the values.
    pub values_id: ParamId,
    /// The coordinates.
    pub pattern: Pattern,
}

/// New coordinates and values of a sparse layer.
pub(crate) struct NewWeights {
    pub pattern: Arc<Pattern>,
    pub values: TensorData,
    /// What is already there of the pattern's index tensors.
    pub index: HostIndex,
}

/// A sparse layer with its coordinates as the module holds them.
#[derive(Debug, Clone)]
pub(crate) struct FoundLayer {
    pub name: String,
    pub values: Tensor<1>,
    pub values_id: ParamId,
    /// The values in the graph of derivatives; `None` if they are not tracked.
    pub node: Option<u64>,
    /// Whether the values want no gradient on a device that has them, as after `no_grad`.
    pub frozen: bool,
    pub pattern: DevicePattern,
}

/// The sparse layers of a module in traversal order.
pub fn sparse_layers<M: Module>(module: &M) -> Vec<SparseLayer> {
    let layers = find_layers(module).into_iter();
    layers
        .map(|layer| SparseLayer {
            name: layer.name,
            values: layer.values,
            values_id: layer.values_id,
            pattern: Pattern::clone(layer.pattern.pattern()),
        })
        .collect()
}

/// As [`sparse_layers`], without a copy of the coordinates.
pub(crate) fn find_layers<M: Module>(module: &M) -> Vec<FoundLayer> {
    let mut finder = Finder::default();
    module.visit(&mut finder);
    finder.found
}

/// Gives the named layers other weights, keeping their parameter ids, devices and training state.
pub(crate) fn replace_weights<M: Module>(module: M, weights: BTreeMap<String, NewWeights>) -> M {
    module.map(&mut Replacer {
        path: Vec::new(),
        weights,
        current: None,
    })
}

/// Path of the sparse layer whose field `field` is being traversed.
fn layer_of(path: &[(String, String)], field: &str) -> Option<String> {
    let ((name, container), parents) = path.split_last()?;
    (name == field && container == SPARSE_LINEAR).then(|| {
        let parents: Vec<_> = parents.iter().map(|(name, _)| name.as_str()).collect();
        parents.join(".")
    })
}

#[derive(Default)]
struct Finder {
    path: Vec<(String, String)>,
    values: Option<(ParamId, Option<u64>, bool, Tensor<1>)>,
    found: Vec<FoundLayer>,
}

impl ModuleVisitor for Finder {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path
            .push((name.to_string(), container_type.to_string()));
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if layer_of(&self.path, "values").is_some() {
            let values = param.val();
            let node = tap::node_of(&values);
            let frozen = values.is_autodiff() && !values.is_require_grad();
            self.values = Some((param.id, node, frozen, values.reshape([-1])));
        }
    }

    fn visit_int<const D: usize>(&mut self, _param: &Param<Tensor<D, Int>>) {
        if let Some(name) = layer_of(&self.path, "pattern")
            && let Some((values_id, node, frozen, values)) = self.values.take()
            && let Some(pattern) = visited_pattern()
        {
            self.found.push(FoundLayer {
                name,
                values,
                values_id,
                node,
                frozen,
                pattern,
            });
        }
    }
}

struct Replacer {
    path: Vec<(String, String)>,
    weights: BTreeMap<String, NewWeights>,
    /// The pattern of the layer whose values were replaced last.
    current: Option<(Arc<Pattern>, HostIndex)>,
}

impl ModuleMapper for Replacer {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path
            .push((name.to_string(), container_type.to_string()));
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let new = layer_of(&self.path, "values").and_then(|layer| self.weights.remove(&layer));
        let Some(new) = new else { return param };
        self.current = Some((new.pattern, new.index));
        let id = param.id;
        param.map(|old| {
            let options = (&old.device(), old.dtype());
            let new = Tensor::from_data(new.values, options);
            let new = new.set_require_grad(old.is_require_grad());
            // Burn's data parallelism reduces the gradients of marked parameters only.
            match old.is_autodiff() && old.is_distributed() {
                true => new.set_distributed(id),
                false => new,
            }
        })
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        if layer_of(&self.path, "pattern").is_some()
            && let Some((pattern, index)) = self.current.take()
        {
            replace_pattern(pattern, index);
        }
        param
    }
}
