//! A layer's forward pass and gradients, found and expected.

use burn::nn::Initializer;
use burn::tensor::{Device, Tensor, TensorData};
use snack_burn::prelude::*;

use super::host::{floats, widen};
use super::reference::{Coo, bias_gradient};

/// A scalar whose gradient by the output is not constant.
#[derive(Debug, Clone, Copy)]
pub enum Loss {
    /// `sum(y * c)` with random `c`.
    Weighted,
    /// `sum(y^2)`.
    Square,
}

/// Output and gradients of one pass, on the host.
#[derive(Debug, Clone)]
pub struct Pass {
    pub output: Vec<f64>,
    pub input: Vec<f64>,
    /// In slot order.
    pub values: Vec<f64>,
    pub bias: Option<Vec<f64>>,
}

/// A layer with weights as [`uniform`](super::uniform) draws them, for the same reason: relative
/// errors of sums that cancel say nothing.
pub fn well_conditioned(d_input: usize, d_output: usize) -> SparseLinearConfig {
    let uniform = Initializer::Uniform {
        min: -0.25,
        max: 1.0,
    };
    SparseLinearConfig::new(d_input, d_output)
        .with_initializer(SparseInitializer::Dense(uniform.clone()))
        .with_bias_initializer(Some(uniform))
}

/// The weight of a layer as the reference takes it.
pub fn weight_of(layer: &SparseLinear) -> Coo {
    let (rows, cols) = layer.pattern().iter().unzip();
    Coo {
        shape: layer.weight_shape(),
        rows,
        cols,
        values: floats(&layer.values.val()),
    }
}

/// What a pass has to give. `c` are the weights of [`Loss::Weighted`], `[batch, m]`.
pub fn reference_pass(layer: &SparseLinear, x: &[f32], c: &[f32], loss: Loss) -> Pass {
    let weight = weight_of(layer);
    let [m, _] = weight.shape;
    let batch = c.len().checked_div(m).unwrap_or(0);
    let x = widen(x);
    let mut output = weight.spmm(&x, batch);
    if let Some(bias) = &layer.bias {
        let bias = floats(&bias.val());
        output
            .iter_mut()
            .zip(bias.iter().cycle())
            .for_each(|(y, bias)| *y += bias);
    }
    let grad: Vec<f64> = match loss {
        Loss::Weighted => widen(c),
        Loss::Square => output.iter().map(|y| 2.0 * y).collect(),
    };
    Pass {
        input: weight.spmm_transposed(&grad, batch),
        values: weight.sddmm(&grad, &x, batch),
        bias: layer.bias.as_ref().map(|_| bias_gradient(&grad, batch, m)),
        output,
    }
}

impl Loss {
    pub fn of<const D: usize>(self, y: Tensor<D>, c: &[f32]) -> Tensor<1> {
        match self {
            Self::Weighted => {
                let weights = TensorData::new(c.to_vec(), y.dims());
                (y.clone() * Tensor::from_data(weights, &y.device())).sum()
            }
            Self::Square => (y.clone() * y).sum(),
        }
    }
}

/// A leaf that tracks its gradient.
pub fn leaf<const D: usize>(x: &[f32], dims: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(x.to_vec(), dims), device).require_grad()
}

/// One pass of a sparse layer; every gradient must exist with the shape of its tensor.
pub fn sparse_pass<const D: usize>(
    layer: &SparseLinear,
    x: Tensor<D>,
    c: &[f32],
    loss: Loss,
) -> Pass {
    let y = layer.forward(x.clone());
    let output = floats(&y);
    let grads = loss.of(y, c).backward();
    let values = layer.values.grad(&grads).expect("a gradient of the values");
    assert_eq!(
        values.dims(),
        [layer.nnz()],
        "the gradient of the values holds the slots alone"
    );
    let input = x.grad(&grads).expect("a gradient of the input");
    assert_eq!(input.dims(), x.dims());
    Pass {
        output,
        input: floats(&input),
        values: floats(&values),
        bias: layer
            .bias
            .as_ref()
            .map(|bias| floats(&bias.grad(&grads).expect("a bias gradient"))),
    }
}

/// One pass of the masked layer; the gradient of its weight is read at the slots of `pattern`.
pub fn masked_pass<const D: usize>(
    layer: &MaskedLinear,
    pattern: &Pattern,
    x: Tensor<D>,
    c: &[f32],
    loss: Loss,
) -> Pass {
    let y = layer.forward(x.clone());
    let output = floats(&y);
    let grads = loss.of(y, c).backward();
    let weight = floats(&layer.weight.grad(&grads).expect("a gradient of the weight"));
    let [d_output, _] = pattern.shape();
    Pass {
        output,
        input: floats(&x.grad(&grads).expect("a gradient of the input")),
        values: pattern
            .iter()
            .map(|(row, col)| weight[col * d_output + row])
            .collect(),
        bias: layer
            .bias
            .as_ref()
            .map(|bias| floats(&bias.grad(&grads).expect("a bias gradient"))),
    }
}

/// Asserts output and every gradient.
#[track_caller]
pub fn assert_pass(case: &str, found: &Pass, expected: &Pass, tolerance: f64) {
    let check = |what: &str, found: &[f64], expected: &[f64]| {
        super::assert_within(&format!("{what} of {case}"), found, expected, tolerance);
    };
    check("output", &found.output, &expected.output);
    check("input gradient", &found.input, &expected.input);
    check("value gradient", &found.values, &expected.values);
    match (&found.bias, &expected.bias) {
        (Some(found), Some(expected)) => check("bias gradient", found, expected),
        (found, expected) => assert_eq!(found.is_some(), expected.is_some(), "bias of {case}"),
    }
}
