//! The sparse tensor as a data structure: coordinates that are wrong or occur twice, conversions
//! that lose entries, operations on the wrong axis, and what a mistake is told.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{Device, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use crate::support::{
    Case, assert_bits, assert_close, backends, flex, floats, panic_text, tensor1, tensor2, uniform,
    widen,
};

fn example(device: &Device) -> SparseTensor {
    let triples = [(1, 2, 6.0f32), (0, 1, 2.0), (1, 0, 4.0)];
    SparseTensor::from_triples([2, 3], triples, Duplicates::Reject, device).unwrap()
}

fn coordinates(matrix: &SparseTensor) -> Vec<(usize, usize)> {
    matrix.pattern().iter().collect()
}

#[test]
fn triples_in_any_order() {
    for backend in backends() {
        let matrix = example(&backend.device);
        assert_eq!((matrix.dims(), matrix.nnz()), ([2, 3], 3));
        assert!((matrix.density() - 0.5).abs() < 1e-12);
        assert_eq!(coordinates(&matrix), [(0, 1), (1, 0), (1, 2)]);
        assert_eq!(floats(matrix.values()), [2.0, 4.0, 6.0]);
        assert_eq!(floats(&matrix.to_dense()), [0.0, 2.0, 0.0, 4.0, 0.0, 6.0]);
        assert_eq!(matrix.device(), backend.device);
    }
}

#[test]
fn triples_that_are_wrong() {
    let device = Device::default();
    let from = |triples: &[(i64, i64)], duplicates| {
        let triples = triples.iter().map(|&(row, col)| (row, col, 1.0f32));
        let result = SparseTensor::from_triples([2, 3], triples, duplicates, &device);
        result.map(|_| ()).unwrap_err().to_string()
    };
    let sum = Duplicates::Sum;
    assert_eq!(
        from(&[(0, 0), (2, 0)], sum),
        "row index 2 at position 1 is out of range, expected 0..2"
    );
    assert_eq!(
        from(&[(0, 0), (1, 1), (0, 3)], sum),
        "column index 3 at position 2 is out of range, expected 0..3"
    );
    assert_eq!(
        from(&[(0, -1)], sum),
        "column index -1 at position 0 is negative, expected 0..3"
    );
    assert_eq!(
        from(&[(1, 1), (0, 0), (1, 1)], Duplicates::Reject),
        "coordinate (1, 1) at position 2 is a repetition, expected every coordinate at most once"
    );
    let huge = SparseTensor::from_triples([1 << 31, 1], [(0, 0, 1.0f32)], sum, &device);
    let text = huge.map(|_| ()).unwrap_err().to_string();
    assert!(
        text.starts_with("shape 2147483648x1 is too large"),
        "{text}"
    );
}

/// Summed at construction, so that no product meets a coordinate twice.
#[test]
fn duplicates_are_summed_once() {
    for backend in backends() {
        let device = &backend.device;
        let twice = [(1, 0, 1.0f32), (0, 1, 5.0), (1, 0, 2.0)];
        let once = [(1, 0, 3.0f32), (0, 1, 5.0)];
        let twice = SparseTensor::from_triples([2, 2], twice, Duplicates::Sum, device).unwrap();
        let once = SparseTensor::from_triples([2, 2], once, Duplicates::Sum, device).unwrap();
        assert_eq!(twice.nnz(), 2);
        assert_eq!(floats(&twice.to_dense()), [0.0, 5.0, 3.0, 0.0]);
        let x = tensor2(&[1.0, 2.0, 3.0, 4.0], [2, 2], device);
        assert_bits(backend.name, &twice.spmm(x.clone()), &once.spmm(x));
        let factors = tensor1(&[2.0, 10.0], device);
        assert_eq!(floats(twice.mul_values(factors).values()), [10.0, 30.0]);
    }
}

#[test]
fn dense_and_back() {
    let mut rng = ChaCha8Rng::seed_from_u64(53);
    for backend in backends() {
        let device = &backend.device;
        for nnz in [0, 1, 17, 99] {
            let case = Case::random([9, 11], nnz, &mut rng);
            let dense: Vec<f32> = case
                .reference()
                .to_dense()
                .iter()
                .map(|&value| value as f32)
                .collect();
            let tensor = tensor2(&dense, [9, 11], device);
            let sparse = SparseTensor::from_dense(tensor.clone()).unwrap();
            assert_eq!(*sparse.pattern(), case.pattern(), "{}", backend.name);
            assert_bits(backend.name, &sparse.to_dense(), &tensor);
        }
        // Strided and tracked: read as it looks, and cut off.
        let tracked = tensor2(&[0.0, 1.0, 2.0, 0.0, 0.0, 3.0], [3, 2], &backend.autodiff());
        let sparse = SparseTensor::from_dense(tracked.require_grad().transpose()).unwrap();
        assert_eq!(coordinates(&sparse), [(0, 1), (1, 0), (1, 2)]);
        assert_eq!(floats(sparse.values()), [2.0, 1.0, 3.0]);
        assert!(!sparse.values().is_tracked());
    }
}

