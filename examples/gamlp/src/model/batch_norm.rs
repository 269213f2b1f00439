use burn::{
    module::{Module, Param, RunningState},
    nn::Initializer,
    tensor::{Device, Tensor, assert_shape, module},
};

/// Share of a batch in the running statistics.
const MOMENTUM: f64 = 0.1;
/// Added to the variance.
const EPSILON: f64 = 1e-5;

/// Batch normalization as PyTorch defines it: the running variance is that of a sample, with
/// `batch - 1` as its divisor. Burn's layer keeps the variance of the batch itself.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// Scale of the normalized values, `[width]`.
    pub gamma: Param<Tensor<1>>,
    /// Offset of the normalized values, `[width]`.
    pub beta: Param<Tensor<1>>,
    /// Mean used in evaluation, `[width]`.
    pub running_mean: RunningState<Tensor<1>>,
    /// Variance used in evaluation, `[width]`.
    pub running_var: RunningState<Tensor<1>>,
}

impl BatchNorm {
    /// Scale 1, offset 0, running mean 0 and variance 1.
    pub fn new(width: usize, device: &Device) -> Self {
        Self {
            gamma: Initializer::Ones.init([width], device),
            beta: Initializer::Zeros.init([width], device),
            running_mean: RunningState::new(Tensor::zeros([width], device)),
            running_var: RunningState::new(Tensor::ones([width], device)),
        }
    }

    /// Normalizes every column: by the statistics of the batch on an autodiff device, where the
    /// running ones follow, and by the running ones elsewhere.
    ///
    /// # Shapes
    ///
    /// - input: `[batch, width]`
    /// - output: `[batch, width]`
    ///
    /// # Panics
    ///
    /// Panics if the second axis of `input` is not `width`, or if a training batch has fewer than
    /// two rows.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let [width] = self.gamma.dims();
        assert_shape!(input, [_, width]);
        let device = input.device();
        if !device.is_autodiff() {
            let mean = self.running_mean.value().to_device(&device);
            let var = self.running_var.value().to_device(&device);
            return module::batch_norm(
                input,
                self.gamma.val(),
                self.beta.val(),
                mean,
                var,
                EPSILON,
            );
        }
        let [batch, _] = input.dims();
        assert!(
            batch > 1,
            "BatchNorm::forward: a training batch needs at least two rows, got {batch}"
        );
        let result = module::batch_norm_train(input, self.gamma.val(), self.beta.val(), EPSILON);
        let sample = batch as f64 / (batch - 1) as f64;
        let follow = |state: &RunningState<Tensor<1>>, new: Tensor<1>| {
            let old = state.value_sync().to_device(&device);
            state.update((old * (1.0 - MOMENTUM) + new * MOMENTUM).detach());
        };
        follow(&self.running_mean, result.mean.detach());
        follow(&self.running_var, result.variance.detach() * sample);
        result.output
    }
}
