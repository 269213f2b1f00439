//! Layers as parts of Burn modules: a layer that stops learning after it moved, counts its
//! coordinates as parameters, or loses an axis when two are stacked.

use burn::module::{Module, Param, list_param_ids};
use burn::nn::Linear;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Tensor, TensorData};
use snack_burn::prelude::*;

use crate::support::{assert_bits, assert_close, assert_within, backends, flex, floats, tensor2};

fn layer(d_input: usize, d_output: usize, device: &Device) -> SparseLinear {
    SparseLinearConfig::new(d_input, d_output)
        .with_sparsity(0.75)
        .with_seed(Some(13))
        .init(device)
}

fn ramp<const D: usize>(dims: [usize; D], device: &Device) -> Tensor<D> {
    let count = dims.iter().product();
    let numbers: Vec<f32> = (0..count)
        .map(|i| ((i * 7 + 3) as f32 * 0.31).sin())
        .collect();
    Tensor::from_data(TensorData::new(numbers, dims), device)
}

#[test]
fn moving_and_forking_between_all_devices() {
    for from in backends() {
        let source = layer(16, 12, &from.autodiff());
        let expected = floats(&source.forward(ramp([5, 16], &from.autodiff())));
        for to in backends() {
            let device = to.autodiff();
            let moved = [
                ("moved", source.clone().to_device(&device)),
                ("forked", source.clone().fork(&device)),
                (
                    "forked and back",
                    source
                        .clone()
                        .fork(&device)
                        .fork(&from.device)
                        .fork(&device),
                ),
            ];
            for (how, layer) in moved {
                let text = format!("{how} from {} to {}", from.name, to.name);
                assert_eq!(layer.devices(), vec![to.device.clone()], "{text}");
                assert_eq!(layer.pattern(), source.pattern(), "{text}");
                assert_eq!(list_param_ids(&layer), list_param_ids(&source), "{text}");
                let y = layer.forward(ramp([5, 16], &device));
                assert_close(&text, &y, [5, 12], &expected, 1e-5);
            }
        }
    }
}

/// A fork is a leaf again, so that it learns by itself; the original does not move along.
#[test]
fn a_fork_learns_on_its_own() {
    for from in backends() {
        let source = layer(16, 12, &from.autodiff());
        let before = floats(&source.values.val());
        for to in backends() {
            let text = format!("from {} to {}", from.name, to.name);
            let fork = source.clone().fork(&to.autodiff());
            let loss = fork
                .forward(ramp([5, 16], &to.autodiff()))
                .powi_scalar(2)
                .sum();
            let grads = GradientsParams::from_grads(loss.backward(), &fork);
            assert_eq!(grads.len(), 2, "values and bias, {text}");
            let trained = SgdConfig::new().init().step(0.1, fork, grads);
            assert_ne!(floats(&trained.values.val()), before, "{text}");
            assert_eq!(floats(&source.values.val()), before, "{text}");
        }
    }
}

#[test]
fn valid_and_train() {
    for backend in backends() {
        let trained = layer(16, 12, &backend.autodiff());
        let valid = trained.valid();
        let x = ramp([5, 16], &backend.device);
        let y = valid.forward(x.clone());
        assert!(!y.is_autodiff(), "{}", backend.name);
        assert_bits(
            backend.name,
            &y,
            &trained.forward(x.clone().autodiff()).inner(),
        );
        assert_eq!(list_param_ids(&valid), list_param_ids(&trained));

        let again = valid.train();
        let grads = again.forward(x.autodiff()).sum().backward();
        let grad = again
            .values
            .grad(&grads)
            .expect("a gradient after valid and train");
        assert_eq!(grad.dims(), [again.nnz()], "{}", backend.name);
    }
}

