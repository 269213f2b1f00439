//! What must hold whatever the pattern.

use super::{Duplicates, Pattern};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};

fn masks() -> impl Strategy<Value = ([usize; 2], Vec<bool>)> {
    (0usize..12, 0usize..12).prop_flat_map(|(rows, cols)| {
        let entry = prop_oneof![2 => Just(false), 1 => Just(true)];
        (
            Just([rows, cols]),
            prop::collection::vec(entry, rows * cols),
        )
    })
}

fn patterns() -> impl Strategy<Value = Pattern> {
    masks().prop_map(|(shape, mask)| Pattern::from_mask(shape, &mask).unwrap())
}

fn pairs() -> impl Strategy<Value = (Pattern, Pattern)> {
    masks().prop_flat_map(|(shape, mask)| {
        let other = prop::collection::vec(any::<bool>(), mask.len());
        let pattern = Pattern::from_mask(shape, &mask).unwrap();
        (
            Just(pattern),
            other.prop_map(move |mask| Pattern::from_mask(shape, &mask).unwrap()),
        )
    })
}

/// Checks the invariants from the public side only.
fn assert_canonical(pattern: &Pattern) {
    let [rows, cols] = pattern.shape();
    let offsets = pattern.row_offsets();
    assert_eq!(offsets.len(), rows + 1);
    assert_eq!((offsets[0], offsets[rows]), (0, pattern.nnz()));
    assert!(offsets.is_sorted());
    assert!(pattern.cols().iter().all(|&col| (col as usize) < cols));
    assert!((0..rows).all(|row| pattern.row(row).is_sorted_by(|a, b| a < b)));
    assert!(pattern.nnz() as u64 <= pattern.size());
}

proptest! {
    #[test]
    fn constructors_agree((shape, mask) in masks()) {
        let pattern = Pattern::from_mask(shape, &mask).unwrap();
        assert_canonical(&pattern);
        let offsets = pattern.row_offsets().to_vec();
        prop_assert_eq!(
            Pattern::from_offsets(shape, offsets, pattern.cols().to_vec()).unwrap(),
            pattern.clone()
        );
        let (rows, cols): (Vec<i64>, Vec<i64>) =
            pattern.iter().map(|(row, col)| (row as i64, col as i64)).unzip();
        prop_assert_eq!(Pattern::from_coordinates(shape, &rows, &cols).unwrap(), pattern.clone());
        prop_assert_eq!(Pattern::from_sorted_flats(shape, pattern.flats()).unwrap(), pattern);
    }

    #[test]
    fn arbitrary_coordinates_are_canonical_or_refused(
        coordinates in prop::collection::vec((-1i64..5, -1i64..5), 0..6),
    ) {
        let (rows, cols): (Vec<i64>, Vec<i64>) = coordinates.iter().copied().unzip();
        let inside = |(row, col): &(i64, i64)| (0..4).contains(row) && (0..3).contains(col);
        let valid = coordinates.iter().all(inside) && coordinates.is_sorted_by(|a, b| a < b);
        let result = Pattern::from_coordinates([4, 3], &rows, &cols);
        prop_assert_eq!(result.is_ok(), valid);
        if let Ok(pattern) = result {
            assert_canonical(&pattern);
        }
    }

    #[test]
    fn arbitrary_offsets_are_canonical_or_refused(
        offsets in prop::collection::vec(0usize..5, 0..5),
        cols in prop::collection::vec(0u32..4, 0..5),
    ) {
        if let Ok(pattern) = Pattern::from_offsets([3, 3], offsets, cols) {
            assert_canonical(&pattern);
        }
    }

    #[test]
    fn triples_sum_like_a_map(
        triples in prop::collection::vec((0i64..5, 0i64..6, -8i8..8), 0..60),
    ) {
        let triples = triples.into_iter().map(|(row, col, value)| (row, col, f32::from(value)));
        let mut sums = BTreeMap::new();
        for (row, col, value) in triples.clone() {
            *sums.entry((row as usize, col as usize)).or_insert(0.0) += value;
        }
        let count = triples.len();
        let distinct = Pattern::from_triples([5, 6], triples.clone(), Duplicates::Reject).is_ok();
        prop_assert_eq!(distinct, sums.len() == count);
        let (pattern, values) = Pattern::from_triples([5, 6], triples, Duplicates::Sum).unwrap();
        assert_canonical(&pattern);
        prop_assert!(pattern.iter().eq(sums.keys().copied()));
        prop_assert!(values.iter().eq(sums.values()));
    }

    #[test]
    fn samples_are_canonical(
        rows in 0usize..20,
        cols in 0usize..20,
        share in 0.0..=1.0,
        seed: u64,
    ) {
        let nnz = (share * (rows * cols) as f64) as usize;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for pattern in [
            Pattern::random([rows, cols], nnz, &mut rng).unwrap(),
            Pattern::random_by_rejection([rows, cols], nnz, &mut rng).unwrap(),
        ] {
            assert_canonical(&pattern);
            prop_assert_eq!(pattern.nnz(), nnz);
        }
    }

    #[test]
    fn transposition_is_an_involution(pattern in patterns()) {
        let order = pattern.transposed();
        assert_canonical(&order.pattern);
        for (slot, (col, row)) in order.pattern.iter().enumerate() {
            prop_assert_eq!(pattern.slot_of(row, col), Some(order.slots[slot] as usize));
        }
        let back = order.pattern.transposed();
        prop_assert_eq!(&back.pattern, &pattern);
        for (slot, &transposed) in back.slots.iter().enumerate() {
            prop_assert_eq!(order.slots[transposed as usize] as usize, slot);
        }
        prop_assert_eq!(order.pattern.fan_in(), pattern.fan_out());
    }

    #[test]
    fn accessors_agree(pattern in patterns()) {
        let rows = pattern.expand_rows();
        for (slot, (row, col)) in pattern.iter().enumerate() {
            prop_assert_eq!((rows[slot] as usize, pattern.cols()[slot] as usize), (row, col));
            prop_assert_eq!(pattern.slot_of(row, col), Some(slot));
        }
        let flats: Vec<u64> = (0..pattern.nnz()).map(|slot| pattern.flat(slot)).collect();
        prop_assert!(pattern.flats().eq(flats));
    }

    #[test]
    fn set_operations_agree_with_sets((left, right) in pairs()) {
        let [a, b]: [BTreeSet<u64>; 2] = [left.flats().collect(), right.flats().collect()];
        prop_assert_eq!(left.overlap(&right).unwrap(), a.intersection(&b).count());
        for (found, expected) in [
            (left.union(&right), &a | &b),
            (left.intersection(&right), &a & &b),
            (left.difference(&right), &a - &b),
        ] {
            let found = found.unwrap();
            assert_canonical(&found);
            prop_assert!(found.flats().eq(expected));
        }
    }
}
