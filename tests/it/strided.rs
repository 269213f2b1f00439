//! Operands and gradients that are views (steps, swapped axes, offsets, broadcasts) read as if
//! they were contiguous: right shapes, wrong numbers, no error.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData, s};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use crate::support::layers::{Loss, leaf, weight_of};
use crate::support::reference::bias_gradient;
use crate::support::{
    Case, assert_close, assert_within, backends, floats, tensor1, tensor2, uniform, widen,
};

const BATCH: usize = 8;
const WIDTH: usize = 6;
const OUTPUTS: usize = 5;

/// A way to look at a tensor of other dimensions as `[BATCH, WIDTH]`.
struct View {
    name: &'static str,
    base: [usize; 3],
    of: fn(Tensor<3>) -> Tensor<2>,
}

const VIEWS: &[View] = &[
    View {
        name: "contiguous",
        base: [1, 8, 6],
        of: |x| x.squeeze_dim(0),
    },
    View {
        name: "step over the samples",
        base: [1, 16, 6],
        of: |x| x.squeeze_dim::<2>(0).slice(s![..;2, ..]),
    },
    View {
        name: "step over the features",
        base: [1, 8, 17],
        of: |x| x.squeeze_dim::<2>(0).slice(s![.., ..;3]),
    },
    View {
        name: "one element of the last axis",
        base: [8, 6, 2],
        of: |x| x.slice(s![.., .., 1..2]).squeeze_dim(2),
    },
    View {
        name: "one element of the middle axis",
        base: [8, 3, 6],
        of: |x| x.slice(s![.., 1..2, ..]).squeeze_dim(1),
    },
    View {
        name: "swapped axes",
        base: [1, 6, 8],
        of: |x| x.squeeze_dim::<2>(0).swap_dims(0, 1),
    },
    View {
        name: "offset",
        base: [3, 20, 10],
        of: |x| {
            x.narrow(0, 2, 1)
                .squeeze_dim::<2>(0)
                .narrow(0, 5, 8)
                .narrow(1, 3, 6)
        },
    },
    View {
        name: "reversed",
        base: [1, 8, 6],
        of: |x| x.squeeze_dim::<2>(0).flip([0, 1]),
    },
    View {
        name: "one sample for all",
        base: [1, 1, 6],
        of: |x| x.squeeze_dim::<2>(0).expand([8, 6]),
    },
    View {
        name: "one feature for all",
        base: [1, 8, 1],
        of: |x| x.squeeze_dim::<2>(0).expand([8, 6]),
    },
    View {
        name: "one number for all",
        base: [1, 1, 1],
        of: |x| x.squeeze_dim::<2>(0).expand([8, 6]),
    },
    View {
        name: "swapped, stepped and offset",
        base: [2, 14, 9],
        of: |x| {
            x.narrow(0, 1, 1)
                .squeeze_dim::<2>(0)
                .swap_dims(0, 1)
                .slice(s![1.., 2..;2])
        },
    },
];

impl View {
    fn len(&self) -> usize {
        self.base.iter().product()
    }

    /// For each element of the view, which element of the base it shows: found by looking at a
    /// base that holds its own positions.
    fn sources(&self, device: &Device) -> Vec<usize> {
        let positions: Vec<f32> = (0..self.len()).map(|position| position as f32).collect();
        let base = Tensor::from_data(TensorData::new(positions, self.base), device);
        let view = (self.of)(base);
        assert_eq!(view.dims(), [BATCH, WIDTH], "{}", self.name);
        floats(&view)
            .into_iter()
            .map(|position| position as usize)
            .collect()
    }
}

/// The gradient of the base, given that of the view.
fn to_base(grad: &[f64], sources: &[usize], len: usize) -> Vec<f64> {
    let mut base = vec![0.0; len];
    for (&source, grad) in sources.iter().zip(grad) {
        base[source] += grad;
    }
    base
}

fn layer(device: &Device) -> SparseLinear {
    SparseLinearConfig::new(WIDTH, OUTPUTS)
        .with_sparsity(0.4)
        .with_seed(Some(9))
        .init(device)
}