#[test]
fn coordinates_are_not_parameters() {
    let Some(backend) = flex() else { return };
    let layer = layer(16, 12, &backend.device);
    assert_eq!((layer.nnz(), layer.num_params()), (48, 48 + 12));
    let config = SparseLinearConfig::new(16, 12)
        .with_nnz(Some(7))
        .with_bias(false);
    let bare = config.with_seed(Some(1)).init(&backend.device);
    assert_eq!((bare.nnz(), bare.num_params()), (7, 7));
    assert!((bare.pattern().density() - 7.0 / 192.0).abs() < 1e-12);
}

#[test]
fn what_a_layer_prints() {
    let Some(backend) = flex() else { return };
    let layer = layer(16, 12, &backend.device);
    assert_eq!(
        layer.to_string(),
        "SparseLinear {d_input: 16, d_output: 12, bias: true, nnz: 48, density: 25.00 %, \
         params: 60}"
    );
    let config = SparseLinearConfig::new(16, 12)
        .with_sparsity(0.75)
        .with_seed(Some(13));
    assert_eq!(
        config.init_masked(&backend.device).to_string(),
        "MaskedLinear {d_input: 16, d_output: 12, bias: true, params: 204}"
    );
}

fn linear(weight: &[f32], dims: [usize; 2], bias: Option<&[f32]>, device: &Device) -> Linear {
    Linear {
        weight: Param::from_tensor(tensor2(weight, dims, device)),
        bias: bias.map(|bias| Param::from_data(bias, device)),
    }
}

/// `weight` is `[d_input, d_output]`; ties go to the lower index of `[d_output, d_input]`.
#[test]
fn pruning_a_dense_layer_by_magnitude() {
    for backend in backends() {
        let device = &backend.device;
        let weight = [0.5, -3.0, -2.0, 0.0, 2.0, 2.0];
        let dense = linear(&weight, [3, 2], Some(&[1.0, -1.0]), device);
        let id = dense.bias.as_ref().unwrap().id;
        let kept = |sparsity| SparseLinear::from_linear(dense.clone(), Prune::magnitude(sparsity));

        let layer = kept(0.5);
        assert_eq!(layer.weight_shape(), [2, 3]);
        // Rows are outputs: [0.5, -2, 2] and [-3, 0, 2]. Of the three 2s the first two stay.
        let coordinates: Vec<_> = layer.pattern().iter().collect();
        assert_eq!(coordinates, [(0, 1), (0, 2), (1, 0)], "{}", backend.name);
        assert_eq!(floats(&layer.values.val()), [-2.0, 2.0, -3.0]);
        assert_eq!(layer.bias.as_ref().map(|bias| bias.id), Some(id));
        assert_eq!(floats(&layer.bias.as_ref().unwrap().val()), [1.0, -1.0]);

        let all = kept(0.0);
        assert_eq!(all.nnz(), 6, "a zero weight is a weight");
        let x = ramp([4, 3], device);
        assert_close(
            backend.name,
            &all.forward(x.clone()),
            [4, 2],
            &floats(&dense.forward(x)),
            backend.dense_tolerance(),
        );
    }
}

#[test]
#[should_panic(expected = "sparsity 1 is out of range, expected a number in [0, 1)")]
fn pruning_everything_is_refused() {
    let device = Device::default();
    SparseLinear::from_linear(linear(&[1.0], [1, 1], None, &device), Prune::magnitude(1.0));
}

#[test]
fn to_a_dense_layer_and_back() {
    for backend in backends() {
        for device in [backend.device.clone(), backend.autodiff()] {
            let sparse = layer(16, 12, &device);
            let dense = sparse.to_linear();
            let ids = |bias: &Option<Param<Tensor<1>>>| bias.as_ref().map(|bias| bias.id);
            assert_eq!(ids(&dense.bias), ids(&sparse.bias));
            assert_eq!(dense.weight.val().dims(), [16, 12]);
            let x = ramp([5, 16], &device);
            let expected = floats(&dense.forward(x.clone()));
            let tolerance = backend.dense_tolerance();
            assert_close(
                backend.name,
                &sparse.forward(x),
                [5, 12],
                &expected,
                tolerance,
            );

            let back = SparseLinear::from_linear(dense, Prune::magnitude(0.75));
            assert_eq!(back.pattern(), sparse.pattern());
            assert_bits(backend.name, &back.values.val(), &sparse.values.val());
            if device.is_autodiff() {
                let grads = back.forward(ramp([5, 16], &device)).sum().backward();
                assert!(
                    back.values.grad(&grads).is_some(),
                    "the pruned layer trains"
                );
            }
        }
    }
}

