//! Forward pass and training step of a sparse, a masked and a dense layer of one shape.
//!
//! `cargo bench --bench layer` on Flex; `SNACK_BENCH_DEVICE=wgpu` with the feature of that name for
//! another device. Every timed call ends with a synchronization of the device.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Distribution, Tensor};
use divan::Bencher;
use snack_burn::prelude::*;

/// Width and height of the weight.
const SIZE: usize = 4096;
const BATCHES: [usize; 4] = [1, 4, 16, 64];
const SPARSITIES: [f64; 3] = [0.9, 0.95, 0.99];

fn main() {
    divan::main();
}

fn device() -> Device {
    match std::env::var("SNACK_BENCH_DEVICE").as_deref() {
        #[cfg(feature = "wgpu")]
        Ok("wgpu") => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        #[cfg(feature = "cuda")]
        Ok("cuda") => Device::cuda(0),
        #[cfg(feature = "cpu")]
        Ok("cpu") => Device::cpu(),
        Err(_) | Ok("flex") => Device::flex(),
        Ok(name) => panic!("device `{name}` is unknown or not compiled in"),
    }
}

fn config(sparsity: f64) -> SparseLinearConfig {
    SparseLinearConfig::new(SIZE, SIZE)
        .with_sparsity(sparsity)
        .with_seed(Some(1))
}

/// Times `forward` alone, or with the backward pass to parameters and input.
fn time(bencher: Bencher, batch: usize, train: bool, forward: impl Fn(Tensor<2>) -> Tensor<2>) {
    let plain = device();
    let device = if train {
        plain.clone().autodiff()
    } else {
        plain.clone()
    };
    let input = Tensor::<2>::random([batch, SIZE], Distribution::Normal(0.0, 1.0), &device);
    bencher.bench_local(|| {
        if train {
            let input = input.clone().detach().require_grad();
            let grads = forward(input.clone()).sum().backward();
            divan::black_box(input.grad(&grads));
        } else {
            divan::black_box(forward(input.clone()));
        }
        plain.sync().expect("the device finishes its work");
    });
}

fn on(train: bool) -> Device {
    if train { device().autodiff() } else { device() }
}

#[divan::bench_group(sample_count = 20)]
mod forward {
    use super::*;

    #[divan::bench(args = SPARSITIES, consts = BATCHES)]
    fn sparse<const B: usize>(bencher: Bencher, sparsity: f64) {
        let layer = config(sparsity).init(&on(false));
        time(bencher, B, false, |x| layer.forward(x));
    }

    #[divan::bench(consts = BATCHES)]
    fn masked<const B: usize>(bencher: Bencher) {
        let layer = config(0.9).init_masked(&on(false));
        time(bencher, B, false, |x| layer.forward(x));
    }

    #[divan::bench(consts = BATCHES)]
    fn dense<const B: usize>(bencher: Bencher) {
        let layer: Linear = LinearConfig::new(SIZE, SIZE).init(&on(false));
        time(bencher, B, false, |x| layer.forward(x));
    }
}

#[divan::bench_group(sample_count = 10)]
mod forward_backward {
    use super::*;

    #[divan::bench(args = SPARSITIES, consts = BATCHES)]
    fn sparse<const B: usize>(bencher: Bencher, sparsity: f64) {
        let layer = config(sparsity).init(&on(true)).train();
        time(bencher, B, true, |x| layer.forward(x));
    }

    #[divan::bench(consts = BATCHES)]
    fn masked<const B: usize>(bencher: Bencher) {
        let layer = config(0.9).init_masked(&on(true)).train();
        time(bencher, B, true, |x| layer.forward(x));
    }

    #[divan::bench(consts = BATCHES)]
    fn dense<const B: usize>(bencher: Bencher) {
        let layer: Linear = LinearConfig::new(SIZE, SIZE).init(&on(true)).train();
        time(bencher, B, true, |x| layer.forward(x));
    }
}
