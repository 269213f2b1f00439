//! Operands and outputs that lie feature-major: the same numbers, by whatever routine.

use burn::tensor::{Device, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use crate::support::layers::{Loss, leaf};
use crate::support::{
    Backend, Case, assert_bits, assert_close, assert_within, backends, floats, poison, routines,
    tensor2, uniform, widen,
};

const TOLERANCE: f64 = 1e-5;
const LAYOUTS: [Layout; 2] = [Layout::BatchMajor, Layout::FeatureMajor];
/// None, some and all samples in whole vectors and in whole tiles.
const BATCHES: [usize; 4] = [1, 33, 64, 256];
/// Those that panels are tested with.
const PANEL_BATCHES: [usize; 2] = [33, 64];

/// `[batch, features]` in this layout.
fn operand(values: &[f32], dims: [usize; 2], layout: Layout, device: &Device) -> Tensor<2> {
    let [batch, features] = dims;
    if layout == Layout::BatchMajor {
        return tensor2(values, dims, device);
    }
    let turned: Vec<f32> = (0..features)
        .flat_map(|feature| values.iter().skip(feature).step_by(features).copied())
        .collect();
    tensor2(&turned, [features, batch], device).swap_dims(0, 1)
}

/// The bound on errors: panels have the precision of Burn's dense products.
fn tolerance(backend: &Backend, panel: bool) -> f64 {
    match panel {
        true => backend.dense_tolerance(),
        false => TOLERANCE,
    }
}

/// Few and many features, one to some tiles of them, an empty and a full row.
fn cases(rng: &mut ChaCha8Rng) -> Vec<Case> {
    let [m, k] = [70, 130];
    let entries = (0..m * k)
        .map(|flat| (flat / k, flat % k))
        .filter(|&(row, col)| row != 3 && (row == 5 || (row * 31 + col * 17) % 9 == 0));
    vec![
        Case::random([5, 3], 8, rng),
        Case::new("rows of many lengths", [m, k], entries, rng),
        Case::random([40, 1900], 6000, rng),
    ]
}

/// Whether these layouts say something new of a routine: all do where it reads and writes both. Panels leave
/// the batch to Burn, which compiles a product for every one: an odd and an even one tell.
fn worth_it(routines: &Routines, layouts: [Layout; 2], batch: usize) -> bool {
    match routines.spmm {
        SpmmRoutine::Panel => PANEL_BATCHES.contains(&batch),
        SpmmRoutine::RowTile | SpmmRoutine::RowVector => true,
        _ => layouts == [Layout::FeatureMajor; 2],
    }
}

#[test]
fn products_of_any_layouts_equal_the_reference() {
    let mut rng = ChaCha8Rng::seed_from_u64(41);
    for case in cases(&mut rng) {
        let [m, k] = case.shape;
        let reference = case.reference();
        for batch in BATCHES {
            let (x, y) = (uniform(batch * k, &mut rng), uniform(batch * m, &mut rng));
            let (wide_x, wide_y) = (widen(&x), widen(&y));
            let expected = [
                reference.spmm(&wide_x, batch),
                reference.spmm_transposed(&wide_y, batch),
            ];
            for backend in backends() {
                let device = &backend.device;
                for input in LAYOUTS {
                    let x = operand(&x, [batch, k], input, device);
                    let y = operand(&y, [batch, m], input, device);
                    for output in LAYOUTS {
                        let text = |routine: &SpmmRoutine| {
                            format!(
                                "{routine} of {} at batch {batch} from {input:?} to {output:?} on {}",
                                case.name, backend.name
                            )
                        };
                        for mut routines in routines::spmm(&backend) {
                            if !worth_it(&routines, [input, output], batch) {
                                continue;
                            }
                            routines.output_layout = output;
                            let matrix = case.sparse(device).with_routines(routines);
                            poison(batch * m, device);
                            let found = matrix.spmm(x.clone());
                            let text = text(&routines.spmm);
                            let bound = tolerance(&backend, routines.spmm == SpmmRoutine::Panel);
                            assert_close(&text, &found, [batch, m], &expected[0], bound);
                        }
                        for mut routines in routines::spmm_transposed(&backend) {
                            if !worth_it(&routines, [input, output], batch) {
                                continue;
                            }
                            routines.input_layout = output;
                            let matrix = case.sparse(device).with_routines(routines);
                            poison(batch * k, device);
                            let found = matrix.spmm_transposed(y.clone());
                            let text = format!("transposed {}", text(&routines.spmm));
                            let bound = tolerance(&backend, routines.spmm == SpmmRoutine::Panel);
                            assert_close(&text, &found, [batch, k], &expected[1], bound);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn sampled_products_of_any_layouts_equal_the_reference() {
    let mut rng = ChaCha8Rng::seed_from_u64(42);
    for case in cases(&mut rng) {
        let [m, k] = case.shape;
        for batch in BATCHES {
            let (x, y) = (uniform(batch * k, &mut rng), uniform(batch * m, &mut rng));
            let expected = case.reference().sddmm(&widen(&y), &widen(&x), batch);
            for backend in backends() {
                let device = &backend.device;
                for (layout_x, layout_y) in [(0, 1), (1, 0), (1, 1)] {
                    let (layout_x, layout_y) = (LAYOUTS[layout_x], LAYOUTS[layout_y]);
                    let x = operand(&x, [batch, k], layout_x, device);
                    let y = operand(&y, [batch, m], layout_y, device);
                    for routines in routines::sddmm(&backend) {
                        let panel = routines.sddmm == SddmmRoutine::Panel;
                        if panel && !PANEL_BATCHES.contains(&batch) {
                            continue;
                        }
                        let text = format!(
                            "{} of {} at batch {batch} of {layout_y:?} and {layout_x:?} on {}",
                            routines.sddmm, case.name, backend.name
                        );
                        poison(case.nnz(), device);
                        let matrix = case.sparse(device).with_routines(routines);
                        let found = matrix.sddmm(y.clone(), x.clone());
                        let bound = tolerance(&backend, panel);
                        assert_close(&text, found.values(), [case.nnz()], &expected, bound);
                    }
                }
            }
        }
    }
}

/// What two layers compute does not depend on the layout of what passes between them.
#[test]
fn two_layers_agree_whatever_lies_between_them() {
    const BATCH: usize = 64;
    let mut rng = ChaCha8Rng::seed_from_u64(43);
    let x = uniform(BATCH * 24, &mut rng);
    for backend in backends() {
        let device = backend.autodiff();
        let layer = |from, to, seed| {
            SparseLinearConfig::new(from, to)
                .with_sparsity(0.7)
                .with_seed(Some(seed))
                .init(&device)
        };
        let run = |layout| {
            let (mut first, mut second) = (layer(24, 48, 1), layer(48, 16, 2));
            first.routines.output_layout = layout;
            second.routines.input_layout = layout;
            let x = leaf(&x, [BATCH, 24], &device);
            let y = second.forward(first.forward(x.clone()).tanh());
            let gradients = Loss::Square.of(y.clone(), &[]).backward();
            let bias = |layer: &SparseLinear| {
                let bias = layer.bias.as_ref().unwrap().val();
                floats(&bias.grad(&gradients).unwrap())
            };
            [
                floats(&y.inner()),
                floats(&x.grad(&gradients).unwrap()),
                floats(&first.values.val().grad(&gradients).unwrap()),
                floats(&second.values.val().grad(&gradients).unwrap()),
                bias(&first),
                bias(&second),
            ]
        };
        let [expected, found] = LAYOUTS.map(run);
        let names = ["output", "gradient of the input", "of the first values"];
        let names = names.into_iter().chain([
            "of the second values",
            "of the first bias",
            "of the second bias",
        ]);
        for ((name, expected), found) in names.zip(&expected).zip(&found) {
            let text = format!("{name} on {}", backend.name);
            assert_within(&text, found, expected, TOLERANCE);
        }
    }
}

#[test]
fn a_feature_major_product_has_the_same_bits_every_time() {
    let mut rng = ChaCha8Rng::seed_from_u64(44);
    let case = Case::random([300, 400], 20_000, &mut rng);
    let x = uniform(256 * 400, &mut rng);
    for backend in backends() {
        let device = &backend.device;
        for mut routines in routines::spmm(&backend) {
            if routines.spmm == SpmmRoutine::CooAtomic {
                continue;
            }
            routines.output_layout = Layout::FeatureMajor;
            let matrix = case.sparse(device).with_routines(routines);
            let run = || matrix.spmm(operand(&x, [256, 400], Layout::FeatureMajor, device));
            let text = format!("{} on {}", routines.spmm, backend.name);
            assert_bits(&text, &run(), &run());
        }
    }
}

/// Some panels, the last of which is cut, and one.
#[test]
fn panels_of_any_number_equal_the_reference() {
    let mut rng = ChaCha8Rng::seed_from_u64(45);
    let ([m, k], batch) = ([150, 90], 40);
    let case = Case::random([m, k], 1500, &mut rng);
    let reference = case.reference();
    let (x, y) = (uniform(batch * k, &mut rng), uniform(batch * m, &mut rng));
    let (wide_x, wide_y) = (widen(&x), widen(&y));
    for backend in backends() {
        let device = &backend.device;
        let panel = |routines: &Routines| routines.spmm == SpmmRoutine::Panel;
        if !routines::spmm(&backend).iter().any(panel) {
            continue;
        }
        for (panel_bytes, layout) in [0, 40_000_000]
            .into_iter()
            .flat_map(|bytes| LAYOUTS.map(|layout| (bytes, layout)))
        {
            let text = format!(
                "panels of {panel_bytes} bytes, {layout:?}, on {}",
                backend.name
            );
            let matrix = case.sparse(device).with_routines(Routines {
                spmm: SpmmRoutine::Panel,
                sddmm: SddmmRoutine::Panel,
                panel_bytes,
                output_layout: layout,
                input_layout: layout,
                ..Default::default()
            });
            let x = operand(&x, [batch, k], layout, device);
            let y = operand(&y, [batch, m], layout, device);
            let dense = tolerance(&backend, true);
            let found = matrix.spmm(x.clone());
            let expected = reference.spmm(&wide_x, batch);
            assert_close(&text, &found, [batch, m], &expected, dense);
            let found = matrix.spmm_transposed(y.clone());
            let expected = reference.spmm_transposed(&wide_y, batch);
            assert_close(&text, &found, [batch, k], &expected, dense);
            let found = matrix.sddmm(y, x);
            let expected = reference.sddmm(&wide_y, &wide_x, batch);
            assert_close(&text, found.values(), [case.nnz()], &expected, dense);
        }
    }
}
