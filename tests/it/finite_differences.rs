//! A derivative that is wrong although it agrees with itself: central differences in f64 for every
//! operation of a sparse tensor.

use burn::tensor::{DType, Device, Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use crate::support::{Case, assert_within, flex, floats, uniform, widen};

const BATCH: usize = 3;
const STEP: f64 = 1e-5;
const SHAPE: [usize; 2] = [4, 5];
const NNZ: usize = 9;

fn case() -> Case {
    Case::random(SHAPE, NNZ, &mut ChaCha8Rng::seed_from_u64(8))
}

fn double<const D: usize>(numbers: &[f64], dims: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(
        TensorData::new(numbers.to_vec(), dims),
        (device, DType::F64),
    )
}

/// The same numbers in every call, for whatever shape asks.
fn numbers<const D: usize>(dims: [usize; D], device: &Device) -> Tensor<D> {
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    double(
        &widen(&uniform(dims.iter().product(), &mut rng)),
        dims,
        device,
    )
}

fn matrix(values: Tensor<1>) -> SparseTensor {
    let pattern = DevicePattern::new(case().pattern(), &values.device());
    SparseTensor::new(values, pattern)
}

/// A loss with a gradient that depends on the operand and differs from element to element.
fn loss<const D: usize>(output: Tensor<D>) -> Tensor<1> {
    let weights = numbers(output.dims(), &output.device());
    (output.clone() * output * weights).sum()
}

/// Compares the gradient of `f` by one operand with central differences.
fn check<const D: usize>(name: &str, dims: [usize; D], f: impl Fn(Tensor<D>) -> Tensor<1>) {
    let Some(backend) = flex() else { return };
    for (variant, device) in backend.autodiff_variants() {
        let mut rng = ChaCha8Rng::seed_from_u64(23);
        let mut at = widen(&uniform(dims.iter().product(), &mut rng));
        let operand = double(&at, dims, &device).require_grad();
        let value = f(operand.clone());
        assert_eq!(value.dtype(), DType::F64, "{name}");
        let grads = value.backward();
        let found = operand
            .grad(&grads)
            .unwrap_or_else(|| panic!("no gradient of {name}"));
        assert_eq!(found.dims(), dims, "{name}");

        let mut expected = Vec::with_capacity(at.len());
        for index in 0..at.len() {
            let center = at[index];
            let mut value_at = |x: f64| {
                at[index] = x;
                floats(&f(double(&at, dims, &backend.device)))[0]
            };
            let slope = (value_at(center + STEP) - value_at(center - STEP)) / (2.0 * STEP);
            at[index] = center;
            expected.push(slope);
        }
        assert_within(
            &format!("{name}, {variant}"),
            &floats(&found),
            &expected,
            1e-6,
        );
    }
}

#[test]
fn spmm() {
    let [m, k] = SHAPE;
    check("values of spmm", [NNZ], |values| {
        let x = numbers([BATCH, k], &values.device());
        loss(matrix(values).spmm(x))
    });
    check("x of spmm", [BATCH, k], |x| {
        loss(matrix(numbers([NNZ], &x.device())).spmm(x))
    });
    check("values of matmul", [NNZ], |values| {
        let b = numbers([k, BATCH], &values.device());
        loss(matrix(values).matmul(b))
    });
    check("b of matmul", [k, BATCH], |b| {
        loss(matrix(numbers([NNZ], &b.device())).matmul(b))
    });
    check("values of spmm_transposed", [NNZ], |values| {
        let y = numbers([BATCH, m], &values.device());
        loss(matrix(values).spmm_transposed(y))
    });
    check("y of spmm_transposed", [BATCH, m], |y| {
        loss(matrix(numbers([NNZ], &y.device())).spmm_transposed(y))
    });
}

#[test]
fn sddmm() {
    let [m, k] = SHAPE;
    let sampled = |y: Tensor<2>, x: Tensor<2>| {
        let values = numbers([NNZ], &x.device());
        loss(matrix(values).sddmm(y, x).values().clone())
    };
    check("y of sddmm", [BATCH, m], |y| {
        let x = numbers([BATCH, k], &y.device());
        sampled(y, x)
    });
    check("x of sddmm", [BATCH, k], |x| {
        let y = numbers([BATCH, m], &x.device());
        sampled(y, x)
    });
}

#[test]
fn scaling() {
    let [m, k] = SHAPE;
    check("values of mul_scalar", [NNZ], |values| {
        loss(matrix(values).mul_scalar(-2.5).values().clone())
    });
    check("values of mul_values", [NNZ], |values| {
        let factors = numbers([NNZ], &values.device());
        loss(matrix(values).mul_values(factors).values().clone())
    });
    check("factors of mul_values", [NNZ], |factors| {
        loss(
            matrix(numbers([NNZ], &factors.device()))
                .mul_values(factors)
                .values()
                .clone(),
        )
    });
    check("values of scale_rows", [NNZ], |values| {
        let factors = numbers([m], &values.device());
        loss(matrix(values).scale_rows(factors).values().clone())
    });
    check("factors of scale_rows", [m], |factors| {
        loss(
            matrix(numbers([NNZ], &factors.device()))
                .scale_rows(factors)
                .values()
                .clone(),
        )
    });
    check("values of scale_cols", [NNZ], |values| {
        let factors = numbers([k], &values.device());
        loss(matrix(values).scale_cols(factors).values().clone())
    });
    check("factors of scale_cols", [k], |factors| {
        loss(
            matrix(numbers([NNZ], &factors.device()))
                .scale_cols(factors)
                .values()
                .clone(),
        )
    });
}

#[test]
fn other_forms() {
    check("values of to_dense", [NNZ], |values| {
        loss(matrix(values).to_dense())
    });
    check("values of transpose", [NNZ], |values| {
        loss(matrix(values).transpose().values().clone())
    });
}

/// Through two products, a transpose and a scaling at once.
#[test]
fn composition() {
    let [m, k] = SHAPE;
    check("values of a chain", [NNZ], |values| {
        let device = values.device();
        let a = matrix(values);
        let y = a.spmm(numbers([BATCH, k], &device)).tanh();
        let back = a.scale_rows(numbers([m], &device)).transpose().spmm(y);
        loss(back)
    });
}
