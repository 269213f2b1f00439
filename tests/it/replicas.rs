//! Several replicas of a model: patterns that drift apart, or values that move while their
//! coordinates stay behind.

use burn::module::Module;
use burn::optim::{GradientsParams, ModuleOptimizer, MultiGradientsParams, SgdConfig};
use burn::tensor::{Device, Tensor};
use snack_burn::nn::sparse_layers;
use snack_burn::prelude::*;

use crate::records::Net;
use crate::support::{assert_bits, backends, flex, floats, tensor2};

const WIDTH: usize = 24;

fn half_batch(part: usize, device: &Device) -> Tensor<2> {
    let numbers: Vec<f32> = (0..4 * WIDTH)
        .map(|i| ((i + 1000 * part) as f32 * 0.73).sin())
        .collect();
    tensor2(&numbers, [4, WIDTH], device)
}

fn gradients(net: &Net, part: usize) -> GradientsParams {
    let device = net.first.values.device();
    let loss = net.forward(half_batch(part, &device)).powi_scalar(2).sum();
    GradientsParams::from_grads(loss.backward(), net)
}

fn patterns(net: &Net) -> Vec<Pattern> {
    sparse_layers(net)
        .into_iter()
        .map(|layer| layer.pattern)
        .collect()
}

/// Two replicas with summed gradients against one model with the whole batch.
#[test]
fn summed_gradients_equal_the_whole_batch() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut single = Net::new([100, 200, 50], 1, &device);
    let mut main = single.clone();
    let sgd = || SgdConfig::new().init();
    let (mut single_optim, mut main_optim) = (sgd(), sgd());
    for _ in 0..5 {
        let replicas = [main.clone().fork(&device), main.clone().fork(&device)];
        let mut summed = MultiGradientsParams::default();
        for (part, replica) in replicas.iter().enumerate() {
            assert_eq!(patterns(replica), patterns(&main));
            summed
                .grads
                .push((gradients(replica, part), device.clone()));
        }
        main = main_optim.step_multi(0.01, main, summed);

        let x = Tensor::cat(vec![half_batch(0, &device), half_batch(1, &device)], 0);
        let loss = single.forward(x).powi_scalar(2).sum();
        let grads = GradientsParams::from_grads(loss.backward(), &single);
        single = single_optim.step(0.01, single, grads);
    }
    for (found, expected) in sparse_layers(&main).iter().zip(sparse_layers(&single)) {
        let (found, expected) = (floats(&found.values), floats(&expected.values));
        crate::support::assert_within("values of the replicas", &found, &expected, 1e-5);
    }
}

/// The same updater on each replica makes the same decision; none has to be sent.
#[test]
fn replicas_update_their_topology_alike() {
    for backend in backends() {
        let device = backend.autodiff();
        let net = Net::new([100, 200, 50], 1, &device);
        let mut replicas: Vec<(Net, ModuleOptimizer, Dst)> = (0..2)
            .map(|_| {
                let config = DstConfig::set().with_every(2).with_seed(7);
                let dst = config.init(&net).unwrap();
                let optim = SgdConfig::new().init();
                (net.clone().fork(&device), optim, dst)
            })
            .collect();
        for _ in 0..6 {
            for (net, optim, dst) in &mut replicas {
                let grads = gradients(net, 0);
                let trained = optim.step(0.01, net.clone(), grads);
                (*net, *optim) = dst.step(trained, optim.clone());
            }
            let [(first, ..), (second, ..)] = &replicas[..] else {
                unreachable!()
            };
            assert_eq!(patterns(first), patterns(second), "{}", backend.name);
            for (a, b) in sparse_layers(first).iter().zip(sparse_layers(second)) {
                assert_bits(&a.name, &a.values, &b.values);
            }
        }
        assert_ne!(patterns(&replicas[0].0), patterns(&net), "{}", backend.name);
        assert_eq!(patterns(&net)[0].nnz(), 100);
    }
}

/// A model that was updated and then moved still has its coordinates with it.
#[test]
fn moving_after_an_update() {
    for to in backends() {
        let Some(from) = flex() else { return };
        let net = Net::new([100, 200, 50], 1, &from.autodiff());
        let mut optim = SgdConfig::new().init();
        let grads = gradients(&net, 0);
        let net = optim.step(0.01, net, grads);
        let mut dst = DstConfig::set().with_every(1).init(&net).unwrap();
        let (net, _) = dst.step(net, optim);
        let moved = net.clone().fork(&to.autodiff());
        assert_eq!(patterns(&moved), patterns(&net));
        let expected = floats(&net.forward(half_batch(0, &from.autodiff())));
        let found = floats(&moved.forward(half_batch(0, &to.autodiff())));
        let text = format!("from {} to {}", from.name, to.name);
        crate::support::assert_within(&text, &found, &expected, to.dense_tolerance());
    }
}
