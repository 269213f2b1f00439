//! Growth windows of several steps: what rules see of them, and who goes on in the middle of one.

use burn::tensor::Device;
use snack_burn::dist::Fingerprint;
use snack_burn::dst::{Composed, Magnitude};
use snack_burn::prelude::*;

use super::group::{BATCH, Net, Rank, host, on_devices, on_ranks};
use crate::dst::probe::{Probe, Seen};
use crate::support::{assert_within, flex};

/// What a criterion sees of the gradient is that of the whole batch, also when a window of several
/// steps adds up.
pub fn factors_are_joined(devices: &[Device], tolerance: f64) {
    let seen = |devices: &[Device]| -> Vec<Vec<Seen>> {
        let start = Net::new(3, &devices[0].clone().autodiff());
        let seen = on_devices(devices, |ranks, device| {
            let probe = Probe::default();
            let config = DstConfig::rigl(40).with_every(4).with_accumulate(3);
            let method = Composed::new(Magnitude, probe.clone());
            let rule = config.rule_of(method).unwrap();
            let net = start.replica_on(&device);
            let dst = Dst::new(&net, rule, 1, DstState::default()).unwrap();
            let mut rank = Rank::with_updater(net, dst, ranks);
            for _ in 0..4 {
                rank.step().unwrap();
            }
            probe.take()
        });
        seen.into_iter().map(|seen| seen.unwrap()).collect()
    };
    let [one, all] = [&devices[..1], devices].map(seen);
    for found in &all {
        assert_eq!(found.len(), 2);
        assert_eq!(*found, all[0]);
    }
    for (found, expected) in all[0].iter().zip(&one[0]) {
        assert_eq!(
            (&found.layer, found.batch),
            (&expected.layer, expected.batch)
        );
        assert_within(&found.layer, &found.gradient, &expected.gradient, tolerance);
    }
}

#[test]
fn factors_are_those_of_all_ranks() {
    if flex().is_some() {
        factors_are_joined(&host(2), 1e-6);
    }
}

/// Between two steps of a window the state holds the factors of all ranks, on each of them.
#[test]
fn the_state_of_a_rank_is_that_of_the_group() {
    let Some(backend) = flex() else { return };
    let start = Net::new(3, &backend.autodiff());
    let config = DstConfig::rigl(40).with_every(4).with_accumulate(3);
    let states = on_ranks(2, |ranks| {
        let mut rank = Rank::new(start.replica(), &config, ranks);
        let empty = rank.dst.state().to_bytes().unwrap().len();
        train(&mut rank, 3);
        (empty, rank.dst.state())
    });
    let states: Vec<_> = states.into_iter().map(Result::unwrap).collect();
    assert_eq!(states[0], states[1]);
    let (empty, state) = &states[0];
    // Rows of both factors of two passes through layers of 24 x 20 and 6 x 24.
    let factors = 4 * 2 * BATCH * (24 + 20 + 6 + 24);
    assert!(state.to_bytes().unwrap().len() >= empty + factors);
}

/// Losses of the steps and fingerprints after them.
fn train(rank: &mut Rank, steps: usize) -> (Vec<f64>, Vec<Fingerprint>) {
    let step = |_| {
        let loss = rank.step().unwrap();
        (loss, Fingerprint::of_model(&rank.net))
    };
    (0..steps).map(step).unzip()
}

/// In the middle of a window of three steps, from the state of either rank: losses up to the order of
/// additions, and the same patterns.
#[test]
fn one_device_goes_on_in_the_middle_of_a_growth_window() {
    let Some(backend) = flex() else { return };
    let start = Net::new(3, &backend.autodiff());
    let config = DstConfig::rigl(400).with_every(4).with_accumulate(3);
    let begin = |ranks| Rank::new(start.replica(), &config, ranks);
    let whole = on_ranks(2, |ranks| train(&mut begin(ranks), 44));
    let (losses, patterns) = whole[0].as_ref().unwrap();
    let halves = on_ranks(2, |ranks| {
        let mut rank = begin(ranks);
        train(&mut rank, 11);
        rank
    });
    for half in halves {
        let mut alone = half.unwrap().alone(&config);
        let (found, after) = train(&mut alone, 33);
        assert_within("losses", &found, &losses[11..], 1e-4);
        assert_eq!(after, patterns[11..]);
        let mut different = after;
        different.dedup();
        assert!(different.len() >= 9, "{different:?}");
    }
}
