use rand::Rng;

/// Rounds of the network. Four make a permutation that looks random (Luby and Rackoff, 1988) if the
/// halves are long; small halves mix better with more.
const ROUNDS: usize = 8;

/// A random order of `0..len` that needs no memory: any place of it can be asked for.
///
/// A Feistel network permutes the numbers of an even number of bits, and is applied again until the
/// result is below `len` (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains",
/// 2002), fewer than four times on average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Draws the order of `0..len`.
    pub fn new(len: u64, rng: &mut impl Rng) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Self {
            len,
            half_bits: bits.div_ceil(2),
            keys: std::array::from_fn(|_| rng.next_u64()),
        }
    }

    /// The number at `index`.
    ///
    /// # Panics
    ///
    /// Panics if `index` is not below the length.
    pub fn at(&self, index: u64) -> u64 {
        assert!(
            index < self.len,
            "Permutation::at: the index {index} is not below the length {}",
            self.len
        );
        let mut number = self.network(index);
        while number >= self.len {
            number = self.network(number);
        }
        number
    }

    fn network(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

/// The finalizer of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn order(len: u64, seed: u64) -> Vec<u64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let permutation = Permutation::new(len, &mut rng);
        (0..len).map(|index| permutation.at(index)).collect()
    }

    #[test]
    fn every_number_comes_once() {
        for len in (0..300).chain([4095, 4096, 4097, 100_003]) {
            let mut numbers = order(len, len);
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..len), "length {len}");
        }
    }

    #[test]
    fn the_order_looks_random() {
        let numbers = order(10_000, 1);
        let fixed = (0..10_000).filter(|&i| numbers[i as usize] == i).count();
        assert!(fixed < 8, "{fixed} numbers stay where they were");

        // Neighbours differ by a third of the length on average.
        let steps = numbers.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
        let mean = steps.sum::<u64>() as f64 / 9_999.0;
        assert!((mean - 10_000.0 / 3.0).abs() < 100.0, "{mean}");
        assert_ne!(numbers, order(10_000, 2));
    }

    #[test]
    fn small_orders_are_all_drawn() {
        let mut counts = std::collections::HashMap::new();
        for seed in 0..6000 {
            *counts.entry(order(3, seed)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(
            counts.values().all(|count| (800..1200).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    #[should_panic(expected = "the index 5 is not below the length 5")]
    fn there_is_nothing_behind_the_end() {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        Permutation::new(5, &mut rng).at(5);
    }
}
