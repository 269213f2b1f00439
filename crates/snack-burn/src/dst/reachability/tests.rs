//! Paths through small networks by hand, through random ones by enumeration, and the shares of
//! functional connections that random networks have.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::dst::{Allocation, DstError, LayerShape};
use crate::error::SparseError;
use crate::pattern::Pattern;

fn pattern(shape: [usize; 2], coordinates: &[(i64, i64)]) -> Pattern {
    let (rows, cols): (Vec<i64>, Vec<i64>) = coordinates.iter().copied().unzip();
    Pattern::from_coordinates(shape, &rows, &cols).unwrap()
}

fn layer(name: &str, shape: [usize; 2]) -> Block {
    let name = name.to_owned();
    Block::Layer { name, shape }
}

/// Functional sets of all layers of a graph.
fn functional(graph: &LayerGraph, layers: &[(&str, &Pattern)]) -> Vec<Functional> {
    let sets = graph.functional(layers).unwrap();
    sets.into_iter().map(|set| set.unwrap()).collect()
}

#[test]
fn paths_through_three_layers() {
    // Feature 2 of the first hidden layer has no input, 1 leads nowhere; feature 0 of the second
    // hidden layer has no input that is reached.
    let first = pattern([3, 2], &[(0, 0), (0, 1), (1, 1)]);
    let second = pattern([3, 3], &[(0, 2), (1, 0), (1, 2)]);
    let third = pattern([2, 3], &[(0, 0), (0, 1), (1, 0)]);
    let layers = [("a", &first), ("b", &second), ("c", &third)];
    let graph = LayerGraph::chain(&layers).unwrap();
    assert_eq!(graph.names(), ["a", "b", "c"]);
    let sets = functional(&graph, &layers);
    let ends: Vec<_> = sets
        .iter()
        .map(|set| (set.inputs(), set.outputs()))
        .collect();
    assert_eq!(
        ends,
        [
            (vec![0, 1], vec![0, 2]),
            (vec![0, 1], vec![0, 1]),
            (vec![1], vec![0, 1]),
        ]
    );
    assert_eq!(sets[0].slots(&first), [true, true, false]);
    assert_eq!(sets[1].slots(&second), [false, true, false]);
    assert_eq!(sets[2].slots(&third), [false, true, false]);
    assert_eq!(sets[1].count(&second), 1);
    assert_eq!(sets[0].share(&first), 2.0 / 3.0);
    assert_eq!(sets[0].shape(), [3, 2]);
    assert!(sets[1].contains(1, 0) && !sets[1].contains(2, 0) && !sets[1].contains(1, 2));
}

/// A path enumerator over edges, for chains: the reference of the sweeps.
fn functional_by_enumeration(layers: &[Pattern]) -> Vec<Vec<bool>> {
    fn reaches_input(layers: &[Pattern], feature: usize) -> bool {
        let Some((last, before)) = layers.split_last() else {
            return true;
        };
        let mut cols = last.row(feature).iter();
        cols.any(|&col| reaches_input(before, col as usize))
    }
    fn reaches_output(layers: &[Pattern], feature: usize) -> bool {
        let Some((first, behind)) = layers.split_first() else {
            return true;
        };
        let mut rows = (0..first.rows()).filter(|&row| first.contains(row, feature));
        rows.any(|row| reaches_output(behind, row))
    }
    let edges = |index: usize| {
        let edge = |(row, col)| {
            reaches_input(&layers[..index], col) && reaches_output(&layers[index + 1..], row)
        };
        layers[index].iter().map(edge).collect()
    };
    (0..layers.len()).map(edges).collect()
}

fn chains() -> impl Strategy<Value = Vec<Pattern>> {
    let widths = prop::collection::vec(1usize..6, 2..6);
    (widths, any::<u64>(), 0.05f64..0.6).prop_map(|(widths, seed, density)| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let layer = |pair: &[usize]| {
            let nnz = (density * (pair[0] * pair[1]) as f64).ceil() as usize;
            Pattern::random([pair[1], pair[0]], nnz, &mut rng).unwrap()
        };
        widths.windows(2).map(layer).collect()
    })
}

proptest! {
    #[test]
    fn sweeps_agree_with_enumeration(layers in chains()) {
        let names = ["0", "1", "2", "3"];
        let named: Vec<(&str, &Pattern)> = names.into_iter().zip(&layers).collect();
        let sets = functional(&LayerGraph::chain(&named).unwrap(), &named);
        let found: Vec<_> = sets.iter().zip(&layers).map(|(set, l)| set.slots(l)).collect();
        prop_assert_eq!(&found, &functional_by_enumeration(&layers));
        for (set, layer) in sets.iter().zip(&layers) {
            let count = set.slots(layer).into_iter().filter(|&slot| slot).count();
            prop_assert_eq!(set.count(layer), count);
        }
    }
}

