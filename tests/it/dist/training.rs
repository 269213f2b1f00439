//! Several ranks against one rank with the batches of all.

use std::ops::Range;

use snack_burn::dist::{Fingerprint, Traffic, check_values};
use snack_burn::dst::{Composed, Magnitude};
use snack_burn::prelude::*;

use super::group::{Net, Rank, on_ranks};
use crate::dst::probe::{Probe, Seen};
use crate::support::{assert_within, flex};

/// Losses of every step, fingerprints after every update, and the end, of all ranks.
struct Run {
    losses: Vec<f64>,
    fingerprints: Vec<Fingerprint>,
    patterns: Vec<Pattern>,
    state: DstState,
    traffic: Traffic,
}

fn run(ranks: usize, steps: usize, config: &DstConfig) -> Vec<Run> {
    let backend = flex().expect("this test is for flex");
    let device = backend.autodiff();
    let start = Net::new(3, &device);
    let runs = on_ranks(ranks, |ranks| {
        let mut rank = Rank::new(start.replica(), config, ranks.clone());
        let (mut losses, mut fingerprints) = (Vec::new(), Vec::new());
        for _ in 0..steps {
            losses.push(rank.step().unwrap());
            if let Some(update) = rank.dst.last_update() {
                assert_eq!(update.skipped, None);
                fingerprints.push(Fingerprint::of_model(&rank.net));
            }
        }
        let traffic = ranks.traffic();
        check_values(&*ranks, &rank.net).unwrap();
        Run {
            losses,
            fingerprints,
            patterns: rank.net.patterns(),
            state: rank.dst.state(),
            traffic,
        }
    });
    runs.into_iter()
        .map(|run| run.expect("no rank panics"))
        .collect()
}

#[test]
fn two_ranks_learn_like_one_with_the_whole_batch() {
    if flex().is_none() {
        return;
    }
    let config = DstConfig::static_pattern();
    let [one, two, four] = [1, 2, 4].map(|ranks| run(ranks, 100, &config));
    let expected = &one[0].losses;
    assert!(
        expected[99] < 0.8 * expected[0],
        "nothing is learnt: {expected:?}"
    );
    for run in two.iter().chain(&four) {
        assert_within("losses", &run.losses, expected, 1e-4);
        assert_eq!(run.patterns, one[0].patterns);
    }
}

/// Every rank weighs the same, however many rows it has.
#[test]
fn batches_may_differ_in_size() {
    let Some(backend) = flex() else { return };
    let start = Net::new(3, &backend.autodiff());
    let run = |parts: &[Vec<Range<usize>>], config: &DstConfig| {
        let runs = on_ranks(parts.len(), |ranks| {
            let mut rank = Rank::new(start.replica(), config, ranks.clone());
            rank.parts = parts[ranks.rank()].clone();
            let losses: Vec<f64> = (0..20).map(|_| rank.step().unwrap()).collect();
            check_values(&*ranks, &rank.net).unwrap();
            (losses, rank.net.patterns())
        });
        let runs = runs.into_iter().map(|run| run.expect("no rank panics"));
        runs.collect::<Vec<_>>()
    };
    let (small, large) = (0..3, 3..8);
    let joined = [vec![small.clone(), large.clone()]];
    let divided = [vec![small], vec![large]];
    let config = DstConfig::static_pattern();
    let [one, two] = [&joined[..], &divided].map(|parts| run(parts, &config));
    assert_within("losses", &two[0].0, &one[0].0, 1e-4);

    let rigl = run(&divided, &DstConfig::rigl(40).with_every(4));
    assert_eq!(rigl[0].1, rigl[1].1);
    assert_ne!(rigl[0].1, start.patterns());
}

/// One number for each non-zero and each bias.
#[test]
fn sparse_layers_send_one_gradient_per_connection() {
    if flex().is_none() {
        return;
    }
    let runs = run(2, 5, &DstConfig::static_pattern());
    for run in runs {
        let numbers = 120 + 24 + 40 + 6;
        assert_eq!(run.traffic.reduced, 5 * 4 * numbers);
    }
}

