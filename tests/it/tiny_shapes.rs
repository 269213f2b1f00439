//! Launch planning that divides by a size rounded down to zero: all shapes from 1 x 1 up.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::support::layers::{
    Loss, assert_pass, leaf, reference_pass, sparse_pass, well_conditioned,
};
use crate::support::{Backend, backends, uniform};

const SIZES: [usize; 7] = [1, 2, 3, 7, 9, 64, 65];

/// `(batch, d_input, d_output)`: all on the host, corners elsewhere.
fn shapes(backend: &Backend) -> Vec<(usize, usize, usize)> {
    if backend.is_cube() {
        return vec![
            (1, 1, 1),
            (1, 9, 64),
            (2, 3, 7),
            (7, 65, 2),
            (9, 2, 65),
            (64, 1, 65),
            (64, 64, 64),
            (65, 65, 1),
            (65, 7, 9),
        ];
    }
    let mut shapes = Vec::new();
    for batch in SIZES {
        for d_input in SIZES {
            shapes.extend(SIZES.map(|d_output| (batch, d_input, d_output)));
        }
    }
    shapes
}

#[test]
fn forward_and_backward() {
    let mut rng = ChaCha8Rng::seed_from_u64(29);
    for backend in backends() {
        let device = backend.autodiff();
        for (batch, d_input, d_output) in shapes(&backend) {
            let full = d_input * d_output;
            let mut counts = vec![1, full / 2, full];
            counts.dedup();
            for nnz in counts {
                let layer = well_conditioned(d_input, d_output)
                    .with_nnz(Some(nnz))
                    .with_seed(Some(nnz as u64))
                    .init(&device);
                let x = uniform(batch * d_input, &mut rng);
                let c = uniform(batch * d_output, &mut rng);
                let found = sparse_pass(
                    &layer,
                    leaf(&x, [batch, d_input], &device),
                    &c,
                    Loss::Square,
                );
                let expected = reference_pass(&layer, &x, &c, Loss::Square);
                let text = format!(
                    "batch {batch}, {d_input} -> {d_output}, {nnz} non-zeros on {}",
                    backend.name
                );
                assert_pass(&text, &found, &expected, 1e-5);
            }
        }
    }
}