/// Leading axes are a batch: any rank gives the bits of the folded call.
#[test]
fn every_rank_equals_the_folded_call() {
    for backend in backends() {
        let layer = layer(16, 12, &backend.device);
        let check = |batch: usize| {
            let folded = ramp([batch, 16], &backend.device);
            (layer.forward(folded.clone()), folded)
        };
        let (expected, x) = check(1);
        let y = layer.forward(x.reshape([16]));
        assert_bits(backend.name, &y.reshape([1, 12]), &expected);
        for (b, t) in [(1, 1), (1, 7), (7, 1), (64, 64)] {
            let (expected, x) = check(b * t);
            let y = layer.forward(x.reshape([b, t, 16]));
            let text = format!("[{b}, {t}, 16] on {}", backend.name);
            assert_eq!(y.dims(), [b, t, 12], "{text}");
            assert_bits(&text, &y.reshape([b * t, 12]), &expected);
        }
        let (expected, x) = check(24);
        let y = layer.forward(x.clone().reshape([2, 3, 4, 16]));
        assert_eq!(y.dims(), [2, 3, 4, 12]);
        assert_bits(backend.name, &y.reshape([24, 12]), &expected);
        let y = layer.forward(x.reshape([2, 3, 1, 4, 16]));
        assert_eq!(y.dims(), [2, 3, 1, 4, 12]);
        assert_bits(backend.name, &y.reshape([24, 12]), &expected);
    }
}

/// Two stacked sparse layers, as in the feed-forward part of a transformer.
fn mlp<const D: usize>(up: &SparseLinear, down: &SparseLinear, x: Tensor<D>) -> Tensor<D> {
    down.forward(gelu(up.forward(x)))
}

#[test]
fn stacked_layers_with_swapped_input_of_every_rank() {
    for backend in backends() {
        let device = &backend.device;
        let (up, down) = (layer(16, 64, device), layer(64, 16, device));
        let text = format!("stacked on {}", backend.name);
        let expected = |x: Tensor<2>| {
            let copy = Tensor::<2>::from_data(x.into_data(), device);
            floats(&mlp(&up, &down, copy))
        };

        let x = ramp([16, 6], device).swap_dims(0, 1);
        let y = mlp(&up, &down, x.clone());
        assert_close(&text, &y, [6, 16], &expected(x), 1e-5);
        let x = ramp([3, 16, 2], device).swap_dims(1, 2);
        let y = mlp(&up, &down, x.clone());
        assert_close(&text, &y, [3, 2, 16], &expected(x.reshape([6, 16])), 1e-5);
        let x = ramp([3, 2, 5, 16], device).swap_dims(0, 2);
        let y = mlp(&up, &down, x.clone());
        assert_close(
            &text,
            &y,
            [5, 2, 3, 16],
            &expected(x.reshape([30, 16])),
            1e-5,
        );
        let x = ramp([16, 2, 1, 2, 3], device).swap_dims(0, 4);
        let y = mlp(&up, &down, x.clone());
        assert_close(
            &text,
            &y,
            [3, 2, 1, 2, 16],
            &expected(x.reshape([12, 16])),
            1e-5,
        );
    }
}

