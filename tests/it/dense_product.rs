//! The dense products of layers in half precision, whose tall ones are computed transposed.

use burn::tensor::{DType, Device, Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::tensor::{dense_product, linear};

use crate::support::{Backend, assert_within, backends, floats, uniform, widen};

/// Operands of one call: numbers that `dtype` has exactly.
struct Operands {
    numbers: [Vec<f32>; 3],
    sizes: [usize; 4],
    dtype: DType,
}

impl Operands {
    fn new(sizes: [usize; 4], dtype: DType, seed: u64) -> Self {
        let [batch, m, k, n] = sizes;
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let numbers = [batch * m * k, batch * k * n, batch * m * n].map(|count| {
            let rounded = TensorData::new(uniform(count, rng), [count]).convert_dtype(dtype);
            rounded.iter::<f32>().collect()
        });
        Self {
            numbers,
            sizes,
            dtype,
        }
    }

    fn tensor<const D: usize>(&self, index: usize, dims: [usize; D], device: &Device) -> Tensor<D> {
        let data = TensorData::new(self.numbers[index].clone(), dims).convert_dtype(self.dtype);
        Tensor::from_data(data, (device, self.dtype))
    }

    /// What the library computes.
    fn found(&self, device: &Device) -> [Vec<f64>; 3] {
        let [batch, m, k, n] = self.sizes;
        let lhs = self.tensor(0, [batch, m, k], device).require_grad();
        let rhs = self.tensor(1, [batch, k, n], device).require_grad();
        let product = dense_product(lhs.clone(), rhs.clone());
        let weighted = product.clone() * self.tensor(2, [batch, m, n], device);
        let grads = weighted.sum().backward();
        [
            floats(&product.inner()),
            floats(&lhs.grad(&grads).unwrap()),
            floats(&rhs.grad(&grads).unwrap()),
        ]
    }

    /// The product and, for the third operand as its gradient, the gradients of the two.
    fn expected(&self) -> [Vec<f64>; 3] {
        let [batch, m, k, n] = self.sizes;
        let [lhs, rhs, grad] = self.numbers.each_ref().map(|numbers| widen(numbers));
        let mut found = [
            vec![0.0; batch * m * n],
            vec![0.0; lhs.len()],
            vec![0.0; rhs.len()],
        ];
        for b in 0..batch {
            for i in 0..m {
                for j in 0..k {
                    for l in 0..n {
                        let at = [
                            (b * m + i) * n + l,
                            (b * m + i) * k + j,
                            (b * k + j) * n + l,
                        ];
                        found[0][at[0]] += lhs[at[1]] * rhs[at[2]];
                        found[1][at[1]] += grad[at[0]] * rhs[at[2]];
                        found[2][at[2]] += grad[at[0]] * lhs[at[1]];
                    }
                }
            }
        }
        found
    }
}

/// Back ends with those of the types that they compute in.
fn each(dtypes: &[DType]) -> Vec<(Backend, DType)> {
    let mut found = Vec::new();
    for &dtype in dtypes {
        let able = backends().into_iter();
        found.extend(able.filter_map(|one| one.supports(dtype).then_some((one, dtype))));
    }
    found
}

#[track_caller]
fn assert_product(case: &str, backend: &Backend, dtype: DType, found: &[f64], expected: &[f64]) {
    let rounding = match dtype {
        DType::BF16 => 2e-2,
        DType::F16 => 4e-3,
        _ => 2e-3,
    };
    let allowed = f64::max(rounding, backend.dense_tolerance());
    assert_within(case, found, expected, allowed);
}

/// Batch, rows, inner width and columns: tall and not, and tall in a backward pass. Few, since a GPU has each
/// tuned.
const SIZES: [[usize; 4]; 5] = [
    [1, 1, 1, 1],
    [2, 64, 33, 16],
    [3, 63, 8, 16],
    [1, 70, 5, 40],
    [1, 20, 80, 16],
];

#[test]
fn products_and_gradients_are_those_of_the_reference() {
    for (backend, dtype) in each(&[DType::F16, DType::BF16]) {
        for (seed, sizes) in SIZES.into_iter().enumerate() {
            let operands = Operands::new(sizes, dtype, seed as u64);
            for (mode, device) in backend.autodiff_variants() {
                let case = format!("{} {mode} {dtype:?} {sizes:?}", backend.name);
                let found = operands.found(&device);
                for (found, expected) in found.iter().zip(operands.expected()) {
                    assert_product(&case, &backend, dtype, found, &expected);
                }
            }
        }
    }
}

#[test]
fn products_of_views_are_those_of_their_copies() {
    for (backend, dtype) in each(&[DType::F16, DType::BF16]) {
        let operands = Operands::new([1, 80, 24, 16], dtype, 9);
        let view = |index, dims: [usize; 2]| -> Tensor<2> {
            operands
                .tensor(index, dims, &backend.device)
                .swap_dims(0, 1)
        };
        let copy = |x: &Tensor<2>| Tensor::from_data(x.to_data(), (&backend.device, dtype));
        let (lhs, rhs) = (view(0, [24, 80]), view(1, [16, 24]));
        let expected = floats::<2>(&dense_product(copy(&lhs), copy(&rhs)));
        let found = floats(&dense_product(lhs, rhs));
        assert_product(backend.name, &backend, dtype, &found, &expected);
    }
}

#[test]
fn a_linear_layer_keeps_the_leading_axes_of_its_input() {
    for (backend, dtype) in each(&[DType::F32, DType::BF16]) {
        let operands = Operands::new([1, 60, 24, 6], dtype, 10);
        let weight: Tensor<2> = operands.tensor(1, [24, 6], &backend.device);
        let bias = operands.tensor::<1>(2, [360], &backend.device);
        let bias = Some(bias.narrow(0, 0, 6));
        let input: Tensor<3> = operands.tensor(0, [4, 15, 24], &backend.device);
        let flat = input.clone().reshape([60, 24]);
        let flat = linear(flat, weight.clone(), bias.clone());
        let found = linear(input, weight, bias);
        assert_eq!(found.dims(), [4, 15, 6]);
        let mut expected = operands.expected()[0].clone();
        for (at, number) in expected.iter_mut().enumerate() {
            *number += f64::from(operands.numbers[2][at % 6]);
        }
        for found in [floats(&found), floats(&flat)] {
            assert_product(backend.name, &backend, dtype, &found, &expected);
        }
    }
}

#[test]
fn empty_operands_have_empty_products() {
    for (backend, dtype) in each(&[DType::F32, DType::BF16]) {
        let operands = Operands::new([1, 0, 4, 2], dtype, 11);
        let lhs: Tensor<2> = operands.tensor(0, [0, 4], &backend.device);
        let rhs = operands.tensor(1, [4, 2], &backend.device);
        assert_eq!(linear(lhs, rhs, None).dims(), [0, 2], "{}", backend.name);
    }
}

#[test]
#[should_panic(
    expected = "expected shapes [.., m, k] and [.., k, n] with equal leading axes, got [2, 3] and [2, 3]"
)]
fn products_of_other_shapes_are_refused() {
    let device = backends()[0].device.clone();
    let x = Tensor::<2>::ones([2, 3], &device).cast(burn::tensor::FloatDType::BF16);
    dense_product(x.clone(), x);
}
