/// A set of the numbers below a limit, one bit each.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: u64,
}

impl Bits {
    pub(super) fn none(len: u64) -> Self {
        let words = usize::try_from(len.div_ceil(64)).expect("the set fits in memory");
        Self {
            words: vec![0; words],
            len,
        }
    }

    pub(super) fn all(len: u64) -> Self {
        let mut bits = Self::none(len);
        bits.words.fill(u64::MAX);
        if let Some(last) = bits.words.last_mut() {
            *last >>= (64 - len % 64) % 64;
        }
        bits
    }

    /// The set with the given words, unless they hold a number that is not below the limit, or are
    /// too few or too many.
    pub(super) fn from_words(words: Vec<u64>, len: u64) -> Option<Self> {
        let last = words.last().copied().unwrap_or(0);
        let fits = words.len() as u64 == len.div_ceil(64);
        let clean = len.is_multiple_of(64) || last >> (len % 64) == 0;
        (fits && clean).then_some(Self { words, len })
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Adds a number below the limit; whether it was absent.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = (&mut self.words[(number / 64) as usize], 1 << (number % 64));
        let absent = *word & bit == 0;
        *word |= bit;
        absent
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        number < self.len && self.words[(number / 64) as usize] >> (number % 64) & 1 == 1
    }

    pub(super) fn count(&self) -> u64 {
        self.words
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }

    /// The members, increasing.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().zip(0..).flat_map(|(&word, index)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                rest &= rest.wrapping_sub(1);
                (bit < 64).then(|| index * 64 + u64::from(bit))
            })
        })
    }

    /// The numbers below the limit that are no members.
    pub(super) fn complement(&self) -> Self {
        let mut bits = Self::all(self.len);
        for (word, taken) in bits.words.iter_mut().zip(&self.words) {
            *word &= !taken;
        }
        bits
    }

    /// The members of either set.
    pub(super) fn union(&self, other: &Self) -> Self {
        debug_assert_eq!(self.len, other.len);
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a | b);
        Self {
            words: words.collect(),
            len: self.len,
        }
    }

    /// The numbers of given ranks among those that are no members. Ranks must be increasing and
    /// below `len - count`.
    pub(super) fn absent(&self, ranks: &[u64]) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(ranks.len());
        let mut ranks = ranks.iter().copied().peekable();
        let mut before = 0;
        for (index, &word) in (0u64..).zip(&self.words) {
            let mut rest = !word;
            let end = before + u64::from(rest.count_ones());
            while let Some(rank) = ranks.next_if(|&rank| rank < end) {
                while before < rank {
                    rest &= rest - 1;
                    before += 1;
                }
                numbers.push(index * 64 + u64::from(rest.trailing_zeros()));
            }
            before = end;
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn agrees_with_a_list_of_flags() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for len in [0u64, 1, 63, 64, 65, 128, 200] {
            for share in [0.0, 0.3, 0.97, 1.0] {
                let mut bits = Bits::none(len);
                let flags: Vec<bool> = (0..len).map(|_| rng.random_bool(share)).collect();
                let of = |wanted| -> Vec<u64> {
                    (0..len).filter(|&i| flags[i as usize] == wanted).collect()
                };
                for number in of(true) {
                    assert!(bits.insert(number));
                    assert!(!bits.insert(number));
                }
                assert_eq!(bits.iter().collect::<Vec<_>>(), of(true));
                assert_eq!(bits.count(), of(true).len() as u64);
                assert!((0..len).all(|i| bits.contains(i) == flags[i as usize]));
                assert!(!bits.contains(len));
                let ranks: Vec<u64> = (0..of(false).len() as u64).collect();
                assert_eq!(bits.absent(&ranks), of(false));
                let some: Vec<u64> = ranks.iter().copied().filter(|_| rng.random()).collect();
                let expected: Vec<u64> = some.iter().map(|&r| of(false)[r as usize]).collect();
                assert_eq!(bits.absent(&some), expected);
                assert!(Bits::from_words(bits.words().to_vec(), len) == Some(bits.clone()));
                assert!(bits.union(&Bits::all(len)) == Bits::all(len));
                assert!(bits.union(&Bits::none(len)) == bits);
                assert_eq!(bits.complement().iter().collect::<Vec<_>>(), of(false));
            }
            assert_eq!(Bits::all(len).count(), len);
        }
    }

    #[test]
    fn refuses_words_that_are_no_set() {
        assert!(Bits::from_words(vec![1 << 5], 5).is_none());
        assert!(Bits::from_words(vec![1 << 4], 5).is_some());
        assert!(Bits::from_words(vec![0], 65).is_none());
        assert!(Bits::from_words(vec![0, 0], 64).is_none());
    }
}
