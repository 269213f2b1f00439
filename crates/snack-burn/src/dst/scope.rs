//! Where quotas apply.

use serde::{Deserialize, Serialize};

use crate::pattern::Pattern;

/// The connections among which an update chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// Every row has its own quota, so that its number of inputs stays (fixed fan-in).
    Row,
    /// Every layer has its own quota, so that its number of non-zeros stays.
    Layer,
    /// One quota for all layers; budgets move between them.
    Network {
        /// No layer falls below so many connections.
        floor: usize,
    },
}

/// The `count` slots with the lowest scores, ascending by slot; equal scores by lower slot.
pub(crate) fn lowest(scores: &[f32], count: usize) -> Vec<u32> {
    let keys = || (0u32..).zip(scores).map(|(slot, &score)| key(score, slot));
    let last = match count.checked_sub(1) {
        None => return Vec::new(),
        Some(last) if last + 1 >= scores.len() => return (0..scores.len() as u32).collect(),
        Some(last) => *keys().collect::<Vec<_>>().select_nth_unstable(last).1,
    };
    keys()
        .filter(|&key| key <= last)
        .map(|key| key as u32)
        .collect()
}

/// Orders by score as [`f32::total_cmp`] does, then by slot.
fn key(score: f32, slot: u32) -> u64 {
    let bits = score.to_bits();
    let ordered = match bits >> 31 {
        0 => bits | 1 << 31,
        _ => !bits,
    };
    u64::from(ordered) << 32 | u64::from(slot)
}

/// As [`lowest`] within each row, which gives up `quotas[row]` slots.
pub(crate) fn lowest_per_row(scores: &[f32], pattern: &Pattern, quotas: &[usize]) -> Vec<u32> {
    let offsets = pattern.row_offsets();
    let mut slots = Vec::with_capacity(quotas.iter().sum());
    for (row, &quota) in quotas.iter().enumerate() {
        let first = offsets[row];
        let chosen = lowest(&scores[first..offsets[row + 1]], quota);
        slots.extend(chosen.into_iter().map(|slot| slot + first as u32));
    }
    slots
}

/// As [`lowest`] over several layers with one quota, exactly; a layer gives up at most
/// `limits[layer]` slots. Equal scores go by layer, then by slot.
pub(crate) fn lowest_of_all(scores: &[Vec<f32>], limits: &[usize], count: usize) -> Vec<Vec<u32>> {
    // What a layer can lose is among its own lowest, so nothing else takes part.
    let mut all: Vec<(f32, usize, u32)> = Vec::new();
    for (layer, (scores, &limit)) in scores.iter().zip(limits).enumerate() {
        let slots = lowest(scores, limit.min(count));
        all.extend(
            slots
                .into_iter()
                .map(|slot| (scores[slot as usize], layer, slot)),
        );
    }
    if count < all.len() {
        let order = |a: &(f32, usize, u32), b: &(f32, usize, u32)| {
            a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2)))
        };
        all.select_nth_unstable_by(count, order);
        all.truncate(count);
    }
    let mut chosen = vec![Vec::new(); scores.len()];
    for (_, layer, slot) in all {
        chosen[layer].push(slot);
    }
    chosen.iter_mut().for_each(|slots| slots.sort_unstable());
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn every_kind_of_number_has_its_place() {
        let scores = [
            f32::NAN,
            0.0,
            -0.0,
            1.0,
            f32::INFINITY,
            -1.0,
            f32::NEG_INFINITY,
            1e-45,
            -1e-45,
            -f32::NAN,
            1.0,
        ];
        let mut order: Vec<u32> = (0..scores.len() as u32).collect();
        order.sort_by(|&a, &b| scores[a as usize].total_cmp(&scores[b as usize]));
        for count in 0..=scores.len() + 1 {
            let mut expected = order[..count.min(scores.len())].to_vec();
            expected.sort_unstable();
            assert_eq!(lowest(&scores, count), expected);
        }
    }

    #[test]
    fn rows_choose_among_their_own() {
        let pattern = Pattern::from_offsets([3, 4], vec![0, 3, 3, 5], vec![0, 1, 3, 0, 2]).unwrap();
        let scores = [3.0, 1.0, 2.0, 9.0, 8.0];
        assert_eq!(lowest_per_row(&scores, &pattern, &[2, 0, 1]), [1, 2, 4]);
        assert!(lowest_per_row(&scores, &pattern, &[0, 0, 0]).is_empty());
    }

    /// Against sorting all slots of all layers and taking them one by one.
    #[test]
    fn the_network_chooses_exactly_and_respects_floors() {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        for _ in 0..200 {
            let scores: Vec<Vec<f32>> = (0..rng.random_range(1..5))
                .map(|_| {
                    let len = rng.random_range(0..9);
                    (0..len).map(|_| rng.random_range(0..5) as f32).collect()
                })
                .collect();
            let limits: Vec<usize> = scores
                .iter()
                .map(|scores| rng.random_range(0..=scores.len()))
                .collect();
            let count = rng.random_range(0..20);

            let mut order: Vec<(usize, usize, u32)> = Vec::new();
            for (layer, scores) in scores.iter().enumerate() {
                order.extend((0..scores.len()).map(|s| (scores[s] as usize, layer, s as u32)));
            }
            order.sort_unstable();
            let mut expected = vec![Vec::new(); scores.len()];
            let mut left = count;
            for (_, layer, slot) in order {
                if left > 0 && expected[layer].len() < limits[layer] {
                    expected[layer].push(slot);
                    left -= 1;
                }
            }
            expected.iter_mut().for_each(|slots| slots.sort_unstable());
            assert_eq!(lowest_of_all(&scores, &limits, count), expected);
        }
    }
}
