use burn::{
    nn::PRelu,
    tensor::{Tensor, activation},
};

/// Fewest rows for which it is worth it.
const ROWS: usize = 64;

/// Applies PReLU, each slope to as many neighbouring columns as every other.
///
/// Slopes are copied to all their columns, so that their gradients are summed over the rows first and over the
/// columns then. Burn 0.22 sums a gradient that a single number was broadcast to at once, and a GPU does that
/// in a single cube: 17.5 ms of an H200 for 4096 x 5000.
///
/// # Panics
///
/// Panics if the number of columns is not a multiple of the number of slopes.
pub(crate) fn prelu(layer: &PRelu, input: Tensor<2>) -> Tensor<2> {
    let ([rows, columns], [slopes]) = (input.dims(), layer.alpha.dims());
    assert!(
        columns.is_multiple_of(slopes),
        "prelu: expected columns for {slopes} slopes, found {columns}"
    );
    let shared = columns / slopes;
    match rows < ROWS {
        true => layer
            .forward(input.reshape([rows, slopes, shared]))
            .reshape([rows, columns]),
        false => {
            let copied = layer.alpha.val().unsqueeze_dim::<2>(1);
            let copied = copied.expand([slopes, shared]).reshape([columns]);
            activation::prelu(input, copied)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::{nn::PReluConfig, tensor::Distribution};

    #[test]
    fn values_and_gradients_are_those_of_the_layer() {
        let device = burn::tensor::Device::default().autodiff();
        for (rows, slopes, shared) in [(3, 1, 5), (3, 4, 2), (64, 1, 1), (70, 1, 9), (70, 3, 5)] {
            let mut layer = PReluConfig::new().with_num_parameters(slopes).init(&device);
            layer.alpha = layer.alpha.map(|alpha| {
                let shape = alpha.shape();
                Tensor::random(shape, Distribution::Default, &alpha.device()).require_grad()
            });
            let shape = [rows, slopes * shared];
            let x = Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &device);
            let weights = Tensor::<2>::random(shape, Distribution::Default, &device);
            let run = |apply: &dyn Fn(Tensor<2>) -> Tensor<2>| {
                let x = x.clone().detach().require_grad();
                let y = apply(x.clone());
                let grads = (y.clone() * weights.clone()).sum().backward();
                let slopes: Tensor<1> = layer.alpha.grad(&grads).unwrap();
                [y.inner(), x.grad(&grads).unwrap(), slopes.unsqueeze()]
            };
            let found = run(&|x| prelu(&layer, x));
            let expected = run(&|x| {
                let x = x.reshape([rows, slopes, shared]);
                layer.forward(x).reshape(shape)
            });
            for (found, expected) in found.into_iter().zip(expected) {
                let expected = expected.into_data();
                found
                    .into_data()
                    .assert_approx_eq::<f32>(&expected, Default::default());
            }
        }
    }
}
