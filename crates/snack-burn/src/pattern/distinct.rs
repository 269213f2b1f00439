use hashbrown::HashSet;
use rand::{Rng, RngExt};

/// Words of a set of bits that cost no more than an element of a hash set.
const WORDS_PER_NUMBER: u64 = 4;

/// Draws `count` distinct integers below `population`, every subset equally likely, in increasing
/// order.
///
/// `count` must not exceed `population`. Time `O(count log count)` and memory `O(count)`, however
/// large the share that is drawn.
pub(crate) fn draw_distinct<R: Rng + ?Sized>(
    count: usize,
    population: u64,
    rng: &mut R,
) -> Vec<u64> {
    let rest = population - count as u64;
    if count as u64 <= rest {
        return floyd(count, population, rng);
    }
    // Leaving out a uniform subset is the same law, and `rest < count` fits a `usize`.
    let left_out = floyd(rest as usize, population, rng);
    let mut drawn = Vec::with_capacity(count);
    let mut start = 0;
    for skip in left_out {
        drawn.extend(start..skip);
        start = skip + 1;
    }
    drawn.extend(start..population);
    drawn
}

/// Floyd's algorithm (Bentley and Floyd, "A sample of brilliance", CACM 30(9), 1987): one random
/// number per element, no retries.
fn floyd<R: Rng + ?Sized>(count: usize, population: u64, rng: &mut R) -> Vec<u64> {
    if population / 64 <= count as u64 * WORDS_PER_NUMBER {
        return floyd_of_bits(count, population, rng);
    }
    let mut seen = HashSet::with_capacity(count);
    for last in population - count as u64..population {
        let candidate = rng.random_range(0..=last);
        if !seen.insert(candidate) {
            seen.insert(last);
        }
    }
    sorted(seen)
}

/// The same with one bit per integer, for a population that is not much larger than `count`.
fn floyd_of_bits<R: Rng + ?Sized>(count: usize, population: u64, rng: &mut R) -> Vec<u64> {
    let mut words = vec![0u64; population.div_ceil(64) as usize];
    let mut insert = |number: u64| {
        let (word, bit) = (&mut words[(number / 64) as usize], 1 << (number % 64));
        let absent = *word & bit == 0;
        *word |= bit;
        absent
    };
    for last in population - count as u64..population {
        if !insert(rng.random_range(0..=last)) {
            insert(last);
        }
    }
    members(&words, count)
}

/// The integers, `count` of them, whose bits are set, in increasing order.
pub(crate) fn members(words: &[u64], count: usize) -> Vec<u64> {
    let mut list = Vec::with_capacity(count);
    for (first, &word) in (0..).step_by(64).zip(words) {
        let mut rest = word;
        while rest != 0 {
            list.push(first + u64::from(rest.trailing_zeros()));
            rest &= rest - 1;
        }
    }
    list
}

/// The members in increasing order, which hides the random iteration order of the set.
pub(super) fn sorted(set: HashSet<u64>) -> Vec<u64> {
    let mut list: Vec<u64> = set.into_iter().collect();
    list.sort_unstable();
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn strictly_increasing_in_range() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for population in 0..20 {
            for count in 0..=population {
                let drawn = draw_distinct(count, population as u64, &mut rng);
                assert_eq!(drawn.len(), count);
                assert!(drawn.is_sorted_by(|a, b| a < b));
                assert!(drawn.iter().all(|&x| x < population as u64));
            }
        }
    }

    #[test]
    fn both_kinds_of_set_draw_the_same() {
        for (count, population) in [(0, 1), (5, 64), (300, 1000), (300, 300 * 64 * 4 + 64)] {
            let draw = |population: u64| {
                let mut rng = ChaCha8Rng::seed_from_u64(4);
                let bits = floyd_of_bits(count, population, &mut rng.clone());
                let mut seen = HashSet::new();
                for last in population - count as u64..population {
                    if !seen.insert(rng.random_range(0..=last)) {
                        seen.insert(last);
                    }
                }
                (bits, sorted(seen))
            };
            let (bits, hashed) = draw(population);
            assert_eq!(bits, hashed);
        }
    }

    #[test]
    fn reaches_large_populations() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let drawn = draw_distinct(1000, 1 << 61, &mut rng);
        assert!(drawn[0] < 1 << 53 && drawn[999] > 1 << 60);
    }

    #[test]
    fn nothing_and_everything_leave_the_generator_alone() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        assert!(draw_distinct(0, 9, &mut rng).is_empty());
        assert_eq!(draw_distinct(9, 9, &mut rng), Vec::from_iter(0..9));
        assert_eq!(rng, ChaCha8Rng::seed_from_u64(3));
    }
}
