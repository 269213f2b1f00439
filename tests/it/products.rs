//! Wrong numbers out of a product: every routine against the f64 reference, on patterns whose
//! rows, columns or batches are empty, single or far from uniform.

use burn::tensor::Tensor;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::{Routines, SddmmRoutine};

use crate::support::{
    Backend, Case, assert_bits, assert_close, backends, cases, poison, routines, tensor2, uniform,
    widen,
};

const BATCHES: [usize; 5] = [0, 1, 7, 33, 64];
const TOLERANCE: f64 = 1e-5;

/// Patterns that dense panels are tested with on a device that tunes dense products.
const PANEL_CASES: usize = 2;

/// How many of the problems a routine is tested with on a device.
#[derive(Clone, Copy)]
enum Shapes {
    All,
    OneBatch,
    Few,
}

/// On how many problems a routine is tested, and what it promises: panels have the precision of the
/// dense product, which may be reduced on a GPU.
fn how_to_test(backend: &Backend, routine: &str) -> (Shapes, f64) {
    match routine {
        "composed" => (Shapes::OneBatch, TOLERANCE),
        "panel" if backend.name == "cuda" => (Shapes::Few, 2e-2),
        "panel" => (Shapes::Few, TOLERANCE),
        _ => (Shapes::All, TOLERANCE),
    }
}

/// Calls `check` for every pattern and batch that a routine has to get right.
///
/// The composed routine allocates `batch x nnz`, and a GPU may tune each of the dense shapes of it
/// and of panels anew: one batch, and for panels a few patterns, are enough there.
fn for_each_problem(
    backend: &Backend,
    shapes: Shapes,
    mut check: impl FnMut(&str, &Case, usize, &mut ChaCha8Rng),
) {
    let all = cases::all();
    let (cases, batches) = match shapes {
        _ if !backend.is_cube() => (&all[..], &BATCHES[..]),
        Shapes::All => (&all[..], &BATCHES[..]),
        Shapes::OneBatch => (&all[..], &BATCHES[2..3]),
        Shapes::Few => (&all[..PANEL_CASES.min(all.len())], &BATCHES[2..3]),
    };
    let mut rng = ChaCha8Rng::seed_from_u64(0xba7c4);
    for case in cases {
        for &batch in batches {
            let text = format!("{} at batch {batch} on {}", case.name, backend.name);
            check(&text, case, batch, &mut rng);
        }
    }
}

#[test]
fn spmm_equals_the_reference() {
    for backend in backends() {
        for routines in routines::spmm(&backend) {
            let (shapes, tolerance) = how_to_test(&backend, routines.spmm.name());
            for_each_problem(&backend, shapes, |text, case, batch, rng| {
                let text = format!("{} of {text}", routines.spmm);
                let ([m, k], device) = (case.shape, &backend.device);
                let x = uniform(batch * k, rng);
                let matrix = case.sparse(device).with_routines(routines);
                let x_device = tensor2(&x, [batch, k], device);
                poison(batch * m, device);
                let found = matrix.spmm(x_device);
                let expected = case.reference().spmm(&widen(&x), batch);
                assert_close(&text, &found, [batch, m], &expected, tolerance);
            });
        }
    }
}

#[test]
fn spmm_transposed_equals_the_reference() {
    for backend in backends() {
        for routines in routines::spmm_transposed(&backend) {
            let (shapes, tolerance) = how_to_test(&backend, routines.spmm.name());
            for_each_problem(&backend, shapes, |text, case, batch, rng| {
                let text = format!("transposed {} of {text}", routines.spmm);
                let ([m, k], device) = (case.shape, &backend.device);
                let y = uniform(batch * m, rng);
                let matrix = case.sparse(device).with_routines(routines);
                let y_device = tensor2(&y, [batch, m], device);
                poison(batch * k, device);
                let found = matrix.spmm_transposed(y_device);
                let expected = case.reference().spmm_transposed(&widen(&y), batch);
                assert_close(&text, &found, [batch, k], &expected, tolerance);
            });
        }
    }
}

