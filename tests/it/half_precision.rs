//! Half precision that overflows or stalls because sums are kept in it, or that works in the
//! forward pass only: f16 and bf16 operands, f32 sums, in all three products.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::Param;
use burn::tensor::{DType, Device, Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use crate::support::{
    Backend, Case, assert_close, backends, floats, panic_text, routines, uniform,
};

const ENTRIES: usize = 2000;
const WIDTH: usize = 4096;
const TOLERANCE: f64 = 2e-2;

/// Back ends and the half types that they compute in.
fn half_backends() -> Vec<(Backend, DType)> {
    let mut found = Vec::new();
    for dtype in [DType::F16, DType::BF16] {
        for backend in backends() {
            match backend.supports(dtype) {
                true => found.push((backend, dtype)),
                false => eprintln!("{} does not support {dtype:?}", backend.name),
            }
        }
    }
    found
}

fn half<const D: usize>(
    numbers: &[f32],
    dims: [usize; D],
    dtype: DType,
    device: &Device,
) -> Tensor<D> {
    let data = TensorData::new(numbers.to_vec(), dims).convert_dtype(dtype);
    Tensor::from_data(data, (device, dtype))
}

/// Numbers as they are after rounding to `dtype`, which is not what the tests are about.
fn rounded(numbers: &[f32], dtype: DType) -> (Vec<f32>, Vec<f64>) {
    let data = TensorData::new(numbers.to_vec(), [numbers.len()]).convert_dtype(dtype);
    let numbers: Vec<f32> = data.iter::<f32>().collect();
    let wide = numbers.iter().map(|&number| f64::from(number)).collect();
    (numbers, wide)
}

/// Factors that climb to 75 000 on the way to 25 000: the former is no f16, the latter is.
fn climbing() -> Vec<f32> {
    (0..ENTRIES)
        .map(|entry| if entry < ENTRIES / 2 { 100.0 } else { -66.0 })
        .collect()
}

/// A row of 2000 entries between 0.5 and 1 in a width of 4096.
fn long_row(dtype: DType) -> Case {
    let row = (0..ENTRIES).map(|entry| (1, 2 * entry + 1));
    let mut rng = ChaCha8Rng::seed_from_u64(41);
    let case = Case::new("long row", [3, WIDTH], row, &mut rng);
    let values: Vec<f32> = case
        .values
        .iter()
        .map(|value| 0.5 + 0.5 * value.abs())
        .collect();
    case.with_values(&rounded(&values, dtype).0)
}

fn transposed(case: &Case) -> Case {
    let mut entries: Vec<_> = case
        .coordinates
        .iter()
        .zip(&case.values)
        .map(|(&(row, col), &value)| ((col, row), value))
        .collect();
    entries.sort_by_key(|&(at, _)| at);
    Case {
        name: format!("transposed {}", case.name),
        shape: [case.shape[1], case.shape[0]],
        coordinates: entries.iter().map(|&(at, _)| at).collect(),
        values: entries.iter().map(|&(_, value)| value).collect(),
    }
}

fn matrix(case: &Case, dtype: DType, device: &Device) -> SparseTensor {
    let values = half(&case.values, [case.nnz()], dtype, device);
    SparseTensor::new(values, DevicePattern::new(case.pattern(), device))
}

/// The routines that promise sums in f32: not those composed of Burn's operations or dense products,
/// whose sums are Burn's, nor atomic additions, which are made in the type of the output.
fn exact(routines: Vec<Routines>) -> impl Iterator<Item = Routines> {
    routines.into_iter().filter(|routines| {
        !matches!(
            routines.spmm,
            SpmmRoutine::Composed | SpmmRoutine::CooAtomic | SpmmRoutine::Panel
        ) && !matches!(routines.sddmm, SddmmRoutine::Composed | SddmmRoutine::Panel)
    })
}

#[test]
fn sums_over_a_long_row_or_column() {
    for (backend, dtype) in half_backends() {
        let device = &backend.device;
        let case = long_row(dtype);
        let mut x = vec![1.0; WIDTH];
        for (factor, &(_, col)) in climbing().iter().zip(&case.coordinates) {
            x[col] = *factor;
        }
        let (x, wide) = rounded(&x, dtype);
        let expected = case.reference().spmm(&wide, 1);
        assert!(expected[1] > 2e4 && expected[1] < 6e4);
        for routines in exact(routines::spmm(&backend)) {
            let text = format!("{} in {dtype:?} on {}", routines.spmm, backend.name);
            let found = matrix(&case, dtype, device).with_routines(routines);
            let found = found.spmm(half(&x, [1, WIDTH], dtype, device));
            assert_eq!(found.dtype(), dtype, "{text}");
            assert_close(&text, &found, [1, 3], &expected, TOLERANCE);

            let found = matrix(&transposed(&case), dtype, device).with_routines(routines);
            let found = found.spmm_transposed(half(&x, [1, WIDTH], dtype, device));
            assert_close(
                &format!("transposed {text}"),
                &found,
                [1, 3],
                &expected,
                TOLERANCE,
            );
        }
    }
}

#[test]
fn sums_over_a_long_batch() {
    for (backend, dtype) in half_backends() {
        let device = &backend.device;
        let case = Case::new(
            "corners",
            [2, 3],
            [(0, 0), (1, 2)],
            &mut ChaCha8Rng::seed_from_u64(1),
        );
        let factors = climbing();
        let y: Vec<f32> = factors
            .iter()
            .flat_map(|&factor| [factor, -factor])
            .collect();
        let (y, wide_y) = rounded(&y, dtype);
        let (x, wide_x) = rounded(&vec![0.75; ENTRIES * 3], dtype);
        let expected = case.reference().sddmm(&wide_y, &wide_x, ENTRIES);
        // It would round the sum after every tile of samples, and refuses to.
        let exact = exact(routines::sddmm(&backend))
            .filter(|routines| routines.sddmm != SddmmRoutine::RowBlock);
        for routines in exact {
            let text = format!("{} in {dtype:?} on {}", routines.sddmm, backend.name);
            let found = matrix(&case, dtype, device).with_routines(routines).sddmm(
                half(&y, [ENTRIES, 2], dtype, device),
                half(&x, [ENTRIES, 3], dtype, device),
            );
            assert_eq!(found.dtype(), dtype, "{text}");
            assert_close(&text, found.values(), [2], &expected, TOLERANCE);
        }
    }
}

/// A layer in half precision: output and all gradients, in its own type.
#[test]
fn layer_forward_and_backward() {
    let mut rng = ChaCha8Rng::seed_from_u64(43);
    let (batch, [m, k]) = (4, [24, WIDTH]);
    for (backend, dtype) in half_backends() {
        let device = backend.autodiff();
        let text = |what: &str| format!("{what} in {dtype:?} on {}", backend.name);
        let mut case = Case::random([m, k], 12_000, &mut rng);
        case.values = rounded(&case.values, dtype).0;
        let (x, wide_x) = rounded(&uniform(batch * k, &mut rng), dtype);
        let (c, wide_c) = rounded(&uniform(batch * m, &mut rng), dtype);
        let reference = case.reference();

        let layer = SparseLinear {
            values: Param::from_tensor(half(&case.values, [case.nnz()], dtype, &device)),
            pattern: DevicePattern::new(case.pattern(), &device),
            bias: Some(Param::from_tensor(half(&vec![0.5; m], [m], dtype, &device))),
            routines: Routines::default(),
        };
        let input = half(&x, [batch, k], dtype, &device).require_grad();
        let y = layer.forward(input.clone());
        assert_eq!(y.dtype(), dtype);
        let expected: Vec<f64> = reference
            .spmm(&wide_x, batch)
            .iter()
            .map(|y| y + 0.5)
            .collect();
        assert_close(&text("output"), &y, [batch, m], &expected, TOLERANCE);

        let grads = (y * half(&c, [batch, m], dtype, &device)).sum().backward();
        let values = layer.values.grad(&grads).unwrap();
        let input = input.grad(&grads).unwrap();
        assert_eq!((values.dtype(), input.dtype()), (dtype, dtype));
        let expected = reference.sddmm(&wide_c, &wide_x, batch);
        assert_close(
            &text("value gradient"),
            &values,
            [case.nnz()],
            &expected,
            TOLERANCE,
        );
        let expected = reference.spmm_transposed(&wide_c, batch);
        assert_close(
            &text("input gradient"),
            &input,
            [batch, k],
            &expected,
            TOLERANCE,
        );
    }
}

/// A layer in f32 whose input is in half precision: an output in that, gradients in f32.
#[test]
fn mixed_precision_forward_and_backward() {
    let mut rng = ChaCha8Rng::seed_from_u64(45);
    let (batch, [m, k]) = (6, [40, 300]);
    for (backend, dtype) in half_backends() {
        let device = backend.autodiff();
        let text = |what: &str| format!("{what} with {dtype:?} on {}", backend.name);
        let config = SparseLinearConfig::new(k, m)
            .with_sparsity(0.8)
            .with_seed(Some(3));
        let layer = config.init(&device);
        let values: Vec<f32> = layer.values.val().into_data().iter::<f32>().collect();
        let (_, wide_values) = rounded(&values, dtype);
        let case = Case {
            name: "layer".to_string(),
            shape: [m, k],
            coordinates: layer.pattern().iter().collect(),
            values: wide_values.iter().map(|&value| value as f32).collect(),
        };
        let bias: Vec<f32> = layer
            .bias
            .as_ref()
            .unwrap()
            .val()
            .into_data()
            .iter()
            .collect();
        let (x, wide_x) = rounded(&uniform(batch * k, &mut rng), dtype);
        let (c, wide_c) = rounded(&uniform(batch * m, &mut rng), dtype);
        let reference = case.reference();
        let product = reference.spmm(&wide_x, batch);
        let expected: Vec<f64> = product
            .iter()
            .enumerate()
            .map(|(at, y)| y + f64::from(bias[at % m]))
            .collect();

        let input = half(&x, [batch, k], dtype, &device).require_grad();
        let y = layer.forward(input.clone());
        assert_eq!(y.dtype(), dtype);
        assert_close(&text("output"), &y, [batch, m], &expected, TOLERANCE);
        let grads = (y * half(&c, [batch, m], dtype, &device)).sum().backward();
        let found = layer.values.grad(&grads).unwrap();
        assert_eq!(found.dtype(), DType::F32);
        assert_eq!(
            layer.bias.as_ref().unwrap().grad(&grads).unwrap().dtype(),
            DType::F32
        );
        let expected = reference.sddmm(&wide_c, &wide_x, batch);
        assert_close(
            &text("value gradient"),
            &found,
            [case.nnz()],
            &expected,
            TOLERANCE,
        );
        let found = input.grad(&grads).unwrap();
        let expected = reference.spmm_transposed(&wide_c, batch);
        assert_close(
            &text("input gradient"),
            &found,
            [batch, k],
            &expected,
            TOLERANCE,
        );

        let masked = config.init_masked(&device);
        let masked = masked.forward(half(&x, [batch, k], dtype, &device));
        let sparse = layer.forward(half(&x, [batch, k], dtype, &device));
        assert_close(
            &text("masked"),
            &masked,
            [batch, m],
            &floats(&sparse),
            2.0 * TOLERANCE,
        );
    }
}

/// Products of large and small numbers stay in range.
#[test]
fn large_values() {
    for (backend, dtype) in half_backends() {
        let device = &backend.device;
        let case = Case::new(
            "row",
            [1, 8],
            (0..8).map(|col| (0, col)),
            &mut ChaCha8Rng::seed_from_u64(1),
        );
        let case = case.with_values(&rounded(&[1e4; 8], dtype).0);
        let (x, wide) = rounded(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -4.0], dtype);
        let found = matrix(&case, dtype, device).spmm(half(&x, [1, 8], dtype, device));
        let expected = case.reference().spmm(&wide, 1);
        assert_close(
            &format!("{dtype:?} on {}", backend.name),
            &found,
            [1, 1],
            &expected,
            TOLERANCE,
        );
    }
}

