//! The products at sizes that are shared among threads, against sums in `f64`, with the same bits
//! for any number of threads.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::scatter::{self, spmm_transposed};
use super::sddmm::sddmm;
use super::split;
use super::spmm::{Rows, Values, spmm};
use crate::pattern::Pattern;

const SHAPE: [usize; 2] = [300, 200];

/// One to three tiles, full and not, and enough of them for the values to be copied.
const BATCHES: [usize; 8] = [1, 2, 4, 7, 16, 33, 64, 100];

#[test]
fn equal_the_reference_on_any_number_of_threads() {
    let [m, k] = SHAPE;
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    // Rows and columns from nearly empty to nearly full.
    let mask: Vec<_> = (0..m * k)
        .map(|flat| rng.random_range(0..m * k) >= flat / k * (flat % k))
        .collect();
    let pattern = Pattern::from_mask(SHAPE, &mask).unwrap();
    let transposed = pattern.transposed();
    let signed = |list: &[u32]| list.iter().map(|&i| i as i32).collect::<Vec<_>>();
    let offsets =
        |pattern: &Pattern| -> Vec<_> { pattern.row_offsets().iter().map(|&i| i as i32).collect() };
    let (row_offsets, col_offsets) = (offsets(&pattern), offsets(&transposed.pattern));
    let (rows_by_col, cols_by_row) = (signed(transposed.pattern.cols()), signed(pattern.cols()));
    let slots: Vec<_> = transposed.slots.iter().map(|&slot| slot as i32).collect();
    let by_row = Rows {
        offsets: &row_offsets,
        cols: &cols_by_row,
    };
    let by_col = Rows {
        offsets: &col_offsets,
        cols: &rows_by_col,
    };
    for batch in BATCHES {
        let mut draw = |count: usize| -> Vec<f32> {
            (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
        };
        let (values, x, y) = (draw(pattern.nnz()), draw(batch * k), draw(batch * m));
        let products = || {
            [
                spmm(by_row, Values::InOrder(&values), &x, batch, k),
                spmm(by_col, Values::At(&values, &slots), &y, batch, m),
                spmm_transposed(by_row, &values, &y, batch, k),
                sddmm(by_row, &y, &x, batch, k),
            ]
        };
        let on_threads = |count| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build();
            pool.unwrap().install(products)
        };
        let found = on_threads(1);
        for threads in [2, 5, 64] {
            let again = on_threads(threads);
            assert!(
                found == again,
                "batch {batch}: other bits on {threads} threads"
            );
        }

        let mut expected = [batch * m, batch * k, pattern.nnz()].map(|count| vec![0.0; count]);
        for sample in 0..batch {
            for (slot, (row, col)) in pattern.iter().enumerate() {
                let value = f64::from(values[slot]);
                let (x, y) = (x[sample * k + col], y[sample * m + row]);
                expected[0][sample * m + row] += value * f64::from(x);
                expected[1][sample * k + col] += value * f64::from(y);
                expected[2][slot] += f64::from(x) * f64::from(y);
            }
        }
        for (found, expected) in found
            .iter()
            .zip([0, 1, 1, 2].map(|product| &expected[product]))
        {
            assert_eq!(found.len(), expected.len());
            for (&found, &expected) in found.iter().zip(expected) {
                let error = (f64::from(found) - expected).abs();
                assert!(error < 1e-4, "batch {batch}: {found} and not {expected}");
            }
        }
    }
    assert_eq!(
        split::threads(pattern.nnz(), 1),
        1,
        "one thread is among the cases"
    );
    let many = *BATCHES.last().unwrap();
    assert!(split::is_shared(pattern.nnz(), many), "and several");
}

#[test]
fn the_order_of_the_transposed_product() {
    for (nnz, batch, by_rows) in [
        (1 << 17, 1, false),
        (1 << 18, 1, true),
        (1 << 18, 16, false),
        (1 << 20, 64, true),
        (1 << 20, 65, false),
    ] {
        assert_eq!(scatter::is_faster(nnz, batch), by_rows, "{nnz} at {batch}");
    }
}
