//! Reading rows and columns of either width inside a kernel.

use cubecl::prelude::*;

/// The coordinate at `entry`, stored two to a word if `packed`.
#[cube]
pub(super) fn coordinate(words: &Tensor<u32>, entry: usize, #[comptime] packed: bool) -> usize {
    let word = coordinate_word(words, entry, 0usize, packed);
    decode_coordinate(word, entry, 0usize, packed)
}

/// The word that holds the coordinate at `first + ahead`.
///
/// A kernel that loads words early and decodes them late has the loads in flight meanwhile. Lists
/// are padded, see [`IndexWidth`](crate::ops::IndexWidth), so that it may load past the end.
#[cube]
pub(super) fn coordinate_word(
    words: &Tensor<u32>,
    first: usize,
    #[comptime] ahead: usize,
    #[comptime] packed: bool,
) -> u32 {
    if packed {
        // With an even distance, one address serves all distances.
        if comptime!(ahead.is_multiple_of(2)) {
            words[first / 2 + comptime!(ahead / 2)]
        } else {
            words[(first + ahead) / 2]
        }
    } else {
        words[first + ahead]
    }
}

/// The coordinate at `first + ahead` in its word.
#[cube]
pub(super) fn decode_coordinate(
    word: u32,
    first: usize,
    #[comptime] ahead: usize,
    #[comptime] packed: bool,
) -> usize {
    if packed {
        let half = (first as u32 + comptime!(ahead as u32 % 2)) & 1;
        usize::cast_from((word >> (half * 16)) & 0xffff)
    } else {
        usize::cast_from(word)
    }
}

/// The first position in `offsets[..count]` whose successor exceeds `entry`: the row of an entry.
#[cube]
pub(super) fn row_of(offsets: &Shared<[u32]>, count: usize, entry: u32) -> usize {
    let mut low = 0usize;
    let mut high = count;
    while low < high {
        let middle = (low + high) / 2;
        if offsets[middle + 1] > entry {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