#[test]
fn sddmm_equals_the_reference() {
    for backend in backends() {
        for routines in routines::sddmm(&backend) {
            let (shapes, tolerance) = how_to_test(&backend, routines.sddmm.name());
            for_each_problem(&backend, shapes, |text, case, batch, rng| {
                let text = format!("{} of {text}", routines.sddmm);
                let ([m, k], device) = (case.shape, &backend.device);
                let (x, y) = (uniform(batch * k, rng), uniform(batch * m, rng));
                let (matrix, y_device, x_device) = (
                    case.sparse(device).with_routines(routines),
                    tensor2(&y, [batch, m], device),
                    tensor2(&x, [batch, k], device),
                );
                poison(case.nnz(), device);
                let found = matrix.sddmm(y_device, x_device);
                let expected = case.reference().sddmm(&widen(&y), &widen(&x), batch);
                assert_close(&text, found.values(), [case.nnz()], &expected, tolerance);
                assert_eq!(*found.pattern(), case.pattern(), "{text}: coordinates");
            });
        }
    }
}

/// A batch that routines of the sampled product cut into parts: by as many as the device likes, by
/// two that add up several tiles each, and by none. Some rows are empty, one is long.
#[test]
fn sddmm_of_parts_of_a_batch_equals_the_reference() {
    let mut rng = ChaCha8Rng::seed_from_u64(15);
    for shape in [[41, 602], [290, 30]] {
        let [m, k] = shape;
        let long_row = (0..k).map(|col| (7, col));
        let scattered = (0..m * k).step_by(11).map(|flat| (flat / k, flat % k));
        let entries = long_row.chain(scattered.filter(|(row, _)| row % 5 != 3));
        let case = Case::new(format!("{m}x{k}"), shape, entries, &mut rng);
        for batch in [257, 1030] {
            sddmm_of_parts(&case, batch, &mut rng);
        }
    }
}

fn sddmm_of_parts(case: &Case, batch: usize, rng: &mut ChaCha8Rng) {
    let [m, k] = case.shape;
    let (x, y) = (uniform(batch * k, rng), uniform(batch * m, rng));
    let expected = case.reference().sddmm(&widen(&y), &widen(&x), batch);
    for backend in backends() {
        let device = &backend.device;
        let (x, y) = (
            tensor2(&x, [batch, k], device),
            tensor2(&y, [batch, m], device),
        );
        let splitting = routines::sddmm(&backend).into_iter().filter(|routines| {
            matches!(
                routines.sddmm,
                SddmmRoutine::RowTile | SddmmRoutine::RowVector
            )
        });
        for routines in splitting {
            for parts in [10_000, 2, 0] {
                let routines = Routines {
                    panel_bytes: parts * case.nnz() * size_of::<f32>(),
                    ..routines
                };
                let text = format!(
                    "{} of {} at batch {batch} in up to {parts} parts on {}",
                    routines.sddmm, case.name, backend.name
                );
                poison(case.nnz(), device);
                let matrix = case.sparse(device).with_routines(routines);
                let run = || matrix.sddmm(y.clone(), x.clone());
                let found = run();
                assert_close(&text, found.values(), [case.nnz()], &expected, TOLERANCE);
                assert_bits(&text, run().values(), found.values());
            }
        }
    }
}

