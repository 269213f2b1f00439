//! Several ranks against one rank with the batches of all.

use std::ops::Range;

use burn::tensor::Device;
use snack_burn::dist::{Fingerprint, Traffic, check_values};
use snack_burn::prelude::*;

use super::group::{Net, Rank, host, on_devices, on_ranks};
use crate::support::{assert_within, flex};

/// Losses of every step, fingerprints after every update, and the end, of all ranks.
struct Run {
    losses: Vec<f64>,
    fingerprints: Vec<Fingerprint>,
    /// Connections of every layer, and how many of them were chosen to leave, update by update.
    chosen: Vec<Vec<[usize; 2]>>,
    patterns: Vec<Pattern>,
    state: DstState,
    traffic: Traffic,
}

fn run(devices: &[Device], steps: usize, config: &DstConfig) -> Vec<Run> {
    let start = Net::new(3, &devices[0].clone().autodiff());
    let runs = on_devices(devices, |ranks, device| {
        let mut rank = Rank::new(start.replica_on(&device), config, ranks.clone());
        let mut losses = Vec::new();
        let (mut fingerprints, mut chosen) = (Vec::new(), Vec::new());
        for _ in 0..steps {
            losses.push(rank.step().unwrap());
            if let Some(update) = rank.dst.last_update() {
                assert_eq!(update.skipped, None);
                fingerprints.push(Fingerprint::of_model(&rank.net));
                let layers = update.layers.iter();
                chosen.push(layers.map(|l| [l.nnz, l.dropped + l.returned]).collect());
            }
        }
        let traffic = ranks.traffic();
        check_values(&*ranks, &rank.net).unwrap();
        Run {
            losses,
            fingerprints,
            chosen,
            patterns: rank.net.patterns(),
            state: rank.dst.state(),
            traffic,
        }
    });
    runs.into_iter()
        .map(|run| run.expect("no rank panics"))
        .collect()
}

/// A static pattern, 100 steps: the losses of one device with the batches of all.
pub fn learn_like_one(devices: &[Device]) {
    let config = DstConfig::static_pattern();
    let [one, all] = [&devices[..1], devices].map(|devices| run(devices, 100, &config));
    let expected = &one[0].losses;
    assert!(
        expected[99] < 0.8 * expected[0],
        "nothing is learnt: {expected:?}"
    );
    assert_eq!(all.len(), devices.len());
    for run in &all {
        assert_eq!(run.patterns, one[0].patterns);
        assert_eq!(run.losses.len(), expected.len());
        for (step, (found, expected)) in run.losses.iter().zip(expected).enumerate() {
            assert!(
                (found - expected).abs() <= 1e-4,
                "loss {found} after {step} steps, expected {expected}"
            );
        }
    }
}

#[test]
fn two_ranks_learn_like_one_with_the_whole_batch() {
    if flex().is_some() {
        learn_like_one(&host(2));
        learn_like_one(&host(4));
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

/// One number for each non-zero and each bias travels.
pub fn one_number_per_connection(devices: &[Device]) {
    for run in run(devices, 5, &DstConfig::static_pattern()) {
        let numbers = 120 + 24 + 40 + 6;
        assert_eq!(run.traffic.reduced, 5 * 4 * numbers);
    }
}

#[test]
fn sparse_layers_send_one_gradient_per_connection() {
    if flex().is_some() {
        one_number_per_connection(&host(2));
    }
}

/// Every rank has the same patterns after every update, and the same state at the end.
fn patterns_stay_equal(devices: &[Device], preset: Preset, least: usize) -> Vec<Run> {
    let config = preset.config(400).with_every(4);
    let runs = run(devices, 44, &config);
    let mut different = runs[0].fingerprints.clone();
    different.dedup();
    assert!(different.len() >= least, "{preset}: {different:?}");
    for run in &runs[1..] {
        assert_eq!(run.fingerprints, runs[0].fingerprints, "{preset}");
        assert_eq!(run.patterns, runs[0].patterns, "{preset}");
        assert_eq!(run.state, runs[0].state, "{preset}");
    }
    runs
}

/// What does not depend on rounding is that of other devices: how many connections leave.
pub fn ten_updates_of_rigl(devices: &[Device], reference: &[Device]) {
    let [found, expected] =
        [devices, reference].map(|devices| patterns_stay_equal(devices, Preset::Rigl, 10));
    assert!(found[0].chosen.len() >= 10);
    for run in &found {
        assert_eq!(run.chosen, expected[0].chosen);
    }
}

#[test]
fn patterns_stay_equal_through_ten_updates() {
    if flex().is_none() {
        return;
    }
    ten_updates_of_rigl(&host(2), &host(1));
    let presets = [
        Preset::Set,
        Preset::SetOriginal,
        Preset::Srigl,
        Preset::Gse,
        Preset::Snfs,
        Preset::DeepR,
    ];
    for preset in presets {
        // The quotas of some rules round to nothing in layers so small.
        let least = match preset {
            Preset::Set => 10,
            _ => 3,
        };
        patterns_stay_equal(&host(2), preset, least);
    }
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