#[test]
fn skips_carry_features_past_an_empty_layer() {
    let first = pattern([3, 2], &[(0, 0), (1, 1)]);
    let empty = Pattern::empty([3, 3]).unwrap();
    let head = pattern([1, 3], &[(0, 1), (0, 2)]);
    let layers = [("first", &first), ("empty", &empty), ("head", &head)];
    let cut = functional(&LayerGraph::chain(&layers).unwrap(), &layers);
    assert_eq!((cut[0].count(&first), cut[2].count(&head)), (0, 0));

    let graph = LayerGraph::new(vec![
        layer("first", [3, 2]),
        Block::Residual(vec![layer("empty", [3, 3])]),
        layer("head", [1, 3]),
    ]);
    let sets = functional(&graph.unwrap(), &layers);
    // Feature 1 has an input and is used; 0 is not used, 2 has no input.
    assert_eq!(sets[0].slots(&first), [false, true]);
    assert_eq!(sets[2].slots(&head), [true, false]);
    // A connection of the skipped layer would be functional between these.
    assert_eq!(
        (sets[1].inputs(), sets[1].outputs()),
        (vec![0, 1], vec![1, 2])
    );
}

#[test]
fn mixing_blocks_pass_on_all_or_nothing() {
    let first = pattern([3, 2], &[(2, 0)]);
    let last = pattern([2, 4], &[(1, 3)]);
    let layers = [("first", &first), ("last", &last)];
    let graph = LayerGraph::new(vec![
        layer("first", [3, 2]),
        Block::Mixing {
            inputs: 3,
            outputs: 4,
        },
        layer("last", [2, 4]),
    ])
    .unwrap();
    let sets = functional(&graph, &layers);
    assert_eq!(sets[0].count(&first) + sets[1].count(&last), 2);
    assert_eq!(sets[0].outputs(), [0, 1, 2]);
    assert_eq!(sets[1].inputs(), [0, 1, 2, 3]);

    // Nothing to mix: what only has biases is not reached.
    let empty = Pattern::empty([3, 2]).unwrap();
    let layers = [("first", &empty), ("last", &last)];
    let sets = functional(&graph, &layers);
    assert_eq!(sets[1].count(&last), 0);
    assert!(sets[1].inputs().is_empty());
}

#[test]
fn layers_outside_the_graph_have_no_sets() {
    let inside = Pattern::full([2, 3]).unwrap();
    let outside = Pattern::full([7, 5]).unwrap();
    let graph = LayerGraph::chain(&[("in", &inside)]).unwrap();
    let sets = graph.functional(&[("out", &outside), ("in", &inside)]);
    assert_eq!(sets, Ok(vec![None, Some(Functional::everywhere([2, 3]))]));
}

