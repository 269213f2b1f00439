use burn::{
    module::{Module, Param},
    tensor::{Device, Tensor, TensorData, assert_shape},
};

/// Linear layers side by side, each for rows of its own, as one product.
#[derive(Module, Debug)]
pub struct StackedLinear {
    /// `[layers, d_input, d_output]`.
    pub weight: Param<Tensor<3>>,
    /// `[layers, d_output]`.
    pub bias: Param<Tensor<2>>,
}

impl StackedLinear {
    /// Layers of `[d_input, d_output]` with these weights, one after another, and zero bias.
    ///
    /// # Panics
    ///
    /// Panics if the weights are not those of whole layers.
    pub fn new(weights: Vec<f32>, [d_input, d_output]: [usize; 2], device: &Device) -> Self {
        let layers = weights.len() / (d_input * d_output);
        let weights = TensorData::new(weights, [layers, d_input, d_output]);
        Self {
            weight: Param::from_data(weights, device),
            bias: Param::from_tensor(Tensor::zeros([layers, d_output], device)),
        }
    }

    /// Applies every layer to its rows.
    ///
    /// # Shapes
    ///
    /// - input: `[layers, batch, d_input]`
    /// - output: `[layers, batch, d_output]`
    ///
    /// # Panics
    ///
    /// Panics if `input` is of another number of layers or of another width.
    pub fn forward(&self, input: Tensor<3>) -> Tensor<3> {
        let [layers, d_input, _] = self.weight.dims();
        assert_shape!(input, [layers, _, d_input]);
        input.matmul(self.weight.val()) + self.bias.val().unsqueeze_dim(1)
    }
}
