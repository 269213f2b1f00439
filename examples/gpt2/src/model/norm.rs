use crate::fused::norm_rows;
use burn::{
    module::{Module, Param},
    tensor::{Device, FloatDType, Tensor},
};

/// A layer norm over the width of the residual stream.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// Scale, `[width]`.
    pub gamma: Param<Tensor<1>>,
    /// Shift, `[width]`.
    pub beta: Param<Tensor<1>>,
    epsilon: f64,
}

impl LayerNorm {
    /// The norm that scales by one and shifts by zero.
    pub fn new(width: usize, epsilon: f64, device: &Device) -> Self {
        let gamma = Param::from_tensor(Tensor::ones([width], device));
        let beta = Param::from_tensor(Tensor::zeros([width], device));
        Self::from_parameters(gamma, beta, epsilon)
    }

    /// The norm of these parameters, both `[width]`; `epsilon` is added to variances.
    pub fn from_parameters(gamma: Param<Tensor<1>>, beta: Param<Tensor<1>>, epsilon: f64) -> Self {
        Self {
            gamma,
            beta,
            epsilon,
        }
    }

    /// Normalizes every position and returns the result in `dtype`.
    ///
    /// # Shapes
    ///
    /// - x: `[batch, tokens, width]`
    /// - output: `[batch, tokens, width]`
    ///
    /// # Panics
    ///
    /// Panics if the last axis of `x` is not `width`.
    pub fn forward(&self, x: Tensor<3>, dtype: FloatDType) -> Tensor<3> {
        let (gamma, beta) = (self.gamma.val(), self.beta.val());
        norm_rows(x, gamma, beta, self.epsilon, dtype)
    }
}