#[test]
fn networks_that_do_not_chain_are_refused() {
    let [narrow, wide] = [[4, 3], [5, 6]].map(|shape| Pattern::full(shape).unwrap());
    let error = LayerGraph::chain(&[("narrow", &narrow), ("wide", &wide)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "layer `wide` takes 6 features, but 4 come out of the blocks before it"
    );
    let refused = |blocks: Vec<Block>| {
        let error = LayerGraph::new(blocks).unwrap_err();
        matches!(error, DstError::BlocksDoNotChain { .. })
    };
    let mixing = |inputs, outputs| Block::Mixing { inputs, outputs };
    assert!(refused(vec![mixing(2, 3), mixing(2, 3)]));
    assert!(refused(vec![Block::Residual(vec![mixing(2, 3)])]));
    assert!(refused(vec![
        mixing(2, 3),
        Block::Residual(vec![layer("a", [2, 2])])
    ]));
    assert!(refused(vec![Block::Residual(vec![
        mixing(3, 2),
        layer("a", [3, 3])
    ])]));
    assert!(refused(vec![
        Block::Residual(vec![]),
        mixing(2, 3),
        Block::Residual(vec![]),
        mixing(2, 3)
    ]));
    assert_eq!(
        LayerGraph::new(vec![
            layer("a", [2, 2]),
            Block::Residual(vec![layer("a", [2, 2])])
        ]),
        Err(DstError::RepeatedLayer {
            name: "a".to_owned()
        })
    );
}

#[test]
fn patterns_must_fit_the_graph() {
    let square = Pattern::full([2, 2]).unwrap();
    let other = Pattern::full([2, 3]).unwrap();
    let graph = LayerGraph::chain(&[("a", &square), ("b", &square)]).unwrap();
    assert_eq!(
        graph.functional(&[("a", &square)]),
        Err(DstError::MissingLayer {
            name: "b".to_owned()
        })
    );
    assert_eq!(
        graph.functional(&[("a", &square), ("a", &square), ("b", &square)]),
        Err(DstError::RepeatedLayer {
            name: "a".to_owned()
        })
    );
    assert!(matches!(
        graph.functional(&[("a", &square), ("b", &other)]),
        Err(DstError::Sparse(SparseError::ShapeMismatch { .. }))
    ));
}

#[test]
fn a_graph_survives_json_and_a_broken_one_is_refused() {
    let graph = LayerGraph::new(vec![
        Block::Residual(vec![layer("a", [3, 2]), layer("b", [2, 3])]),
        Block::Mixing {
            inputs: 2,
            outputs: 9,
        },
    ])
    .unwrap();
    let json = serde_json::to_string(&graph).unwrap();
    assert_eq!(serde_json::from_str::<LayerGraph>(&json).unwrap(), graph);
    let broken = json.replace("[3,2]", "[3,5]");
    assert_ne!(broken, json);
    assert!(serde_json::from_str::<LayerGraph>(&broken).is_err());
}

const WIDTHS: [usize; 5] = [784, 1000, 1000, 1000, 10];

/// Densities of the layers if all have the same, by ERK, and the same before a dense head.
fn allocations(density: f64) -> [Allocation; 3] {
    let names = ["0", "1", "2", "3"].map(str::to_owned);
    let headed = [density, density, density, 1.0];
    [
        Allocation::uniform(density),
        Allocation::erk(density),
        Allocation::Explicit(names.into_iter().zip(headed).collect()),
    ]
}

fn slots(allocation: &Allocation) -> Vec<usize> {
    let layer =
        |(index, pair): (usize, &[usize])| LayerShape::new(index.to_string(), [pair[1], pair[0]]);
    let layers: Vec<LayerShape> = WIDTHS.windows(2).enumerate().map(layer).collect();
    allocation.slots(&layers).unwrap()
}

const TABLE: [(f64, [f64; 3]); 6] = [
    (0.05, [0.786, 1.000, 1.000]),
    (0.01, [0.539, 0.998, 1.000]),
    (0.005, [0.283, 0.945, 0.989]),
    (0.002, [0.041, 0.532, 0.785]),
    (0.001, [0.007, 0.159, 0.357]),
    (0.0005, [0.001, 0.028, 0.082]),
];

#[test]
fn the_formula_gives_the_published_shares() {
    for (density, shares) in TABLE {
        for (allocation, share) in allocations(density).iter().zip(shares) {
            let slots = slots(allocation);
            let pairs = WIDTHS.windows(2).zip(&slots);
            let densities: Vec<f64> = pairs
                .map(|(pair, &slots)| slots as f64 / (pair[0] * pair[1]) as f64)
                .collect();
            let expected = expected_reachability(&WIDTHS, &densities);
            assert!(
                (expected.network - share).abs() < 0.01,
                "density {density}, {allocation:?}: {} for {share}",
                expected.network
            );
        }
    }
}

/// Share of functional connections of one random network.
fn simulated(slots: &[usize], rng: &mut ChaCha8Rng) -> f64 {
    let layer = |(pair, &slots): (&[usize], &usize)| {
        Pattern::random([pair[1], pair[0]], slots, rng).unwrap()
    };
    let layers: Vec<Pattern> = WIDTHS.windows(2).zip(slots).map(layer).collect();
    let named: Vec<(&str, &Pattern)> = ["0", "1", "2", "3"].into_iter().zip(&layers).collect();
    let sets = functional(&LayerGraph::chain(&named).unwrap(), &named);
    let functional: usize = sets
        .iter()
        .zip(&layers)
        .map(|(set, layer)| set.count(layer))
        .sum();
    functional as f64 / slots.iter().sum::<usize>() as f64
}

#[test]
fn random_networks_have_the_published_shares() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (density, shares) in TABLE {
        // Sparser networks vary more, and take less time.
        let runs = if density > 0.002 { 20 } else { 200 };
        for (allocation, share) in allocations(density).iter().zip(shares) {
            let slots = slots(allocation);
            let sum: f64 = (0..runs).map(|_| simulated(&slots, &mut rng)).sum();
            let mean = sum / f64::from(runs);
            assert!(
                (mean - share).abs() < 0.01,
                "density {density}, {allocation:?}: {mean} for {share}"
            );
        }
    }
}