#[test]
fn mixed_types_are_refused_by_name() {
    let mut rng = ChaCha8Rng::seed_from_u64(47);
    let case = Case::random([3, 4], 5, &mut rng);
    for (backend, dtype) in half_backends() {
        let device = &backend.device;
        let refusal = |f: &dyn Fn()| panic_text(catch_unwind(AssertUnwindSafe(f)).unwrap_err());
        let assert_names = |text: String| {
            for name in ["F32".to_string(), format!("{dtype:?}")] {
                assert!(text.contains(&name), "no {name} in: {text}");
            }
        };
        let (wide, narrow) = (case.sparse(device), matrix(&case, dtype, device));
        let x = |dtype| half(&[1.0; 8], [2, 4], dtype, device);
        let y = |dtype| half(&[1.0; 6], [2, 3], dtype, device);
        assert_names(refusal(&|| drop(wide.spmm(x(dtype)))));
        assert_names(refusal(&|| drop(narrow.spmm(x(DType::F32)))));
        assert_names(refusal(&|| drop(wide.spmm_transposed(y(dtype)))));
        assert_names(refusal(&|| drop(wide.sddmm(y(dtype), x(DType::F32)))));
        let layer = SparseLinear {
            values: Param::from_tensor(half(&case.values, [5], dtype, device)),
            pattern: DevicePattern::new(case.pattern(), device),
            bias: None,
            routines: Routines::default(),
        };
        assert_names(refusal(&|| drop(layer.forward(x(DType::F32)))));
    }
}

