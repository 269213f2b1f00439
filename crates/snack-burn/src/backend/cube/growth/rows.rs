//! The largest words of each row: a cube finds the threshold of a row digit by digit, as
//! [`select`](super::select) does for a whole panel, with the counts in shared memory.

use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::select::ordered;
use super::word::{KEY_BITS, bits_below, decode, digits, key_of};
use super::{GrowthProblem, UNITS};
use crate::backend::cube::launch::{address_type, strided_grid};

/// Bits of a digit.
const DIGIT: u32 = 8;
/// Values of a digit.
const BINS: usize = 1 << DIGIT;

/// What a cube knows of the threshold of its row.
const KEY: usize = 0;
const LIMIT: usize = 1;
const REST: usize = 2;
const KNOWN: usize = 3;

const _: () = assert!(BINS == UNITS as usize);

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn rows_kernel(
    words: &Tensor<u32>,
    starts: &Tensor<u32>,
    positions: &mut Tensor<i32>,
    gradients: &mut Tensor<f32>,
    rows: usize,
    cols: usize,
    #[comptime] col_bits: u32,
) {
    let bins = Shared::<[Atomic<u32>]>::new_slice(BINS);
    let mut known = Shared::<[u32]>::new_slice(KNOWN);
    let mut row = CUBE_POS_X as usize;
    while row < rows {
        let start = starts[row];
        if UNIT_POS == 0 {
            known[KEY] = 0u32;
            known[LIMIT] = 0u32;
            known[REST] = starts[row + 1] - start;
        }
        sync_cube();
        #[unroll]
        for pass in 0..comptime!(KEY_BITS.div_ceil(DIGIT) as usize) {
            let digit = comptime!(digits(KEY_BITS, DIGIT)[pass]);
            narrow(words, &bins, &mut known, row, cols, digit, false);
        }
        #[unroll]
        for pass in 0..comptime!(col_bits.div_ceil(DIGIT) as usize) {
            let digit = comptime!(digits(col_bits, DIGIT)[pass]);
            narrow(words, &bins, &mut known, row, cols, digit, true);
        }
        bins[UNIT_POS as usize].store(0u32);
        sync_cube();
        let (key, limit) = (known[KEY], known[LIMIT]);
        let mut col = UNIT_POS as usize;
        while col < cols {
            let word = words[row * cols + col];
            let found = key_of(word);
            if found > key || (found == key && col as u32 <= limit) {
                let place = (start + bins[0].fetch_add(1u32)) as usize;
                positions[place] = (row * cols + col) as i32;
                gradients[place] = decode(word);
            }
            col += CUBE_DIM as usize;
        }
        sync_cube();
        row += CUBE_COUNT_X as usize;
    }
}

/// Finds one more digit of the threshold of a row.
#[cube]
fn narrow(
    words: &Tensor<u32>,
    bins: &Shared<[Atomic<u32>]>,
    known: &mut Shared<[u32]>,
    row: usize,
    cols: usize,
    #[comptime] digit: (u32, u32),
    #[comptime] by_col: bool,
) {
    let (shift, width) = comptime!(digit);
    let above = comptime!(shift + width);
    bins[UNIT_POS as usize].store(0u32);
    sync_cube();
    let (key_known, limit_known) = (known[KEY], known[LIMIT]);
    let mut col = UNIT_POS as usize;
    while col < cols {
        let key = key_of(words[row * cols + col]);
        if key > 0 {
            let mut number = key;
            let mut shares = key >> above == key_known >> above;
            if by_col {
                number = col as u32;
                shares = key == key_known && number >> above == limit_known >> above;
            }
            if shares {
                let bin = (number >> shift) & comptime!((1u32 << width) - 1);
                bins[bin as usize].fetch_add(1u32);
            }
        }
        col += CUBE_DIM as usize;
    }
    sync_cube();
    if UNIT_POS == 0 {
        let last = comptime!(BINS - 1);
        let mut rest = known[REST];
        let mut step = 0usize;
        let mut members = bins[ordered(0usize, last, by_col)].load();
        while step < last && rest > members {
            rest -= members;
            step += 1;
            members = bins[ordered(step, last, by_col)].load();
        }
        let value = (ordered(step, last, by_col) as u32) << shift;
        known[REST] = rest;
        if by_col {
            known[LIMIT] |= value;
        } else {
            known[KEY] |= value;
        }
    }
    sync_cube();
}

/// The largest words of each row; `starts` says where they are written.
pub(super) fn launch(
    problem: &GrowthProblem,
    words: &CubeTensor,
    starts: CubeTensor,
    total: usize,
) -> (CubeTensor, CubeTensor) {
    let [rows, cols] = problem.panel.dims();
    let (positions, gradients) = problem.outputs(total);
    // SAFETY: a cube writes as many elements as its row has between its starts, which are within the
    // outputs; rows and columns are bounded in the kernel.
    unsafe {
        rows_kernel::launch_unchecked(
            &words.client,
            strided_grid(&words.client, [rows, 1]),
            CubeDim::new_1d(UNITS),
            address_type([words]),
            words.clone().into_tensor_arg(),
            starts.into_tensor_arg(),
            positions.clone().into_tensor_arg(),
            gradients.clone().into_tensor_arg(),
            rows,
            cols,
            bits_below(cols),
        );
    }
    (positions, gradients)
}
