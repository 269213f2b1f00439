use burn::tensor::{Tensor, activation::sigmoid};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// GELU in the tanh form of GPT-2, `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
///
/// Written as `x sigmoid(2 u)`, which is the same function because `1 + tanh(u) = 2 sigmoid(2 u)`, and
/// needs half the operations: `sigmoid` has a fused backward pass, `tanh` and the cube do not.
///
/// # Shapes
///
/// - input: `[..., any]`
/// - output: `[..., any]`
pub fn gelu_tanh<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    const LINEAR: f64 = 2.0 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    const CUBIC: f64 = LINEAR * 0.044715;

    let slope = (x.clone() * x.clone()).mul_scalar(CUBIC).add_scalar(LINEAR);
    x.clone() * sigmoid(x * slope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Tolerance, activation::gelu_approximate};

    #[test]
    fn equals_the_tanh_form() {
        let device = Device::default();
        let x = Tensor::<1>::from_floats([-30.0, -5.0, -1.0, -0.1, 0.0, 0.3, 2.0, 30.0], &device);

        gelu_tanh(x.clone())
            .into_data()
            .assert_approx_eq::<f32>(&gelu_approximate(x).into_data(), Tolerance::default());
    }
}