/// Conversion to and from dense keeps the type and the numbers.
#[test]
fn dense_and_back() {
    let numbers = [0.0f32, 1.5, 0.0, -2.25, 0.0, 0.125];
    for (backend, dtype) in half_backends() {
        let dense = half(&numbers, [2, 3], dtype, &backend.device);
        let sparse = SparseTensor::from_dense(dense.clone()).unwrap();
        assert_eq!((sparse.nnz(), sparse.dtype()), (3, dtype));
        assert_eq!(floats(&sparse.to_dense()), floats(&dense));
        assert_eq!(sparse.to_dense().dtype(), dtype);
    }
}

/// A type that the device has no arithmetic for is named, whatever the routine; zeros are no answer.
#[test]
fn unsupported_types_are_refused_by_every_routine() {
    let mut rng = ChaCha8Rng::seed_from_u64(78);
    let case = Case::random([3, 4], 6, &mut rng);
    for backend in backends().into_iter().filter(Backend::is_cube) {
        for dtype in [DType::F16, DType::BF16] {
            if backend.supports(dtype) {
                continue;
            }
            for spmm in [
                SpmmRoutine::Auto,
                SpmmRoutine::Composed,
                SpmmRoutine::RowUnit,
            ] {
                let routines = Routines {
                    spmm,
                    ..Default::default()
                };
                let attempt = catch_unwind(AssertUnwindSafe(|| {
                    let device = &backend.device;
                    let x = half(&[1.0; 4], [1, 4], dtype, device);
                    floats(&matrix(&case, dtype, device).with_routines(routines).spmm(x))
                }));
                assert!(attempt.is_err(), "{spmm} in {dtype:?} on {}", backend.name);
            }
        }
    }
}
