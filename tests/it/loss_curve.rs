//! Training that drifts from dense training with a mask: 300 steps of the same network, batch
//! and learning rate, step by step.

use burn::module::Module;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use crate::support::{flex, floats, tensor2, uniform};

const STEPS: usize = 300;
const SAMPLES: usize = 64;
const SIZES: [usize; 3] = [20, 48, 4];

#[derive(Module, Debug)]
struct Sparse {
    first: SparseLinear,
    second: SparseLinear,
}

#[derive(Module, Debug)]
struct Masked {
    first: MaskedLinear,
    second: MaskedLinear,
}

fn configs() -> [SparseLinearConfig; 2] {
    let config = |at: usize, sparsity| {
        SparseLinearConfig::new(SIZES[at], SIZES[at + 1])
            .with_sparsity(sparsity)
            .with_seed(Some(at as u64))
    };
    [config(0, 0.8), config(1, 0.5)]
}

/// Smooth targets that a small network learns.
fn data(device: &Device) -> [Tensor<2>; 2] {
    let mut rng = ChaCha8Rng::seed_from_u64(37);
    let x = uniform(SAMPLES * SIZES[0], &mut rng);
    let targets: Vec<f32> = x
        .chunks(SIZES[0])
        .flat_map(|x| (0..SIZES[2]).map(|output| (x[output] * x[output + 4]).sin() + x[output + 8]))
        .collect();
    [
        tensor2(&x, [SAMPLES, SIZES[0]], device),
        tensor2(&targets, [SAMPLES, SIZES[2]], device),
    ]
}

fn train<M: Module>(
    mut model: M,
    device: &Device,
    forward: impl Fn(&M, Tensor<2>) -> Tensor<2>,
) -> Vec<f64> {
    let [x, targets] = data(device);
    let mut optim = SgdConfig::new().init();
    (0..STEPS)
        .map(|_| {
            let error = forward(&model, x.clone()) - targets.clone();
            let loss = (error.clone() * error).mean();
            let grads = GradientsParams::from_grads(loss.backward(), &model);
            model = optim.step(0.1, model.clone(), grads);
            floats(&loss)[0]
        })
        .collect()
}

#[test]
fn sparse_and_masked_training_agree_at_every_step() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let [first, second] = configs();
    let sparse = Sparse {
        first: first.init(&device),
        second: second.init(&device),
    };
    let masked = Masked {
        first: first.init_masked(&device),
        second: second.init_masked(&device),
    };
    let sparse = train(sparse, &device, |model, x| {
        model.second.forward(gelu(model.first.forward(x)))
    });
    let masked = train(masked, &device, |model, x| {
        model.second.forward(gelu(model.first.forward(x)))
    });

    for (step, (sparse, masked)) in sparse.iter().zip(&masked).enumerate() {
        let distance = (sparse - masked).abs();
        assert!(
            distance <= 1e-3,
            "step {step}: sparse loss {sparse}, masked loss {masked}"
        );
    }
    let (start, end) = (sparse[0], sparse[STEPS - 1]);
    assert!(
        end < 0.3 * start,
        "the network does not learn: loss {start} before, {end} after"
    );
}