#[test]
fn nan_is_a_non_zero_and_minus_zero_is_not() {
    for backend in backends() {
        let dense = tensor2(
            &[f32::NAN, -0.0, 0.0, f32::INFINITY],
            [2, 2],
            &backend.device,
        );
        let sparse = SparseTensor::from_dense(dense).unwrap();
        assert_eq!(coordinates(&sparse), [(0, 0), (1, 1)]);
        let values = floats(sparse.values());
        assert!(values[0].is_nan() && values[1].is_infinite());
    }
}

#[test]
fn transpose_and_products() {
    let mut rng = ChaCha8Rng::seed_from_u64(59);
    let case = Case::random([13, 8], 37, &mut rng);
    let (x, b) = (uniform(5 * 8, &mut rng), uniform(8 * 6, &mut rng));
    for backend in backends() {
        let device = &backend.device;
        let matrix = case.sparse(device);
        let transposed = matrix.transpose();
        assert_eq!(transposed.dims(), [8, 13]);
        assert_bits(
            backend.name,
            &transposed.to_dense(),
            &matrix.to_dense().transpose(),
        );
        assert_bits(
            backend.name,
            transposed.transpose().values(),
            matrix.values(),
        );

        let x = tensor2(&x, [5, 8], device);
        let expected = floats(&matrix.spmm(x.clone()));
        assert_close(
            backend.name,
            &transposed.spmm_transposed(x),
            [5, 13],
            &expected,
            1e-6,
        );

        let reference = case.reference();
        let columns: Vec<f64> = (0..6)
            .flat_map(|col| (0..8).map(move |row| (row, col)))
            .map(|(row, col)| widen(&b)[row * 6 + col])
            .collect();
        let by_column = reference.spmm(&columns, 6);
        let expected: Vec<f64> = (0..13)
            .flat_map(|row| (0..6).map(move |col| (row, col)))
            .map(|(row, col)| by_column[col * 13 + row])
            .collect();
        let found = matrix.matmul(tensor2(&b, [8, 6], device));
        assert_close(backend.name, &found, [13, 6], &expected, 1e-5);
    }
}

#[test]
fn scaling() {
    for backend in backends() {
        let device = &backend.device;
        let matrix = example(device);
        let dense = |matrix: SparseTensor| floats(&matrix.to_dense());
        assert_eq!(
            dense(matrix.mul_scalar(0.5)),
            [0.0, 1.0, 0.0, 2.0, 0.0, 3.0]
        );
        let rows = matrix.scale_rows(tensor1(&[10.0, -1.0], device));
        assert_eq!(dense(rows), [0.0, 20.0, 0.0, -4.0, 0.0, -6.0]);
        let cols = matrix.scale_cols(tensor1(&[1.0, 10.0, 100.0], device));
        assert_eq!(dense(cols), [0.0, 20.0, 0.0, 4.0, 0.0, 600.0]);
        let each = matrix.mul_values(tensor1(&[1.0, 2.0, 3.0], device));
        assert_eq!(dense(each), [0.0, 2.0, 0.0, 8.0, 0.0, 18.0]);
        let other = matrix.with_values(tensor1(&[7.0, 8.0, 9.0], device));
        assert_eq!(dense(other), [0.0, 7.0, 0.0, 8.0, 0.0, 9.0]);
    }
}

#[test]
fn what_a_tensor_prints() {
    let Some(backend) = flex() else { return };
    let device = format!("{:?}", backend.device);
    let header = |rest: &str| format!("SparseTensor {{ {rest}, dtype: f32, device: {device} }}\n");
    assert_eq!(
        example(&backend.device).to_string(),
        header("shape: [2, 3], nnz: 3, density: 50.00 %") + "  (0, 1) 2\n  (1, 0) 4\n  (1, 2) 6\n"
    );
    let row = (0..12).map(|col| (0, col, 1.0f32));
    let long = SparseTensor::from_triples([1, 12], row, Duplicates::Sum, &backend.device).unwrap();
    let text = long.to_string();
    assert!(text.ends_with("  (0, 7) 1\n  ... 4 more\n"), "{text}");
    let none: [(i64, i64, f32); 0] = [];
    let empty = SparseTensor::from_triples([4, 5], none, Duplicates::Sum, &backend.device).unwrap();
    assert_eq!(
        empty.to_string(),
        header("shape: [4, 5], nnz: 0, density: 0.00 %")
    );
}