/// A layer of 6 x 8 in which columns 0 to 4 are reached and rows 1, 2 and 5 reach the outputs.
fn guided() -> (Pattern, Functional) {
    let before = pattern([8, 1], &[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]);
    let behind = pattern([1, 6], &[(0, 1), (0, 2), (0, 5)]);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let layer = Pattern::random([6, 8], 12, &mut rng).unwrap();
    let layers = [("before", &before), ("layer", &layer), ("behind", &behind)];
    let graph = LayerGraph::chain(&layers).unwrap();
    let set = functional(&graph, &layers).swap_remove(1);
    (layer, set)
}

#[test]
fn guided_growth_fills_functional_coordinates_first() {
    let (layer, set) = guided();
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let inactive: Vec<u64> = (0..48)
        .filter(|&flat| layer.flats().all(|f| f != flat))
        .collect();
    let tier = |flat: u64| {
        let (row, col) = ((flat / 8) as usize, (flat % 8) as usize);
        match (set.contains(row, col), col < 5) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        }
    };
    let room = [0, 1, 2].map(|t| inactive.iter().filter(|&&flat| tier(flat) == t).count());
    assert!(room.iter().all(|&room| room > 3), "{room:?}");
    for count in 0..=inactive.len() {
        let sample = set.sample(&layer, count, 1.0, &[], &mut rng).unwrap();
        assert_eq!(sample.flats.len(), count);
        assert!(sample.flats.is_sorted_by(|a, b| a < b));
        assert!(sample.flats.iter().all(|flat| inactive.contains(flat)));
        let found = [0, 1, 2].map(|t| sample.flats.iter().filter(|&&flat| tier(flat) == t).count());
        let functional = count.min(room[0]);
        let forward = (count - functional).min(room[1]);
        assert_eq!(found, [functional, forward, count - functional - forward]);
        assert_eq!(found, [sample.functional, sample.forward, sample.anywhere]);
    }
    assert_eq!(
        set.sample(&layer, 37, 1.0, &[], &mut rng),
        Err(SparseError::NotEnoughInactive {
            asked: 37,
            available: 36
        })
    );
}

#[test]
fn guidance_is_the_share_that_is_guided() {
    let (layer, set) = guided();
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for (guidance, guided) in [(0.0, 0), (0.25, 2), (0.5, 3), (1.0, 6)] {
        let sample = set.sample(&layer, 6, guidance, &[], &mut rng).unwrap();
        assert_eq!((sample.functional, sample.anywhere), (guided, 6 - guided));
        assert_eq!(sample.flats.len(), 6);
    }
}

#[test]
fn forbidden_coordinates_are_never_drawn() {
    let (layer, set) = guided();
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let inactive = (0..48).filter(|&flat| layer.flats().all(|f| f != flat));
    let (forbidden, free): (Vec<u64>, Vec<u64>) = inactive.partition(|_| rng.random_bool(0.5));
    for guidance in [0.0, 0.5, 1.0] {
        let sample = set.sample(&layer, free.len(), guidance, &forbidden, &mut rng);
        assert_eq!(sample.unwrap().flats, free);
    }
    assert!(
        set.sample(&layer, free.len() + 1, 1.0, &forbidden, &mut rng)
            .is_err()
    );
    let active = layer.flat(0);
    assert!(matches!(
        set.sample(&layer, 1, 1.0, &[active], &mut rng),
        Err(SparseError::NotInactive { .. })
    ));
}

#[test]
fn every_functional_pair_is_equally_likely() {
    let layer = pattern([3, 3], &[(0, 0), (1, 1)]);
    let before = pattern([3, 1], &[(0, 0), (1, 0), (2, 0)]);
    let behind = pattern([1, 3], &[(0, 0), (0, 1)]);
    let layers = [("before", &before), ("layer", &layer), ("behind", &behind)];
    let graph = LayerGraph::chain(&layers).unwrap();
    let set = functional(&graph, &layers).swap_remove(1);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut counts = [0u32; 1 << 9];
    for _ in 0..600 {
        let sample = set.sample(&layer, 2, 1.0, &[], &mut rng).unwrap();
        counts[sample.flats.iter().map(|flat| 1 << flat).sum::<usize>()] += 1;
    }
    // 4 coordinates, 6 pairs, 100 draws each: 99.9 % of chi-square with 5 degrees of freedom are
    // below 20.5.
    let seen = counts.iter().filter(|&&count| count > 0);
    assert_eq!(seen.clone().count(), 6);
    let statistic: f64 = seen.map(|&n| (f64::from(n) - 100.0).powi(2) / 100.0).sum();
    assert!(statistic < 20.5, "chi-square {statistic}");
}

#[test]
#[should_panic(expected = "guidance must be in [0, 1], got 1.5")]
fn guidance_above_1_panics() {
    let (layer, set) = guided();
    let _ = set.sample(&layer, 1, 1.5, &[], &mut ChaCha8Rng::seed_from_u64(0));
}
