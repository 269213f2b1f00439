//! The truly sparse linear layer.

use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param};
use burn::tensor::{DType, FloatDType, Tensor, assert_shape};

use crate::ops::Routines;
use crate::pattern::Pattern;
use crate::tap;
use crate::tensor::{DevicePattern, SparseTensor, product, reshape};

/// Applies a linear transformation whose weight exists only at its non-zeros.
///
/// Should be created with [`SparseLinearConfig`](crate::nn::SparseLinearConfig), or from a trained
/// dense layer with [`SparseLinear::from_linear`].
///
/// `O = I W^T + b`, with `W` of shape `[d_output, d_input]` in the orientation of the paper and
/// of PyTorch (Burn's own `Linear` stores `[d_input, d_output]`). Forward and backward passes and
/// optimizer states use memory in proportion to the non-zeros.
///
/// A record holds `values` `[nnz]`, `pattern` (`[m, k, row offsets, columns]` as 32-bit integers)
/// and `bias`. Burn's own loading wants the same number of non-zeros on both sides; use
/// [`SparseModule::load_sparse_record`](crate::nn::SparseModule) for any other.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct SparseLinear {
    /// The non-zeros in row-major order, `[nnz]`.
    pub values: Param<Tensor<1>>,
    /// The coordinates of the non-zeros.
    pub pattern: DevicePattern,
    /// Vector of size `d_output`.
    pub bias: Option<Param<Tensor<1>>>,
    /// The routines that compute the products; automatic by default.
    #[module(skip)]
    pub routines: Routines,
}

impl SparseLinear {
    /// Applies the forward pass on the input tensor.
    ///
    /// # Arguments
    ///
    /// - `input` - The input tensor of shape `[..., d_input]`; any strides.
    ///
    /// # Shapes
    ///
    /// - input: `[..., d_input]`
    /// - output: `[..., d_output]`
    ///
    /// # Returns
    ///
    /// The transformed tensor of shape `[..., d_output]`, of the data type of `input`.
    ///
    /// # Mixed precision
    ///
    /// For an `input` in half precision a layer in `f32` computes in that of the input, with sums in
    /// `f32`: values and bias are rounded for the pass, their gradients are `f32` again.
    ///
    /// # Panics
    ///
    /// Panics if the last axis of `input` is not `d_input`, if `input` is on another device than the
    /// layer, or if it has another data type that is not as above.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let [d_output, d_input] = self.weight_shape();
        assert_shape!(input, [.., d_input]);
        let mut dims = input.dims();
        let batch = dims[..D - 1].iter().product();
        dims[D - 1] = d_output;

        let input: Tensor<2> = reshape(input, [batch, d_input]);
        let mut bias = self.bias.as_ref().map(Param::val);
        let mut values = self.values.val();
        if let Some(dtype) = mixed_precision(values.dtype(), input.dtype()) {
            values = tap::cast(values, dtype);
            bias = bias.map(|bias| bias.cast(dtype));
        }
        let output = product(values, &self.pattern, input, bias, self.routines);
        reshape(output, dims)
    }

    /// Forces the routines of the products, see [`Routines`].
    pub fn with_routines(mut self, routines: Routines) -> Self {
        self.routines = routines;
        self
    }

    /// The coordinates of the non-zeros.
    pub fn pattern(&self) -> &Pattern {
        self.pattern.pattern()
    }

    /// The number of non-zeros.
    pub fn nnz(&self) -> usize {
        self.pattern().nnz()
    }

    /// The weight as a sparse tensor of shape `[d_output, d_input]` that shares values and
    /// gradients with the layer.
    pub fn weight(&self) -> SparseTensor {
        SparseTensor::new(self.values.val(), self.pattern.clone()).with_routines(self.routines)
    }

    /// `[d_output, d_input]`.
    pub fn weight_shape(&self) -> [usize; 2] {
        self.pattern().shape()
    }
}

/// The data type that weights are rounded to for an input, if any.
pub(super) fn mixed_precision(weight: DType, input: DType) -> Option<FloatDType> {
    match (weight, input) {
        (DType::F32, DType::F16 | DType::BF16) => Some(input.into()),
        _ => None,
    }
}

impl ModuleDisplay for SparseLinear {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new()
            .with_new_line_after_attribute(false)
            .optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let [d_output, d_input] = self.weight_shape();
        content
            .add("d_input", &d_input)
            .add("d_output", &d_output)
            .add("bias", &self.bias.is_some())
            .add("nnz", &self.nnz())
            .add(
                "density",
                &format!("{:.2} %", 100.0 * self.pattern().density()),
            )
            .optional()
    }
}