#[test]
fn layer_input() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for backend in backends() {
        for (variant, device) in backend.autodiff_variants() {
            let layer = layer(&device);
            let weight = weight_of(&layer);
            let bias = floats(&layer.bias.as_ref().unwrap().val());
            for view in VIEWS {
                let text = format!("{}, {variant}, on {}", view.name, backend.name);
                let sources = view.sources(&backend.device);
                let numbers = uniform(view.len(), &mut rng);
                let c = uniform(BATCH * OUTPUTS, &mut rng);
                let x: Vec<f64> = sources.iter().map(|&at| f64::from(numbers[at])).collect();

                let base = leaf(&numbers, view.base, &device);
                let y = layer.forward((view.of)(base.clone()));
                let mut expected = weight.spmm(&x, BATCH);
                expected
                    .iter_mut()
                    .zip(bias.iter().cycle())
                    .for_each(|(y, bias)| *y += bias);
                assert_close(&text, &y, [BATCH, OUTPUTS], &expected, 1e-5);

                let grads = Loss::Weighted.of(y, &c).backward();
                let found = base.grad(&grads).expect("a gradient of the base");
                let expected = weight.spmm_transposed(&widen(&c), BATCH);
                let expected = to_base(&expected, &sources, view.len());
                assert_close(
                    &format!("input gradient, {text}"),
                    &found,
                    view.base,
                    &expected,
                    1e-5,
                );
                let found = layer.values.grad(&grads).expect("a gradient of the values");
                let expected = weight.sddmm(&widen(&c), &x, BATCH);
                let text = format!("value gradient, {text}");
                assert_close(&text, &found, [layer.nnz()], &expected, 1e-5);
            }
        }
    }
}

/// Both operands of the other two products.
#[test]
fn operands_of_the_transposed_and_the_sampled_product() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let tall = Case::random([WIDTH, 4], 15, &mut rng);
    let square = Case::random([WIDTH, WIDTH], 17, &mut rng);
    for backend in backends() {
        let device = &backend.device;
        for view in VIEWS {
            let text = format!("{} on {}", view.name, backend.name);
            let numbers = uniform(view.len(), &mut rng);
            let seen: Vec<f64> = view
                .sources(device)
                .iter()
                .map(|&at| f64::from(numbers[at]))
                .collect();
            let operand = || {
                (view.of)(Tensor::from_data(
                    TensorData::new(numbers.clone(), view.base),
                    device,
                ))
            };

            let found = tall.sparse(device).spmm_transposed(operand());
            let expected = tall.reference().spmm_transposed(&seen, BATCH);
            assert_close(&text, &found, [BATCH, 4], &expected, 1e-5);
            let found = square.sparse(device).sddmm(operand(), operand());
            let expected = square.reference().sddmm(&seen, &seen, BATCH);
            assert_close(&text, found.values(), [17], &expected, 1e-5);
        }
    }
}

/// Values of a matrix that are a view of something else, and where their gradient goes.
#[test]
fn values() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let case = Case::random([OUTPUTS, WIDTH], 12, &mut rng);
    let (x, c) = (
        uniform(BATCH * WIDTH, &mut rng),
        uniform(BATCH * OUTPUTS, &mut rng),
    );
    type Of = fn(Tensor<1>) -> Tensor<1>;
    let views: [(&str, usize, Of); 4] = [
        ("every second", 24, |v| v.slice(s![..;2])),
        ("offset", 20, |v| v.narrow(0, 5, 12)),
        ("reversed", 12, |v| v.flip([0])),
        ("one for all", 1, |v| v.expand([12])),
    ];
    for backend in backends() {
        let device = backend.autodiff();
        for (name, len, of) in views {
            let text = format!("values: {name} on {}", backend.name);
            let positions: Vec<f32> = (0..len).map(|position| position as f32).collect();
            let sources = floats(&of(tensor1(&positions, &backend.device)));
            let sources: Vec<usize> = sources.into_iter().map(|at| at as usize).collect();
            let numbers = uniform(len, &mut rng);
            let seen: Vec<f32> = sources.iter().map(|&at| numbers[at]).collect();
            let reference = case.with_values(&seen).reference();

            let base = leaf(&numbers, [len], &device);
            let pattern = DevicePattern::new(case.pattern(), &device);
            let matrix = SparseTensor::new(of(base.clone()), pattern);
            let y = matrix.spmm(tensor2(&x, [BATCH, WIDTH], &device));
            let expected = reference.spmm(&widen(&x), BATCH);
            assert_close(&text, &y, [BATCH, OUTPUTS], &expected, 1e-5);
            let grads = Loss::Weighted.of(y, &c).backward();
            let expected = reference.sddmm(&widen(&c), &widen(&x), BATCH);
            let found = base.grad(&grads).expect("a gradient of the base");
            let expected = to_base(&expected, &sources, len);
            assert_close(
                &format!("gradient of {text}"),
                &found,
                [len],
                &expected,
                1e-5,
            );
        }
    }
}

