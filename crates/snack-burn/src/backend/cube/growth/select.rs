//! The exact threshold of a panel, digit by digit, and what lies above it.
//!
//! A pass counts a digit of all words whose higher digits are those of the threshold; then one cube
//! finds the digit in which the element of rank `count` lies. After the digits of the key come
//! those of the position, so that of equal keys exactly the lowest positions are taken.

use burn::tensor::{DType, Shape};
use burn_cubecl::ops::numeric::zeros_client;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::word::{KEY_BITS, bits_below, decode, digits, key_of, key_of_magnitude};
use super::{GrowthProblem, UNITS};
use crate::backend::cube::launch::{address_type, strided_grid};

/// Bits of a digit.
const DIGIT: u32 = 11;
/// Values of a digit.
const BINS: usize = 1 << DIGIT;
/// Bins that a unit adds up.
const SHARE: usize = BINS / UNITS as usize;
/// Words that a unit counts.
const WORDS_PER_UNIT: usize = 16;
/// Cubes of a pass at most.
const CUBES: usize = 1024;
/// Words that a unit looks at before it writes those that it takes.
const ITEMS: usize = 8;

/// The threshold as far as it is known, and what goes with it.
const KEY: usize = 0;
const LIMIT: usize = 1;
/// Rank of the last element that is taken, among those that share the known digits.
const REST: usize = 2;
/// Not 0 where fewer elements count than are asked for, so that all are taken.
const ALL: usize = 3;
const STATE: usize = 4;

