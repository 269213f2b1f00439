//! A backward pass that panics, or computes what nobody asked for, when only some of values,
//! input and bias are tracked.

use burn::module::Module;
use burn::tensor::{Device, Gradients, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use crate::support::layers::{Loss, Pass, assert_pass, reference_pass};
use crate::support::{Case, assert_close, backends, floats, tensor2, uniform, widen};

const DIMS: [usize; 2] = [5, 12];

/// Which parents of the product are tracked.
#[derive(Debug, Clone, Copy)]
struct Tracked {
    values: bool,
    input: bool,
    bias: bool,
}

fn layer(device: &Device, tracked: Tracked) -> SparseLinear {
    let mut layer = SparseLinearConfig::new(DIMS[1], 9)
        .with_sparsity(0.7)
        .with_seed(Some(11))
        .init(device);
    layer.values = layer.values.set_require_grad(tracked.values);
    layer.bias = layer.bias.map(|bias| bias.set_require_grad(tracked.bias));
    layer
}

#[test]
fn any_subset_of_the_parents() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (x, c) = (
        uniform(DIMS[0] * DIMS[1], &mut rng),
        uniform(DIMS[0] * 9, &mut rng),
    );
    for backend in backends() {
        for (variant, device) in backend.autodiff_variants() {
            for mask in 1..8 {
                let tracked = Tracked {
                    values: mask & 1 > 0,
                    input: mask & 2 > 0,
                    bias: mask & 4 > 0,
                };
                let text = format!("{tracked:?}, {variant}, on {}", backend.name);
                let layer = layer(&device, tracked);
                let x_tensor = tensor2(&x, DIMS, &device).set_require_grad(tracked.input);
                let y = layer.forward(x_tensor.clone());
                let output = floats(&y);
                let grads = Loss::Square.of(y, &c).backward();

                let expected = reference_pass(&layer, &x, &c, Loss::Square);
                let (values, input) = (layer.values.grad(&grads), x_tensor.grad(&grads));
                let bias = layer.bias.as_ref().and_then(|bias| bias.grad(&grads));
                assert_eq!(values.is_some(), tracked.values, "value gradient of {text}");
                assert_eq!(input.is_some(), tracked.input, "input gradient of {text}");
                assert_eq!(bias.is_some(), tracked.bias, "bias gradient of {text}");
                if let Some(values) = &values {
                    assert_eq!(values.dims(), [layer.nnz()], "{text}");
                }
                let found = Pass {
                    output,
                    values: values.map_or(expected.values.clone(), |grad| floats(&grad)),
                    input: input.map_or(expected.input.clone(), |grad| floats(&grad)),
                    bias: bias.map_or(expected.bias.clone(), |grad| Some(floats(&grad))),
                };
                assert_pass(&text, &found, &expected, 1e-5);
            }
        }
    }
}

#[test]
fn no_parent() {
    for backend in backends() {
        for (variant, device) in backend.autodiff_variants() {
            let frozen = layer(
                &device,
                Tracked {
                    values: false,
                    input: false,
                    bias: false,
                },
            );
            let x = tensor2(&[0.5; 60], DIMS, &device);
            let y = frozen.forward(x.clone());
            assert!(!y.is_tracked(), "{variant} on {}", backend.name);
            let trainable = layer(
                &device,
                Tracked {
                    values: true,
                    input: false,
                    bias: true,
                },
            );
            let valid = trainable.valid().forward(x.inner());
            assert!(!valid.is_autodiff());
            assert_eq!(
                valid.into_data(),
                y.into_data(),
                "{variant} on {}",
                backend.name
            );
        }
    }
}

/// The operands of the other two products, each tracked alone: their gradients are products too.
#[test]
fn each_operand_of_the_transposed_and_the_sampled_product() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let case = Case::random([9, 12], 40, &mut rng);
    let (batch, [m, k]) = (5, case.shape);
    let (x, y) = (uniform(batch * k, &mut rng), uniform(batch * m, &mut rng));
    let (c, s) = (uniform(batch * k, &mut rng), uniform(case.nnz(), &mut rng));
    let reference = case.reference();
    for backend in backends() {
        for (variant, device) in backend.autodiff_variants() {
            let text = |what: &str| format!("{what}, {variant}, on {}", backend.name);
            let operand = |values: &[f32], width: usize, tracked: bool| {
                tensor2(values, [batch, width], &device).set_require_grad(tracked)
            };

            let matrix = case.sparse(&device).require_grad();
            let product = matrix.spmm_transposed(operand(&y, m, false));
            let grads = Loss::Weighted.of(product, &c).backward();
            let expected = reference.sddmm(&widen(&y), &widen(&c), batch);
            assert_gradient(
                &text("values of the transposed product"),
                matrix.values(),
                &grads,
                &expected,
            );

            let leaf = operand(&y, m, true);
            let product = case.sparse(&device).spmm_transposed(leaf.clone());
            let grads = Loss::Weighted.of(product, &c).backward();
            let expected = reference.spmm(&widen(&c), batch);
            assert_gradient(
                &text("y of the transposed product"),
                &leaf,
                &grads,
                &expected,
            );

            let weighted = case.with_values(&s).reference();
            let leaf = operand(&y, m, true);
            let sampled = case
                .sparse(&device)
                .sddmm(leaf.clone(), operand(&x, k, false));
            let grads = Loss::Weighted.of(sampled.values().clone(), &s).backward();
            let expected = weighted.spmm(&widen(&x), batch);
            assert_gradient(&text("y of the sampled product"), &leaf, &grads, &expected);

            let leaf = operand(&x, k, true);
            let sampled = case
                .sparse(&device)
                .sddmm(operand(&y, m, false), leaf.clone());
            let grads = Loss::Weighted.of(sampled.values().clone(), &s).backward();
            let expected = weighted.spmm_transposed(&widen(&y), batch);
            assert_gradient(&text("x of the sampled product"), &leaf, &grads, &expected);
        }
    }
}

fn assert_gradient<const D: usize>(
    text: &str,
    leaf: &Tensor<D>,
    grads: &Gradients,
    expected: &[f64],
) {
    let grad = leaf
        .grad(grads)
        .unwrap_or_else(|| panic!("no gradient of the {text}"));
    assert_close(text, &grad, leaf.dims(), expected, 1e-5);
}