/// A problem that is large enough to be measured, which the others are not: whatever is chosen is
/// right.
#[test]
fn a_measured_choice_equals_the_reference() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let (shape, batch) = ([500, 520], 300);
    let case = Case::random(shape, 120_000, &mut rng);
    let reference = case.reference();
    let [m, k] = shape;
    let (x, y) = (uniform(batch * k, &mut rng), uniform(batch * m, &mut rng));
    let (wide_x, wide_y) = (widen(&x), widen(&y));
    for backend in backends() {
        let device = &backend.device;
        let reduced = Routines {
            reduced_precision: true,
            ..Default::default()
        };
        let dense = if backend.name == "cuda" {
            2e-2
        } else {
            TOLERANCE
        };
        let matrix = case.sparse(device);
        let choices = [
            ("measured", matrix.clone(), TOLERANCE),
            ("measured again", matrix.clone(), TOLERANCE),
            ("at reduced precision", matrix.with_routines(reduced), dense),
        ];
        for (what, matrix, tolerance) in choices {
            let text = format!("{what} on {}", backend.name);
            let (x, y) = (
                tensor2(&x, [batch, k], device),
                tensor2(&y, [batch, m], device),
            );
            let found = matrix.spmm(x.clone());
            let expected = reference.spmm(&wide_x, batch);
            assert_close(&text, &found, [batch, m], &expected, tolerance);
            let found = matrix.spmm_transposed(y.clone());
            let expected = reference.spmm_transposed(&wide_y, batch);
            assert_close(&text, &found, [batch, k], &expected, tolerance);
            let found = matrix.sddmm(y, x);
            let expected = reference.sddmm(&wide_y, &wide_x, batch);
            assert_close(&text, found.values(), [case.nnz()], &expected, tolerance);
        }
    }
}

/// More cubes than one axis of a launch grid may have on most devices.
#[test]
fn more_rows_than_a_grid_axis() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let case = Case::random([70_000, 3], 9_000, &mut rng);
    let reference = case.reference();
    for backend in backends() {
        let device = &backend.device;
        for batch in [1, 5] {
            let text = format!("70 000 rows at batch {batch} on {}", backend.name);
            let [m, k] = case.shape;
            let matrix = case.sparse(device);
            let (x, y) = (uniform(batch * k, &mut rng), uniform(batch * m, &mut rng));
            let (dense_x, dense_y) = (
                tensor2(&x, [batch, k], device),
                tensor2(&y, [batch, m], device),
            );
            let (x, y) = (widen(&x), widen(&y));

            let found = matrix.spmm(dense_x.clone());
            assert_close(
                &text,
                &found,
                [batch, m],
                &reference.spmm(&x, batch),
                TOLERANCE,
            );
            let found = matrix.spmm_transposed(dense_y.clone());
            let expected = reference.spmm_transposed(&y, batch);
            assert_close(&text, &found, [batch, k], &expected, TOLERANCE);
            let found = matrix.sddmm(dense_y, dense_x);
            let expected = reference.sddmm(&y, &x, batch);
            assert_close(&text, found.values(), [case.nnz()], &expected, TOLERANCE);
        }
    }
}

/// A batch beyond the limit of a launch grid, which a batch of tokens easily is.
#[test]
fn more_samples_than_a_grid_axis() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let case = Case::random([3, 5], 8, &mut rng);
    let (batch, [m, k]) = (70_001, case.shape);
    let (x, y) = (uniform(batch * k, &mut rng), uniform(batch * m, &mut rng));
    for backend in backends() {
        let device = &backend.device;
        let text = format!("70 001 samples on {}", backend.name);
        let matrix = case.sparse(device);
        let reference = case.reference();
        let (dense_x, dense_y) = (
            tensor2(&x, [batch, k], device),
            tensor2(&y, [batch, m], device),
        );

        let found = matrix.spmm(dense_x.clone());
        let expected = reference.spmm(&widen(&x), batch);
        assert_close(&text, &found, [batch, m], &expected, TOLERANCE);
        let found = matrix.spmm_transposed(dense_y.clone());
        let expected = reference.spmm_transposed(&widen(&y), batch);
        assert_close(&text, &found, [batch, k], &expected, TOLERANCE);
        // The batch is a loop here, and Mesa's software Vulkan ends every shader after 65 535 turns.
        let batch = if backend.name == "wgpu" {
            60_000
        } else {
            batch
        };
        let part = |tensor: Tensor<2>| tensor.narrow(0, 0, batch);
        let found = matrix.sddmm(part(dense_y), part(dense_x));
        let expected = reference.sddmm(&widen(&y[..batch * m]), &widen(&x[..batch * k]), batch);
        assert_close(&text, found.values(), [case.nnz()], &expected, TOLERANCE);
    }
}