#[test]
fn patterns_stay_equal_through_ten_updates() {
    if flex().is_none() {
        return;
    }
    let presets = [
        Preset::Rigl,
        Preset::Set,
        Preset::SetOriginal,
        Preset::Srigl,
        Preset::Gse,
        Preset::Snfs,
        Preset::DeepR,
    ];
    for preset in presets {
        let config = preset.config(400).with_every(4);
        let runs = run(2, 44, &config);
        let [first, second] = &runs[..] else {
            unreachable!("there are two ranks")
        };
        // The quotas of some rules round to nothing in layers so small.
        let least = match preset {
            Preset::Rigl | Preset::Set => 10,
            _ => 3,
        };
        let mut different = first.fingerprints.clone();
        different.dedup();
        assert!(different.len() >= least, "{preset}: {different:?}");
        assert_eq!(first.fingerprints, second.fingerprints, "{preset}");
        assert_eq!(first.patterns, second.patterns, "{preset}");
        assert_eq!(first.state, second.state, "{preset}");
    }
}

/// What a criterion sees of the gradient is that of the whole batch, also when a window of several
/// steps adds up.
#[test]
fn factors_are_those_of_all_ranks() {
    if flex().is_none() {
        return;
    }
    let seen = |ranks: usize| -> Vec<Vec<Seen>> {
        let device = flex().unwrap().autodiff();
        let start = Net::new(3, &device);
        let seen = on_ranks(ranks, |ranks| {
            let probe = Probe::default();
            let config = DstConfig::rigl(40).with_every(4).with_accumulate(3);
            let method = Composed::new(Magnitude, probe.clone());
            let rule = config.rule_of(method).unwrap();
            let net = start.replica();
            let dst = Dst::new(&net, rule, 1, DstState::default()).unwrap();
            let mut rank = Rank::with_updater(net, dst, ranks);
            for _ in 0..4 {
                rank.step().unwrap();
            }
            probe.take()
        });
        seen.into_iter().map(|seen| seen.unwrap()).collect()
    };
    let (one, two) = (seen(1), seen(2));
    assert_eq!(two[0], two[1]);
    assert_eq!(two[0].len(), 2);
    for (found, expected) in two[0].iter().zip(&one[0]) {
        assert_eq!(
            (&found.layer, found.batch),
            (&expected.layer, expected.batch)
        );
        assert_within(&found.layer, &found.gradient, &expected.gradient, 1e-6);
    }
}

/// Between two steps of a growth window the state holds the factors of all ranks, so that any rank's
/// checkpoint continues on one device.
#[test]
fn the_state_of_a_rank_is_that_of_the_group() {
    if flex().is_none() {
        return;
    }
    let config = DstConfig::rigl(40).with_every(4).with_accumulate(3);
    let (one, two) = (run(1, 3, &config), run(2, 3, &config));
    assert_eq!(two[0].state, two[1].state);
    let [one, two] = [&one[0], &two[0]].map(|run| run.state.to_bytes().unwrap().len());
    assert_eq!(one, two);
}

/// Rules that draw from other seeds agree with rank 0 all the same.
#[test]
fn rank_0_decides() {
    let Some(backend) = flex() else { return };
    let start = Net::new(3, &backend.autodiff());
    let patterns = on_ranks(2, |ranks| {
        let seed = ranks.rank() as u64;
        let config = DstConfig::set().with_every(2).with_seed(seed);
        let mut rank = Rank::new(start.replica(), &config, ranks);
        for _ in 0..4 {
            rank.step().unwrap();
        }
        rank.net.patterns()
    });
    let patterns: Vec<_> = patterns.into_iter().map(|found| found.unwrap()).collect();
    assert_eq!(patterns[0], patterns[1]);
    assert_ne!(patterns[0], start.patterns());
}
