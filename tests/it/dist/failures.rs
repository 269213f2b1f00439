//! Ranks that diverge, and ranks that die: the others must hear of it, and none may wait for ever.

use burn::module::Module;
use burn::optim::SgdConfig;
use burn::tensor::Device;
use snack_burn::dist::{DistError, check_patterns, check_values};
use snack_burn::nn::sparse_layers;
use snack_burn::prelude::*;

use super::group::{Net, Rank, host, in_time, on_devices, on_ranks};
use crate::support::flex;

#[test]
fn another_pattern_is_reported_by_all() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let errors = on_ranks(3, |ranks| {
        let mut net = Net::new(3, &device);
        if ranks.rank() == 2 {
            net.last = Net::new(4, &device).last;
        }
        check_patterns(&*ranks, &net).unwrap_err()
    });
    for error in errors {
        let error = error.unwrap();
        let DistError::PatternsDiffer {
            layer,
            rank: 2,
            expected,
            found,
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!(layer, "last");
        assert_ne!(expected, found);
        let text = error.to_string();
        for part in [
            "`last`",
            "rank 2",
            &expected.to_string(),
            &found.to_string(),
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}

/// As many connections, elsewhere: the shapes of gradients do not tell.
#[test]
fn gradients_of_other_patterns_have_no_mean() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let errors = on_ranks(2, |ranks| {
        let net = Net::new(7 * ranks.rank() as u64, &device);
        let mut rank = Rank::new(net, &DstConfig::static_pattern(), ranks);
        rank.step().unwrap_err()
    });
    for error in errors {
        let error = error.unwrap();
        assert!(
            matches!(&error, DstError::Ranks(DistError::PatternsDiffer { layer, rank: 1, .. }) if layer == "first"),
            "{error}"
        );
    }
}

#[test]
fn a_gradient_that_a_rank_lacks_is_named() {
    let Some(backend) = flex() else { return };
    let start = Net::new(3, &backend.autodiff());
    let errors = on_ranks(3, |ranks| {
        let mut net = start.replica();
        if ranks.rank() == 1 {
            net.last = net.last.no_grad();
        }
        let mut rank = Rank::new(net, &DstConfig::static_pattern(), ranks);
        rank.step().unwrap_err().to_string()
    });
    for error in errors {
        assert_eq!(
            error.unwrap(),
            "rank 1 brings no more gradients to `reduce gradients`, expected a gradient of \
             `last.values` with 40 numbers as on rank 0"
        );
    }
}

#[test]
fn an_update_refuses_other_patterns() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let errors = on_ranks(2, |ranks| {
        let net = Net::new(7 * ranks.rank() as u64, &device);
        let before = net.patterns();
        let mut optim = SgdConfig::new().init();
        let mut dst = DstConfig::set().with_every(1).init(&net).unwrap();
        dst.set_ranks(ranks);
        let (net, result) = dst.try_step(net, &mut optim);
        assert_eq!(net.patterns(), before);
        result.unwrap_err()
    });
    for error in errors {
        let error = error.unwrap();
        assert!(
            matches!(&error, DstError::Ranks(DistError::PatternsDiffer { layer, rank: 1, .. }) if layer == "first"),
            "{error}"
        );
    }
}

#[test]
fn other_values_are_found() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let errors = on_ranks(2, |ranks| {
        let mut net = Net::new(3, &device);
        if ranks.rank() == 1 {
            net.last.values = net.last.values.map(|values| values * 1.000_001);
        }
        check_values(&*ranks, &net).unwrap_err()
    });
    for error in errors {
        let error = error.unwrap().to_string();
        assert!(error.contains("`last.values` differs on rank 1"), "{error}");
    }
}

/// The second rank panics after three steps; all others hear of it at the fourth.
pub fn a_death_is_heard(devices: &[Device]) {
    let start = Net::new(3, &devices[0].clone().autodiff());
    let config = DstConfig::rigl(40).with_every(2);
    let outcomes = on_devices(devices, |ranks, device| {
        let number = ranks.rank();
        let mut rank = Rank::new(start.replica_on(&device), &config, ranks);
        for step in 0..10 {
            assert!(number != 1 || step < 3, "rank 1 dies in a test");
            if let Err(error) = rank.step() {
                return (step, error);
            }
        }
        panic!("rank {number} did not notice");
    });
    let ranks = devices.len();
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        match (rank, outcome) {
            (1, outcome) => assert!(outcome.is_err()),
            (_, outcome) => {
                let (step, error) = outcome.unwrap();
                assert_eq!(step, 3);
                assert_eq!(
                    error.to_string(),
                    format!(
                        "rank 1 of {ranks} has left the group (its thread panicked); continue from \
                         the last checkpoint"
                    )
                );
            }
        }
    }
}

#[test]
fn a_rank_that_dies_ends_the_others() {
    if flex().is_some() {
        in_time(|| a_death_is_heard(&host(3)));
    }
}

/// As where one rank has less data.
#[test]
fn a_rank_that_makes_fewer_steps_ends_the_others() {
    let Some(backend) = flex() else { return };
    let start = Net::new(3, &backend.autodiff());
    let outcomes = on_ranks(2, |ranks| {
        let steps = 4 - ranks.rank();
        let mut rank = Rank::new(start.replica(), &DstConfig::rigl(40).with_every(2), ranks);
        (0..steps).try_for_each(|_| rank.step().map(drop))
    });
    let [first, second] = &outcomes[..] else {
        unreachable!("there are two ranks")
    };
    assert!(matches!(second, Ok(Ok(()))));
    let error = first.as_ref().unwrap().as_ref().unwrap_err().to_string();
    assert_eq!(
        error,
        "rank 1 of 2 has left the group (it has ended); continue from the last checkpoint"
    );
}

/// An error of one rank's rule ends the others at the same update.
#[test]
fn an_error_of_one_rank_is_one_of_all() {
    let Some(backend) = flex() else { return };
    let start = Net::new(3, &backend.autodiff());
    let errors = on_ranks(2, |ranks| {
        let number = ranks.rank();
        let net = start.replica();
        let config = DstConfig::set().with_every(2);
        let dst = match number {
            0 => config.init(&net),
            // Made for another pattern.
            _ => config.init(&Net::new(9, &net.first.values.device())),
        };
        let mut rank = Rank::with_updater(net, dst.unwrap(), ranks);
        rank.step().unwrap();
        rank.step().unwrap_err()
    });
    let errors: Vec<_> = errors.into_iter().map(|error| error.unwrap()).collect();
    assert!(matches!(
        &errors[0],
        DstError::Ranks(DistError::RankLost { rank: 1, .. })
    ));
    assert!(
        matches!(&errors[1], DstError::LayerChanged { .. }),
        "{}",
        errors[1]
    );
}

/// Passes that only some ranks make are an error, not a gradient of some ranks.
#[test]
fn passes_must_be_equal_in_number() {
    let Some(backend) = flex() else { return };
    let start = Net::new(3, &backend.autodiff());
    assert_eq!(sparse_layers(&start).len(), 2);
    let errors = on_ranks(2, |ranks| {
        let number = ranks.rank();
        let mut rank = Rank::new(start.replica(), &DstConfig::rigl(40).with_every(2), ranks);
        rank.step().unwrap();
        if number == 0 {
            rank.extra_pass();
        }
        rank.step().unwrap_err().to_string()
    });
    for error in errors {
        assert_eq!(
            error.unwrap(),
            "the number of backward passes through layer `first` is 1 on rank 1, expected 2 as on rank 0"
        );
    }
}