/// A mistake is told with the operation, the expected shape and the one found.
#[test]
fn texts_of_wrong_shapes() {
    let Some(backend) = flex() else { return };
    let device = &backend.device;
    let matrix = example(device);
    let zeros = |dims: [usize; 2]| Tensor::<2>::zeros(dims, device);
    let line = |count| Tensor::<1>::zeros([count], device);
    let refusal = |f: &dyn Fn()| panic_text(catch_unwind(AssertUnwindSafe(f)).unwrap_err());
    let texts = [
        (
            refusal(&|| drop(matrix.spmm(zeros([4, 2])))),
            "spmm: expected x of shape [batch, 3], got [4, 2]",
        ),
        (
            refusal(&|| drop(matrix.spmm_transposed(zeros([4, 3])))),
            "spmm_transposed: expected y of shape [batch, 2], got [4, 3]",
        ),
        (
            refusal(&|| drop(matrix.sddmm(zeros([4, 3]), zeros([4, 3])))),
            "sddmm: expected y of shape [batch, 2], got [4, 3]",
        ),
        (
            refusal(&|| drop(matrix.sddmm(zeros([4, 2]), zeros([5, 3])))),
            "sddmm: y and x need the same batch (axis 0), got 4 and 5",
        ),
        (
            refusal(&|| drop(matrix.scale_rows(line(3)))),
            "scale_rows: expected one factor per row, shape [2], got [3]",
        ),
        (
            refusal(&|| drop(matrix.scale_cols(line(2)))),
            "scale_cols: expected one factor per column, shape [3], got [2]",
        ),
        (
            refusal(&|| drop(matrix.with_values(line(4)))),
            "expected one value per non-zero, shape [3], got [4]",
        ),
    ];
    for (found, expected) in texts {
        assert!(
            found.contains(expected),
            "expected `{expected}` in: {found}"
        );
    }
}

/// Operands of different devices are named, not read.
#[test]
fn operands_on_other_devices_are_refused() {
    let all = backends();
    for (from, to) in all.iter().zip(all.iter().skip(1)) {
        let matrix = example(&from.device);
        let x = Tensor::<2>::zeros([4, 3], &to.device);
        let text = panic_text(catch_unwind(AssertUnwindSafe(|| matrix.spmm(x))).unwrap_err());
        assert!(
            text.contains("spmm: x is on"),
            "{} and {}: {text}",
            from.name,
            to.name
        );
        let moved = matrix.to_device(&to.device);
        assert_eq!(moved.device(), to.device);
        assert_eq!(floats(&moved.to_dense()), floats(&matrix.to_dense()));
    }
}

/// A choice made for a matrix that its transpose forgets.
#[test]
fn the_transpose_keeps_the_routines() {
    let mut rng = ChaCha8Rng::seed_from_u64(77);
    let case = Case::random([5, 7], 12, &mut rng);
    for backend in backends() {
        let named = if backend.is_cube() {
            "host_rows"
        } else {
            "row_unit"
        };
        let routines = Routines {
            spmm: named.parse().unwrap(),
            ..Default::default()
        };
        let matrix = case
            .sparse(&backend.device)
            .with_routines(routines)
            .transpose();
        let x = Tensor::<2>::ones([1, 5], &backend.device);
        let refused = catch_unwind(AssertUnwindSafe(|| floats(&matrix.spmm(x))));
        assert!(
            refused.is_err(),
            "{named} does not exist on {}",
            backend.name
        );
    }
}

/// A routine of one direction that is taken for the other.
#[test]
fn the_transposed_product_has_a_routine_of_its_own() {
    let mut rng = ChaCha8Rng::seed_from_u64(79);
    let case = Case::random([5, 7], 12, &mut rng);
    for backend in backends() {
        let elsewhere = if backend.is_cube() {
            "host_rows"
        } else {
            "row_unit"
        };
        let matrix = |spmm: &str, transposed: Option<&str>| {
            case.sparse(&backend.device).with_routines(Routines {
                spmm: spmm.parse().unwrap(),
                spmm_transposed: transposed.map(|name| name.parse().unwrap()),
                ..Default::default()
            })
        };
        let x = || Tensor::<2>::ones([1, 7], &backend.device);
        let y = || Tensor::<2>::ones([1, 5], &backend.device);
        let refuses = |run: &dyn Fn() -> Tensor<2>| {
            catch_unwind(AssertUnwindSafe(|| floats(&run()))).is_err()
        };

        let forward_only = matrix("auto", Some(elsewhere));
        assert!(!refuses(&|| forward_only.spmm(x())), "on {}", backend.name);
        assert!(refuses(&|| forward_only.spmm_transposed(y())));
        let transposed_only = matrix(elsewhere, Some("auto"));
        assert!(refuses(&|| transposed_only.spmm(x())));
        assert!(!refuses(&|| transposed_only.spmm_transposed(y())));
        assert!(refuses(&|| matrix(elsewhere, None).spmm_transposed(y())));
    }
}
