//! A layer that trains on wrong gradients: output, input, value and bias gradients against the
//! f64 reference and against the dense layer with a mask of the same seed.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use crate::support::layers::{
    Loss, assert_pass, leaf, masked_pass, reference_pass, sparse_pass, well_conditioned,
};
use crate::support::{Backend, backends, uniform};

/// A configuration and the two layers that it makes.
struct Twins {
    name: String,
    sparse: SparseLinear,
    masked: MaskedLinear,
    d_input: usize,
    d_output: usize,
}

/// On a GPU one pair of sizes, because each dense product of another shape may be tuned.
fn sizes(backend: &Backend) -> &'static [(usize, usize)] {
    match backend.is_cube() {
        true => &[(33, 17)],
        false => &[(33, 17), (64, 10), (5, 40), (1, 9), (9, 1)],
    }
}

const DENSITIES: [(f64, Option<usize>); 5] = [
    (0.0, None),
    (0.5, None),
    (0.9, None),
    (0.99, None),
    (0.5, Some(0)),
];

fn for_each_layer(check: impl Fn(&Backend, &Twins, &mut ChaCha8Rng)) {
    let mut rng = ChaCha8Rng::seed_from_u64(0x1a7e6);
    for backend in backends() {
        for (variant, device) in backend.autodiff_variants() {
            for &(d_input, d_output) in sizes(&backend) {
                for (sparsity, nnz) in DENSITIES {
                    for bias in [true, false] {
                        let config = well_conditioned(d_input, d_output)
                            .with_sparsity(sparsity)
                            .with_nnz(nnz)
                            .with_bias(bias)
                            .with_seed(Some(d_input as u64));
                        let sparse = config.init(&device);
                        let name = format!(
                            "{d_input} -> {d_output}, {} non-zeros, bias {bias}, {variant}, on {}",
                            sparse.nnz(),
                            backend.name
                        );
                        let masked = config.init_masked(&device);
                        let twins = Twins {
                            name,
                            sparse,
                            masked,
                            d_input,
                            d_output,
                        };
                        check(&backend, &twins, &mut rng);
                    }
                }
            }
        }
    }
}

/// One pass with input of shape `[..lead, d_input]`.
fn check<const D: usize>(
    backend: &Backend,
    twins: &Twins,
    lead: &[usize],
    loss: Loss,
    rng: &mut ChaCha8Rng,
) {
    let mut dims = [twins.d_input; D];
    dims[..D - 1].copy_from_slice(lead);
    let batch: usize = lead.iter().product();
    let x = uniform(batch * twins.d_input, rng);
    let c = uniform(batch * twins.d_output, rng);
    let device = twins.sparse.values.device();
    let text = format!("{loss:?} loss, input {dims:?}, {}", twins.name);

    let found = sparse_pass(&twins.sparse, leaf(&x, dims, &device), &c, loss);
    assert_pass(
        &text,
        &found,
        &reference_pass(&twins.sparse, &x, &c, loss),
        1e-5,
    );

    // Burn's dense products do not take an empty batch everywhere, and every further rank would be
    // tuned anew on a GPU.
    if batch > 0 && (D == 2 || !backend.is_cube()) {
        let pattern = twins.sparse.pattern();
        let masked = masked_pass(&twins.masked, pattern, leaf(&x, dims, &device), &c, loss);
        assert_pass(
            &format!("masked, {text}"),
            &found,
            &masked,
            backend.dense_tolerance(),
        );
    }
}

#[test]
fn batches_of_rank_2() {
    for_each_layer(|backend, twins, rng| {
        for batch in [0, 1, 7, 64] {
            for loss in [Loss::Weighted, Loss::Square] {
                check::<2>(backend, twins, &[batch], loss, rng);
            }
        }
    });
}

#[test]
fn every_other_rank() {
    for_each_layer(|backend, twins, rng| {
        check::<1>(backend, twins, &[], Loss::Weighted, rng);
        for leading in [[1, 0], [3, 0], [1, 1], [7, 1], [4, 16]] {
            check::<3>(backend, twins, &leading, Loss::Square, rng);
        }
        for leading in [[0, 2, 3], [1, 1, 1], [1, 7, 1], [4, 2, 8]] {
            check::<4>(backend, twins, &leading, Loss::Weighted, rng);
        }
        check::<5>(backend, twins, &[2, 1, 2, 2], Loss::Square, rng);
    });
}

/// The twins are twins: pattern, values and bias, not only what they compute.
#[test]
fn the_masked_layer_holds_the_same_weights() {
    for_each_layer(|_, twins, _| {
        let masked = twins.masked.masked_weight().detach();
        let dense = twins.sparse.weight().to_dense().detach().transpose();
        assert_eq!(dense.into_data(), masked.into_data(), "{}", twins.name);
        match (&twins.sparse.bias, &twins.masked.bias) {
            (Some(sparse), Some(masked)) => {
                assert_eq!(
                    sparse.val().into_data(),
                    masked.val().into_data(),
                    "{}",
                    twins.name
                );
            }
            (sparse, masked) => assert_eq!(sparse.is_some(), masked.is_some()),
        }
    });
}

/// Sums over more samples than one block of a kernel has, with features that fill no cube or more than one.
#[test]
fn large_batches() {
    let mut rng = ChaCha8Rng::seed_from_u64(0xb1a5);
    for backend in backends() {
        for (d_input, d_output, batch) in [(3, 5, 1030), (4, 300, 257), (2, 1, 4099)] {
            let device = backend.autodiff();
            let config = well_conditioned(d_input, d_output).with_sparsity(0.5);
            let layer = config.with_seed(Some(7)).init(&device);
            let x = uniform(batch * d_input, &mut rng);
            let c = uniform(batch * d_output, &mut rng);
            let input = leaf::<2>(&x, [batch, d_input], &device);
            let found = sparse_pass(&layer, input, &c, Loss::Weighted);
            let expected = reference_pass(&layer, &x, &c, Loss::Weighted);
            let case = format!("{batch} x {d_input} -> {d_output} on {}", backend.name);
            assert_pass(&case, &found, &expected, 1e-5);
        }
    }
}