/// A digit of the key or the position.
#[derive(CubeType, CubeLaunch)]
struct Digit {
    shift: u32,
    width: u32,
    /// Where the counts of this pass are.
    first_bin: usize,
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn count_kernel(
    words: &Tensor<u32>,
    state: &Tensor<u32>,
    bins: &Tensor<Atomic<u32>>,
    floor: u32,
    digit: Digit,
    #[comptime] by_position: bool,
) {
    let counts = Shared::<[Atomic<u32>]>::new_slice(BINS);
    let mut bin = UNIT_POS as usize;
    while bin < BINS {
        counts[bin].store(0u32);
        bin += CUBE_DIM as usize;
    }
    sync_cube();
    let known = digit.shift + digit.width;
    let (key_known, limit_known) = (state[KEY], state[LIMIT]);
    let mut position = ABSOLUTE_POS;
    while position < words.len() {
        let key = key_of(words[position]);
        if key >= floor {
            if by_position {
                let at = position as u32;
                if key == key_known && at >> known == limit_known >> known {
                    counts[digit_of(at, &digit)].fetch_add(1u32);
                }
            } else if key >> known == key_known >> known {
                counts[digit_of(key, &digit)].fetch_add(1u32);
            }
        }
        position += CUBE_COUNT * CUBE_DIM as usize;
    }
    sync_cube();
    let mut bin = UNIT_POS as usize;
    while bin < BINS {
        let count = counts[bin].load();
        if count > 0 {
            bins[digit.first_bin + bin].fetch_add(count);
        }
        bin += CUBE_DIM as usize;
    }
}

#[cube]
fn digit_of(number: u32, digit: &Digit) -> usize {
    ((number >> digit.shift) & ((1u32 << digit.width) - 1)) as usize
}

/// Finds the digit in which the element of rank [`REST`] from the top lies, and its rank in there.
/// Positions count from the lowest.
#[cube(launch_unchecked)]
fn narrow_kernel(
    state: &mut Tensor<u32>,
    bins: &Tensor<Atomic<u32>>,
    count: u32,
    digit: Digit,
    #[comptime] by_position: bool,
    #[comptime] first: bool,
) {
    let mut shares = Shared::<[u32]>::new_slice(UNITS as usize);
    let mut sum = 0u32;
    #[unroll]
    for i in 0..SHARE {
        sum += bins[digit.first_bin + UNIT_POS as usize * SHARE + i].load();
    }
    shares[UNIT_POS as usize] = sum;
    sync_cube();
    if UNIT_POS == 0 && state[ALL] == 0 {
        let mut rest = count;
        if !first {
            rest = state[REST];
        }
        let last = comptime!(UNITS as usize - 1);
        let mut step = 0usize;
        while step <= last && rest > shares[ordered(step, last, by_position)] {
            rest -= shares[ordered(step, last, by_position)];
            step += 1;
        }
        if step > last {
            state[ALL] = 1u32;
        } else {
            let share = digit.first_bin + ordered(step, last, by_position) * SHARE;
            let last = comptime!(SHARE - 1);
            let mut inner = 0usize;
            let mut members = bins[share + ordered(0usize, last, by_position)].load();
            while rest > members {
                rest -= members;
                inner += 1;
                members = bins[share + ordered(inner, last, by_position)].load();
            }
            let value = share - digit.first_bin + ordered(inner, last, by_position);
            state[REST] = rest;
            if by_position {
                state[LIMIT] |= (value as u32) << digit.shift;
            } else {
                state[KEY] |= (value as u32) << digit.shift;
            }
        }
    }
}

/// The place of a step from the top, or from the bottom.
#[cube]
pub(super) fn ordered(step: usize, last: usize, #[comptime] ascending: bool) -> usize {
    if ascending { step } else { last - step }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn collect_kernel(
    words: &Tensor<u32>,
    state: &Tensor<u32>,
    taken: &Tensor<Atomic<u32>>,
    positions: &mut Tensor<i32>,
    gradients: &mut Tensor<f32>,
    floor: u32,
    counter: usize,
) {
    let in_cube = Shared::<[Atomic<u32>]>::new_slice(1usize);
    let mut base = Shared::<[u32]>::new_slice(1usize);
    let (key, limit, all) = (state[KEY], state[LIMIT], state[ALL]);
    let unit = UNIT_POS as usize;
    let block = ITEMS * CUBE_DIM as usize;
    let mut first = CUBE_POS_X as usize * block;
    while first < words.len() {
        if UNIT_POS == 0 {
            in_cube[0].store(0u32);
        }
        sync_cube();
        let mut mine = 0u32;
        for i in 0..ITEMS {
            let position = first + i * CUBE_DIM as usize + unit;
            if is_taken(words, position, floor, key, limit, all) {
                mine += 1;
            }
        }
        let mut place = 0u32;
        if mine > 0 {
            place = in_cube[0].fetch_add(mine);
        }
        sync_cube();
        if UNIT_POS == 0 {
            base[0] = taken[counter].fetch_add(in_cube[0].load());
        }
        sync_cube();
        place += base[0];
        if mine > 0 {
            for i in 0..ITEMS {
                let position = first + i * CUBE_DIM as usize + unit;
                if is_taken(words, position, floor, key, limit, all) {
                    positions[place as usize] = position as i32;
                    gradients[place as usize] = decode(words[position]);
                    place += 1;
                }
            }
        }
        first += CUBE_COUNT_X as usize * block;
    }
}

#[cube]
fn is_taken(
    words: &Tensor<u32>,
    position: usize,
    floor: u32,
    key: u32,
    limit: u32,
    all: u32,
) -> bool {
    let mut taken = false;
    if position < words.len() {
        let found = key_of(words[position]);
        let above = found > key || (found == key && position as u32 <= limit);
        taken = found >= floor && (all != 0 || above);
    }
    taken
}

/// The `count` largest of the words, in any order.
pub(super) fn launch(
    problem: &GrowthProblem,
    words: &CubeTensor,
    count: usize,
    floor: f32,
) -> (CubeTensor, CubeTensor) {
    let (client, device) = (&words.client, &words.device);
    let length = words.meta.num_elements();
    let by_key = digits(KEY_BITS, DIGIT).into_iter();
    let by_position = digits(bits_below(length), DIGIT).into_iter();
    let passes: Vec<_> = by_key
        .map(|digit| (digit, false))
        .chain(by_position.map(|digit| (digit, true)))
        .collect();
    let zeros = |length: usize| {
        let shape = Shape::new([length]);
        zeros_client(client.clone(), device.clone(), shape, DType::U32)
    };
    // The last element counts what was written.
    let counter = passes.len() * BINS;
    let (bins, state) = (zeros(counter + 1), zeros(STATE));
    let floor = key_of_magnitude(floor);
    let cubes = |per_unit: usize| {
        let wanted = length.div_ceil(per_unit * UNITS as usize).min(CUBES);
        strided_grid(client, [wanted, 1])
    };
    for (pass, &((shift, width), by_position)) in passes.iter().enumerate() {
        let digit = || DigitLaunch::new(shift, width, pass * BINS);
        // SAFETY: positions are bounded in the kernels; a digit is below the number of bins; as many
        // elements are written as the threshold lets through, `count` at most.
        unsafe {
            count_kernel::launch_unchecked(
                client,
                cubes(WORDS_PER_UNIT),
                CubeDim::new_1d(UNITS),
                address_type([words]),
                words.clone().into_tensor_arg(),
                state.clone().into_tensor_arg(),
                bins.clone().into_tensor_arg(),
                floor,
                digit(),
                by_position,
            );
            narrow_kernel::launch_unchecked(
                client,
                CubeCount::Static(1, 1, 1),
                CubeDim::new_1d(UNITS),
                state.clone().into_tensor_arg(),
                bins.clone().into_tensor_arg(),
                count as u32,
                digit(),
                by_position,
                pass == 0,
            );
        }
    }
    let (positions, gradients) = problem.outputs(count);
    // SAFETY: as above.
    unsafe {
        collect_kernel::launch_unchecked(
            client,
            cubes(ITEMS),
            CubeDim::new_1d(UNITS),
            address_type([words]),
            words.clone().into_tensor_arg(),
            state.into_tensor_arg(),
            bins.into_tensor_arg(),
            positions.clone().into_tensor_arg(),
            gradients.clone().into_tensor_arg(),
            floor,
            counter,
        );
    }
    (positions, gradients)
}
