//! Empty batches and empty layers: division by zero, launches of zero cubes that poison the device
//! for whatever comes next.

use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::Tensor;
use snack_burn::prelude::*;

use crate::support::{Backend, assert_close, backends, floats, tensor2};

const D_INPUT: usize = 12;
const D_OUTPUT: usize = 10;

fn layer(backend: &Backend, nnz: usize) -> SparseLinear {
    SparseLinearConfig::new(D_INPUT, D_OUTPUT)
        .with_nnz(Some(nnz))
        .with_seed(Some(3))
        .init(&backend.autodiff())
}

/// A training step on `dims`, then something else on the same device.
fn train_on_nothing<const D: usize>(
    backend: &Backend,
    mut optim: ModuleOptimizer,
    dims: [usize; D],
    nnz: usize,
) {
    let text = format!("input {dims:?}, {nnz} non-zeros on {}", backend.name);
    let layer = layer(backend, nnz);
    let before = floats(&layer.values.val());
    let x = Tensor::<D>::zeros(dims, &backend.autodiff()).require_grad();
    let y = layer.forward(x.clone());
    let mut expected = dims;
    expected[D - 1] = D_OUTPUT;
    assert_eq!(y.dims(), expected, "{text}");

    let loss = y.sum();
    assert_eq!(floats(&loss), [0.0], "{text}");
    let grads = loss.backward();
    let values = layer.values.grad(&grads).expect("a gradient of the values");
    assert_close(&text, &values, [nnz], &vec![0.0; nnz], 0.0);
    let bias = layer
        .bias
        .as_ref()
        .and_then(|bias| bias.grad(&grads))
        .expect("a bias gradient");
    assert_close(&text, &bias, [D_OUTPUT], &[0.0; D_OUTPUT], 0.0);
    assert_eq!(x.grad(&grads).map(|grad| grad.dims()), Some(dims), "{text}");

    let grads = GradientsParams::from_grads(grads, &layer);
    let layer = optim.step(0.1, layer, grads);
    assert_eq!(layer.nnz(), nnz);
    assert_eq!(
        floats(&layer.values.val()),
        before,
        "no gradient, no step: {text}"
    );
    assert_device_works(backend, &text);
}

fn assert_device_works(backend: &Backend, text: &str) {
    let a = tensor2(&[1.0, 2.0, 3.0, 4.0], [2, 2], &backend.device);
    let product = a.clone().matmul(a);
    assert_close(
        &format!("matmul after {text}"),
        &product,
        [2, 2],
        &[7.0, 10.0, 15.0, 22.0],
        2e-2,
    );
}

#[test]
fn empty_batches_of_any_rank() {
    for backend in backends() {
        let sgd = || SgdConfig::new().init();
        train_on_nothing(&backend, sgd(), [0, D_INPUT], 30);
        train_on_nothing(&backend, sgd(), [0, 5, D_INPUT], 30);
        train_on_nothing(&backend, sgd(), [4, 0, D_INPUT], 30);
        train_on_nothing(&backend, sgd(), [2, 0, 3, D_INPUT], 30);
        train_on_nothing(&backend, sgd(), [0, 0, D_INPUT], 30);
    }
}

#[test]
fn empty_batch_of_an_empty_layer() {
    for backend in backends() {
        train_on_nothing(&backend, SgdConfig::new().init(), [0, D_INPUT], 0);
    }
}

/// A layer without weights is its bias, and trains it.
#[test]
fn a_layer_without_weights() {
    for backend in backends() {
        let layer = layer(&backend, 0);
        let bias = floats(&layer.bias.as_ref().unwrap().val());
        let x = tensor2(&[1.0; 3 * D_INPUT], [3, D_INPUT], &backend.autodiff()).require_grad();
        let y = layer.forward(x.clone());
        let text = format!("no non-zeros on {}", backend.name);
        assert_close(&text, &y, [3, D_OUTPUT], &bias.repeat(3), 0.0);

        let grads = y.sum().backward();
        let values = layer.values.grad(&grads).expect("an empty gradient");
        assert_eq!(values.dims(), [0], "{text}");
        let input = x.grad(&grads).expect("a gradient of the input");
        assert_close(&text, &input, [3, D_INPUT], &[0.0; 3 * D_INPUT], 0.0);
        let grads = GradientsParams::from_grads(grads, &layer);
        let layer = AdamWConfig::new().init().step(0.5, layer, grads);
        let moved = floats(&layer.bias.as_ref().unwrap().val());
        assert!(
            moved.iter().zip(&bias).all(|(moved, bias)| moved < bias),
            "{text}"
        );
        assert_device_works(&backend, &text);
    }
}

/// Matrices without rows or columns, through every operation.
#[test]
fn matrices_without_rows_or_columns() {
    for backend in backends() {
        let device = &backend.device;
        for [m, k] in [[0, 4], [4, 0], [0, 0]] {
            let text = format!("{m} x {k} on {}", backend.name);
            let pattern = DevicePattern::new(Pattern::empty([m, k]).unwrap(), device);
            let matrix = SparseTensor::new(Tensor::zeros([0], device), pattern);
            let x = Tensor::<2>::ones([3, k], device);
            let y = Tensor::<2>::ones([3, m], device);
            assert_close(
                &text,
                &matrix.spmm(x.clone()),
                [3, m],
                &vec![0.0; 3 * m],
                0.0,
            );
            let back = matrix.spmm_transposed(y.clone());
            assert_close(&text, &back, [3, k], &vec![0.0; 3 * k], 0.0);
            assert_eq!(matrix.sddmm(y, x).values().dims(), [0], "{text}");
            assert_eq!(matrix.transpose().dims(), [k, m], "{text}");
            assert_eq!(matrix.to_dense().dims(), [m, k], "{text}");
            let rows = matrix.scale_rows(Tensor::ones([m], device));
            let cols = matrix.scale_cols(Tensor::ones([k], device));
            assert_eq!((rows.nnz(), cols.nnz()), (0, 0), "{text}");
            let dense = Tensor::<2>::zeros([m, k], device);
            assert_eq!(
                SparseTensor::from_dense(dense).unwrap().dims(),
                [m, k],
                "{text}"
            );
            assert_device_works(&backend, &text);
        }
    }
}
