//! A gradient as a word of 32 bits that sorts by magnitude.
//!
//! 0 is an excluded coordinate. Else the low 31 bits, the *key*, are one more than the bits of the
//! magnitude, so that infinities are above all finite gradients and what is undefined above those;
//! the highest bit is the sign.

use cubecl::prelude::*;

/// Bits of an undefined magnitude, whichever it was.
const NAN: u32 = 0x7fc0_0000;
/// Bits of an infinite magnitude.
const INFINITY: u32 = 0x7f80_0000;
const SIGN: u32 = 0x8000_0000;

/// Bits of a key.
pub(super) const KEY_BITS: u32 = 31;

#[cube]
pub(super) fn encode(gradient: f32) -> u32 {
    let bits = u32::reinterpret(gradient);
    let mut magnitude = bits & comptime!(!SIGN);
    if magnitude > INFINITY {
        magnitude = NAN.runtime();
    }
    (magnitude + 1) | (bits & SIGN)
}

#[cube]
pub(super) fn key_of(word: u32) -> u32 {
    word & comptime!(!SIGN)
}

#[cube]
pub(super) fn decode(word: u32) -> f32 {
    f32::reinterpret((key_of(word) - 1) | (word & SIGN))
}

/// The key of a magnitude.
pub(super) fn key_of_magnitude(magnitude: f32) -> u32 {
    (magnitude.to_bits() & !SIGN) + 1
}

/// The digits of numbers of `bits` bits, from the highest: their shifts and widths.
pub(super) fn digits(bits: u32, width: u32) -> Vec<(u32, u32)> {
    let mut digits = Vec::new();
    let mut left = bits;
    while left > 0 {
        let width = width.min(left);
        left -= width;
        digits.push((left, width));
    }
    digits
}

/// Bits of the numbers below `count`.
pub(super) fn bits_below(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_cover_all_bits_once() {
        assert_eq!(digits(31, 11), [(20, 11), (9, 11), (0, 9)]);
        assert_eq!(digits(31, 8), [(23, 8), (15, 8), (7, 8), (0, 7)]);
        assert_eq!(digits(22, 11), [(11, 11), (0, 11)]);
        assert_eq!(digits(1, 11), [(0, 1)]);
        assert_eq!(digits(0, 11), []);
        assert_eq!([0, 1, 2, 3, 4, 5].map(bits_below), [0, 0, 1, 2, 2, 3]);
    }

    #[test]
    fn keys_sort_like_magnitudes() {
        let sorted = [0.0, 1e-45, 1.0, f32::MAX, f32::INFINITY, f32::NAN];
        assert!(sorted.map(key_of_magnitude).is_sorted_by(|a, b| a < b));
        assert_eq!(key_of_magnitude(0.0), 1);
        assert_eq!(key_of_magnitude(-2.0), key_of_magnitude(2.0));
    }
}
