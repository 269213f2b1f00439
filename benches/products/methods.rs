//! What is compared, and how often it is called.

use burn::module::Param;
use burn::tensor::Tensor;
use snack_burn::prelude::*;

use super::layer::{Layer, Output, Weight};
use super::operands::Operands;
use super::problems::Op;

/// What computes a problem.
#[derive(Debug, Clone)]
pub enum Method {
    /// The library, by the routines of that name.
    Snack(String, Routines),
    /// Burn's dense product.
    BurnDense,
    /// Burn's dense product with the weight under a mask, as in `MaskedLinear`.
    BurnMasked,
}

impl Method {
    pub fn name(&self) -> String {
        match self {
            Self::Snack(routine, _) => format!("snack:{routine}"),
            Self::BurnDense => "burn_dense".to_string(),
            Self::BurnMasked => "burn_masked".to_string(),
        }
    }

    fn routines(&self) -> Routines {
        match self {
            Self::Snack(_, routines) => *routines,
            Self::BurnDense | Self::BurnMasked => Routines::default(),
        }
    }
}

/// How often to compute, and what to keep.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// Once, with everything that a check needs.
    Check,
    /// So many times in a row, as a user would.
    Chain(usize),
}

impl Run {
    /// How many calls.
    pub fn calls(self) -> usize {
        match self {
            Self::Check => 1,
            Self::Chain(calls) => calls,
        }
    }
}

/// Computes a problem as often as the argument says.
pub type Call = Box<dyn Fn(Run) -> Vec<Output> + Send + Sync>;

/// What computes `op` on these operands.
pub fn call(op: Op, method: &Method, weight: Weight, operands: &Operands) -> Call {
    let Operands { x, y, bias } = operands.clone();
    match (op, weight) {
        (Op::Spmm, weight) => repeat(move || Output::Matrix(weight.spmm(x.clone()))),
        (Op::SpmmTransposed, weight) => {
            repeat(move || Output::Matrix(weight.spmm_transposed(y.clone())))
        }
        (Op::Sddmm, weight) => repeat(move || weight.sddmm(y.clone(), x.clone())),
        (Op::Forward, Weight::Sparse(weight)) => {
            let layer = sparse_linear(&weight, bias, method.routines());
            repeat(move || Output::Matrix(layer.forward(x.clone())))
        }
        (Op::Forward, weight) => repeat(move || Output::Matrix(weight.forward(x.clone(), &bias))),
        (Op::Step, weight) => Box::new(move |run| {
            let mut layer = Some(Layer {
                weight: weight.clone(),
                bias: bias.clone(),
            });
            let keep = matches!(run, Run::Check);
            let mut left = run.calls();
            kept(left, || {
                left -= 1;
                let now = layer
                    .take()
                    .expect("every step but the last leaves a layer");
                match now.step(&weight, &x, &y, keep) {
                    Output::Step(next, _, of_input) if left > 0 => {
                        layer = Some(*next);
                        Output::Matrix(of_input)
                    }
                    last => last,
                }
            })
        }),
    }
}

/// Fusion skips what is dropped before it runs, so there every output has to be kept. Without it
/// a dropped output is a buffer that the next call writes to again, as in a training loop.
const LAZY: bool = cfg!(feature = "fusion");

/// The outputs of so many calls that a chain has to hold: the last, and under fusion all.
pub fn kept(calls: usize, mut once: impl FnMut() -> Output) -> Vec<Output> {
    let mut outputs = Vec::new();
    for _ in 0..calls {
        if !LAZY {
            outputs.clear();
        }
        outputs.push(once());
    }
    outputs
}

fn repeat(once: impl Fn() -> Output + Send + Sync + 'static) -> Call {
    Box::new(move |run| kept(run.calls(), &once))
}

fn sparse_linear(weight: &SparseTensor, bias: Tensor<1>, routines: Routines) -> SparseLinear {
    SparseLinear {
        values: Param::from_tensor(weight.values().clone()),
        pattern: weight.device_pattern().clone(),
        bias: Some(Param::from_tensor(bias)),
        routines,
    }
}