/// Element-wise operations on both sides of a layer, which a fusing back end merges with others.
#[test]
fn between_element_wise_operations() {
    for backend in backends() {
        let device = backend.autodiff();
        let layer = layer(16, 12, &device);
        let x = ramp([5, 16], &device).require_grad();
        let y = layer.forward((x.clone() * 2.0 + 1.0).tanh());
        let loss = ((y * 3.0 - 1.0).abs() + 0.5).log().sum();
        let grads = loss.backward();
        let found = [
            floats(&x.grad(&grads).unwrap()),
            floats(&layer.values.grad(&grads).unwrap()),
        ];

        let Some(host) = flex() else { continue };
        let device = host.autodiff();
        let layer = layer.fork(&device);
        let x = ramp([5, 16], &device).require_grad();
        let y = layer.forward((x.clone() * 2.0 + 1.0).tanh());
        let grads = ((y * 3.0 - 1.0).abs() + 0.5).log().sum().backward();
        let expected = [
            floats(&x.grad(&grads).unwrap()),
            floats(&layer.values.grad(&grads).unwrap()),
        ];
        for (found, expected) in found.iter().zip(&expected) {
            crate::support::assert_within(backend.name, found, expected, 1e-4);
        }
    }
}

/// The indices of a pattern are made on first use, by whichever thread comes first.
#[test]
fn several_threads_share_a_layer() {
    for backend in backends() {
        let expected =
            floats(&layer(16, 12, &backend.device).forward(ramp([5, 16], &backend.device)));
        for device in [backend.device.clone(), backend.autodiff()] {
            let layer = layer(16, 12, &device);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let y = layer.forward(ramp([5, 16], &device));
                        assert_close(backend.name, &y, [5, 12], &expected, 1e-6);
                        if device.is_autodiff() {
                            let grads = y.sum().backward();
                            let grad = layer.values.grad(&grads).expect("a gradient");
                            assert_eq!(grad.dims(), [48]);
                        }
                    });
                }
            });
        }
    }
}

#[test]
#[should_panic(expected = "axis 1 expected 16, got 15")]
fn another_width_is_refused() {
    let device = Device::default();
    layer(16, 12, &device).forward(ramp([5, 15], &device));
}

/// Value, gradient and index of a trained layer take at most 18 bytes a non-zero on a device with
/// halved coordinates, and 24 elsewhere, offsets and padding apart.
/// What only learns or draws from rows of slots pays for their list.
#[test]
fn a_layer_that_only_predicts_has_no_rows_of_slots() {
    for backend in backends() {
        let layer = SparseLinearConfig::new(300, 200)
            .with_sparsity(0.9)
            .with_seed(Some(1))
            .init(&backend.device);
        let input = || Tensor::<2>::ones([2, 300], &backend.device);
        let expected = floats(&layer.forward(input()));
        let predicting = layer.pattern.index_bytes();
        let composed = layer.clone().with_routines(Routines {
            spmm: SpmmRoutine::Composed,
            ..Default::default()
        });
        assert_within(
            backend.name,
            &floats(&composed.forward(input())),
            &expected,
            1e-5,
        );
        let all = layer.pattern.index_bytes();
        let list = layer.nnz() * if backend.is_cube() { 2 } else { 4 };
        assert!(
            all >= predicting + list,
            "{predicting} of {all} bytes on {}",
            backend.name
        );
    }
}

#[test]
fn state_of_a_trained_layer() {
    const PADDED_LISTS: usize = 4;
    const LONGEST_PADDING: usize = 4096 * size_of::<i32>();
    let (d_input, d_output) = (700, 900);
    for backend in backends() {
        let device = backend.autodiff();
        let layer = SparseLinearConfig::new(d_input, d_output)
            .with_sparsity(0.9)
            .with_seed(Some(1))
            .init(&device);
        let input = Tensor::<2>::ones([2, d_input], &device).require_grad();
        let grads = layer.forward(input.clone()).sum().backward();
        assert!(input.grad(&grads).is_some() && layer.values.grad(&grads).is_some());

        let offsets = (d_input + d_output + 2) * size_of::<i32>();
        let apart = offsets + PADDED_LISTS * LONGEST_PADDING;
        let index = layer.pattern.index_bytes().saturating_sub(apart);
        let state = 2 * size_of::<f32>() + index.div_ceil(layer.nnz());
        let limit = if backend.is_cube() { 18 } else { 24 };
        assert!(
            state <= limit,
            "{state} bytes a non-zero on {}",
            backend.name
        );
    }
}
