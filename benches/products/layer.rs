//! The same operations on a sparse, a dense and a masked weight, through public APIs only.

use burn::tensor::module::linear;
use burn::tensor::{Bool, Gradients, Tensor};
use snack_burn::prelude::*;

use super::methods::Method;
use super::operands::Weights;
use super::problems::Problem;

/// Small enough that a chain of steps stays finite at any width.
const LEARNING_RATE: f64 = 1e-5;

/// A weight `[m, k]` in one of the three forms; the dense ones are stored `[k, m]`.
#[derive(Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "there is one at a time, and handles of tensors grow with the back ends"
)]
pub enum Weight {
    Sparse(SparseTensor),
    Dense(Tensor<2>),
    Masked(Tensor<2>, Tensor<2, Bool>),
}

/// A result.
pub enum Output {
    Matrix(Tensor<2>),
    Values(Tensor<1>),
    /// The state after SGD, the gradient of the weight before it if kept, and that of the input.
    Step(Box<Layer>, Option<Box<Output>>, Tensor<2>),
}

impl Output {
    /// Another handle on the tensors that a check reads.
    pub fn share(&self) -> Option<Self> {
        match self {
            Self::Matrix(matrix) => Some(Self::Matrix(matrix.clone())),
            Self::Values(values) => Some(Self::Values(values.clone())),
            Self::Step(..) => None,
        }
    }
}

/// A weight and its bias.
pub struct Layer {
    pub weight: Weight,
    pub bias: Tensor<1>,
}

impl Weight {
    /// # Panics
    ///
    /// Panics if the method is a baseline and its weight was not drawn.
    pub fn new(method: &Method, weights: &Weights, problem: &Problem) -> Self {
        let dtype = problem.dtype.dtype();
        let dense = || weights.dense.as_ref().expect("drawn with the baselines");
        match method {
            Method::Snack(_, routines) => {
                let values = weights.sparse.values().clone().cast(dtype);
                Self::Sparse(weights.sparse.with_values(values).with_routines(*routines))
            }
            Method::BurnDense => Self::Dense(dense().weight.clone().cast(dtype)),
            Method::BurnMasked => {
                Self::Masked(dense().weight.clone().cast(dtype), dense().pruned.clone())
            }
        }
    }

    pub fn spmm(&self, x: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Sparse(weight) => weight.spmm(x),
            Self::Dense(weight) => x.matmul(weight.clone()),
            Self::Masked(weight, pruned) => x.matmul(masked(weight, pruned)),
        }
    }

    pub fn spmm_transposed(&self, y: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Sparse(weight) => weight.spmm_transposed(y),
            Self::Dense(weight) => y.matmul(weight.clone().transpose()),
            Self::Masked(weight, pruned) => y.matmul(masked(weight, pruned).transpose()),
        }
    }

    pub fn sddmm(&self, y: Tensor<2>, x: Tensor<2>) -> Output {
        match self {
            Self::Sparse(weight) => Output::Values(weight.sddmm(y, x).values().clone()),
            Self::Dense(_) => Output::Matrix(x.transpose().matmul(y)),
            Self::Masked(_, pruned) => Output::Matrix(masked(&x.transpose().matmul(y), pruned)),
        }
    }

    pub fn forward(&self, x: Tensor<2>, bias: &Tensor<1>) -> Tensor<2> {
        match self {
            Self::Sparse(weight) => weight.spmm(x) + bias.clone().unsqueeze(),
            Self::Dense(weight) => linear(x, weight.clone(), Some(bias.clone())),
            Self::Masked(weight, pruned) => linear(x, masked(weight, pruned), Some(bias.clone())),
        }
    }
}

fn masked(weight: &Tensor<2>, pruned: &Tensor<2, Bool>) -> Tensor<2> {
    weight.clone().mask_fill(pruned.clone(), 0.0)
}

impl Layer {
    /// One step of SGD on the squared error, summed over features and averaged over the batch.
    ///
    /// `first` is the weight before any step. It lends its pattern, so that nothing but this
    /// layer holds the values and SGD may update them in place.
    pub fn step(self, first: &Weight, x: &Tensor<2>, target: &Tensor<2>, keep: bool) -> Output {
        let x = x.clone().autodiff().require_grad();
        let bias = self.bias.autodiff().require_grad();
        let backward = |weight: &Weight| {
            let difference = weight.forward(x.clone(), &bias) - target.clone().autodiff();
            let batch = target.dims()[0] as f64;
            ((difference.clone() * difference).sum() / batch).backward()
        };
        let mut grads;
        let (weight, kept) = match (self.weight, first) {
            (Weight::Sparse(weight), Weight::Sparse(first)) => {
                let values = weight.values().clone();
                drop(weight);
                let values = values.autodiff().require_grad();
                grads = backward(&Weight::Sparse(first.with_values(values.clone())));
                let (values, kept) = descend(values, &mut grads, keep);
                let weight = Weight::Sparse(first.with_values(values));
                (weight, kept.map(Output::Values))
            }
            (Weight::Masked(weight, pruned), _) => {
                let weight = weight.autodiff().require_grad();
                grads = backward(&Weight::Masked(weight.clone(), pruned.clone()));
                let (weight, kept) = descend(weight, &mut grads, keep);
                (Weight::Masked(weight, pruned), kept.map(Output::Matrix))
            }
            (Weight::Dense(weight), _) => {
                let weight = weight.autodiff().require_grad();
                grads = backward(&Weight::Dense(weight.clone()));
                let (weight, kept) = descend(weight, &mut grads, keep);
                (Weight::Dense(weight), kept.map(Output::Matrix))
            }
            (Weight::Sparse(_), _) => unreachable!("a step keeps the form of its weight"),
        };
        let of_input = x.grad_remove(&mut grads).expect(TRACKED);
        let (bias, _) = descend(bias, &mut grads, false);
        Output::Step(
            Box::new(Layer { weight, bias }),
            kept.map(Box::new),
            of_input,
        )
    }
}

const TRACKED: &str = "the backward pass reaches every tracked leaf";

/// A leaf after SGD, without autodiff, and its gradient if kept.
fn descend<const D: usize>(
    leaf: Tensor<D>,
    grads: &mut Gradients,
    keep: bool,
) -> (Tensor<D>, Option<Tensor<D>>) {
    let gradient = leaf.grad_remove(grads).expect(TRACKED);
    let kept = keep.then(|| gradient.clone());
    (leaf.inner() - gradient * LEARNING_RATE, kept)
}
