use burn::{nn::Linear, tensor::Tensor};

/// What widths are padded to a multiple of.
const ALIGNED: usize = 8;
/// Fewest rows for which it is worth it.
const ROWS: usize = 64;

/// Applies a linear layer whose widths need not suit the device, as the number of classes.
///
/// Widths are padded with zeros, because rows of 47 numbers cannot be read in vectors: GPUs compute such
/// products slowly, and Burn takes half a minute to measure each.
pub(crate) fn linear(layer: &Linear, input: Tensor<2>) -> Tensor<2> {
    let [rows, d_input] = input.dims();
    let [_, d_output] = layer.weight.dims();
    let missing = [d_input, d_output].map(|width| width.next_multiple_of(ALIGNED) - width);
    if missing == [0, 0] || rows < ROWS {
        return layer.forward(input);
    }
    let weight = pad(layer.weight.val(), missing);
    let product = pad(input, [0, missing[0]]).matmul(weight);
    let product = match missing[1] {
        0 => product,
        _ => product.narrow(1, 0, d_output),
    };
    match &layer.bias {
        Some(bias) => product + bias.val().unsqueeze(),
        None => product,
    }
}

/// Adds rows and columns of zeros.
fn pad(matrix: Tensor<2>, [rows, columns]: [usize; 2]) -> Tensor<2> {
    match [rows, columns] {
        [0, 0] => matrix,
        _ => matrix.pad((0, columns, 0, rows), 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::nn::LinearConfig;
    use burn::tensor::{Device, Distribution, Tolerance};

    #[test]
    fn padding_changes_neither_values_nor_gradients() {
        // The CPU where there is one: GPUs may round the operands of dense products.
        #[cfg(feature = "flex")]
        let device = Device::flex();
        #[cfg(not(feature = "flex"))]
        let device = Device::default();
        let device = device.autodiff();
        for (widths, has_bias) in [
            ([47, 16], true),
            ([16, 47], true),
            ([3, 5], false),
            ([8, 8], true),
        ] {
            let layer = LinearConfig::new(widths[0], widths[1])
                .with_bias(has_bias)
                .init(&device);
            let run = |apply: fn(&Linear, Tensor<2>) -> Tensor<2>, x: &Tensor<2>| {
                let x = x.clone().detach().require_grad();
                let y = apply(&layer, x.clone());
                let grads = y.clone().powf_scalar(2.0).sum().backward();
                let bias = layer.bias.as_ref().map(|bias| bias.grad(&grads).unwrap());
                let weight = layer.weight.grad(&grads).unwrap();
                (y, x.grad(&grads).unwrap(), weight, bias)
            };
            let x = Tensor::random([ROWS, widths[0]], Distribution::Default, &device);
            let found = run(linear, &x);
            let expected = run(Linear::forward, &x);
            let same = |a: Tensor<2>, b: Tensor<2>| {
                let tolerance = Tolerance::<f32>::rel_abs(1e-4, 1e-4);
                a.into_data().assert_approx_eq(&b.into_data(), tolerance);
            };
            same(found.0, expected.0);
            same(found.1, expected.1);
            same(found.2, expected.2);
            if let (Some(a), Some(b)) = (found.3, expected.3) {
                same(a.unsqueeze(), b.unsqueeze());
            }
        }
    }
}
