//! Comparison with a reference, by norm.

use burn::tensor::Tensor;

use super::devices::Backend;
use super::host::floats;

/// Norm of the difference over the norm of the reference; the former alone if the latter is 0.
fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    let norm = |squares: f64| squares.sqrt();
    let difference = norm(
        found
            .iter()
            .zip(expected)
            .map(|(found, expected)| (found - expected).powi(2))
            .sum(),
    );
    match norm(expected.iter().map(|expected| expected.powi(2)).sum()) {
        0.0 => difference,
        size => difference / size,
    }
}

/// Asserts the shape of `found` and its distance to the reference.
///
/// `case` says which input on which device; NaN never passes.
#[track_caller]
pub fn assert_close<const D: usize>(
    case: &str,
    found: &Tensor<D>,
    dims: [usize; D],
    expected: &[f64],
    tolerance: f64,
) {
    assert_eq!(found.dims(), dims, "{case}: shape");
    assert_within(case, &floats(found), expected, tolerance);
}

/// Asserts the distance of numbers to their reference.
#[track_caller]
pub fn assert_within(case: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{case}: number of elements");
    let error = relative_error(found, expected);
    assert!(
        error <= tolerance,
        "{case}: relative error {error:.3e}, allowed {tolerance:.0e}; first numbers {:?}, \
         expected {:?}",
        &found[..found.len().min(4)],
        &expected[..expected.len().min(4)]
    );
}

/// Asserts that two tensors hold the same bits.
#[track_caller]
pub fn assert_bits<const D: usize>(case: &str, found: &Tensor<D>, expected: &Tensor<D>) {
    assert_eq!(found.dims(), expected.dims(), "{case}: shape");
    let (found, expected) = (found.clone().into_data(), expected.clone().into_data());
    assert_eq!(found.dtype(), expected.dtype(), "{case}: data type");
    assert!(
        found.as_bytes() == expected.as_bytes(),
        "{case}: {found} is not {expected}"
    );
}

/// Asserts that two runs of one computation agree: bit for bit on Flex. On a GPU Burn may tune and
/// fuse a kernel of its own differently from one time to the next, which moves the last bits, and on
/// CUDA those of a dense product in reduced precision.
#[track_caller]
pub fn assert_same_run(backend: &Backend, found: f64, again: f64, case: &str) {
    match backend.is_cube() {
        true => assert_within(
            case,
            &[found],
            &[again],
            backend.dense_tolerance().max(1e-4),
        ),
        false => assert_eq!(found.to_bits(), again.to_bits(), "{case}"),
    }
}