/// What follows the layer decides the strides of the gradient that comes back to it.
#[test]
fn incoming_gradient() {
    type After = fn(Tensor<2>) -> Tensor<1>;
    let afters: [(&str, After); 8] = [
        ("sum", |y| y.sum()),
        ("mean", |y| y.mean()),
        ("sum of the samples", |y| y.sum_dim(0).powi_scalar(2).sum()),
        ("sum of the features", |y| y.sum_dim(1).powi_scalar(2).sum()),
        ("transpose", |y| {
            y.transpose().cumsum(0).powi_scalar(2).sum()
        }),
        ("slice", |y| y.slice(s![1..7;2, 2..]).powi_scalar(2).sum()),
        ("expand", |y| {
            y.unsqueeze_dim::<3>(0)
                .expand([3, 8, 5])
                .cumsum(0)
                .powi_scalar(2)
                .sum()
        }),
        ("swap", |y| {
            y.reshape([2, 4, 5])
                .swap_dims(0, 2)
                .reshape([20, 2])
                .cumsum(0)
                .powi_scalar(2)
                .sum()
        }),
    ];
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let x = uniform(BATCH * WIDTH, &mut rng);
    for backend in backends() {
        for (variant, device) in backend.autodiff_variants() {
            let layer = layer(&device);
            let weight = weight_of(&layer);
            for (name, after) in afters {
                let text = format!("{name}, {variant}, on {}", backend.name);
                let input = leaf(&x, [BATCH, WIDTH], &device);
                let y = layer.forward(input.clone());
                let copy = Tensor::<2>::from_data(y.to_data(), &device).require_grad();
                let grads = after(y).backward();
                let grad = copy.grad(&after(copy.clone()).backward()).unwrap();
                let grad = floats(&grad);

                let found = floats(&input.grad(&grads).unwrap());
                let expected = weight.spmm_transposed(&grad, BATCH);
                assert_within(&format!("input gradient, {text}"), &found, &expected, 1e-5);
                let found = floats(&layer.values.grad(&grads).unwrap());
                let expected = weight.sddmm(&grad, &widen(&x), BATCH);
                assert_within(&format!("value gradient, {text}"), &found, &expected, 1e-5);
                let found = floats(&layer.bias.as_ref().and_then(|b| b.grad(&grads)).unwrap());
                let expected = bias_gradient(&grad, BATCH, OUTPUTS);
                assert_within(&format!("bias gradient, {text}"), &found, &expected, 1e-5);
            }
        }
    }
}

/// A parameter may be a view as well, for instance after a record was loaded from a slice.
#[test]
fn strided_parameters_train() {
    for backend in backends() {
        let device = backend.autodiff();
        let mut layer = layer(&device);
        let padded = Tensor::cat(vec![layer.values.val().inner(); 2], 0);
        let view = padded.slice(s![..layer.nnz() as isize]).autodiff();
        layer.values = Param::from_tensor(view);
        let x = tensor2(&[0.5; BATCH * WIDTH], [BATCH, WIDTH], &device);
        let grads = layer.forward(x).sum().backward();
        let expected = vec![0.5 * BATCH as f64; layer.nnz()];
        let found = layer.values.grad(&grads).unwrap();
        assert_close(backend.name, &found, [layer.nnz()], &expected, 1e-6);
    }
}
