//! The published formulas, and what every schedule refuses.

use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;

use super::*;
use crate::dst::DstError;

/// Steps and shares of all updates up to step 2000; drop and grow must agree.
fn updates(schedule: &dyn Schedule) -> Vec<(u64, f64)> {
    let update = |step| {
        let turnover = schedule.turnover(step)?;
        assert_eq!(
            (turnover.drop, turnover.of),
            (turnover.grow, ShareOf::NonZeros)
        );
        Some((step, turnover.drop))
    };
    (1..=2000).filter_map(update).collect()
}

fn assert_updates(schedule: &dyn Schedule, expected: &[(u64, f64)]) {
    assert_eq!(schedule.validate(), Ok(()));
    let found = updates(schedule);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.0, expected.0);
        assert!(
            (found.1 - expected.1).abs() < 1e-12,
            "{found:?} {expected:?}"
        );
    }
}

#[test]
fn constant() {
    let timing = Timing::every(10).until(20);
    assert_updates(&Constant::new(0.3, timing), &[(10, 0.3), (20, 0.3)]);
    assert_updates(&Constant::new(0.0, timing), &[]);
}

#[test]
fn cosine() {
    let timing = Timing::every(100).until(400);
    let cosine = Cosine {
        initial: 0.4,
        timing,
    };
    let root = 0.5f64.sqrt();
    let expected = [
        (100, 0.2 * (1.0 + root)),
        (200, 0.2),
        (300, 0.2 * (1.0 - root)),
    ];
    assert_updates(&cosine, &expected);
}

#[test]
fn a_warm_start_begins_with_the_whole_cosine() {
    let timing = Timing::every(100).starting_at(500).until(900);
    let cosine = Cosine {
        initial: 0.4,
        timing,
    };
    let root = 0.5f64.sqrt();
    let expected = [
        (500, 0.4),
        (600, 0.2 * (1.0 + root)),
        (700, 0.2),
        (800, 0.2 * (1.0 - root)),
    ];
    assert_updates(&cosine, &expected);
}

#[test]
fn cosine_with_a_floor() {
    let timing = Timing::every(250).until(1000);
    let schedule = CosineFloor {
        initial: 0.5,
        floor: 0.005,
        timing,
    };
    let (half, root) = (0.2475, 0.5f64.sqrt());
    let expected = [
        (250, 0.005 + half * (1.0 + root)),
        (500, 0.2525),
        (750, 0.005 + half * (1.0 - root)),
        (1000, 0.005),
    ];
    assert_updates(&schedule, &expected);
}

#[test]
fn linear_and_power() {
    let timing = Timing::every(200).until(1000);
    let linear = Linear {
        initial: 0.5,
        timing,
    };
    let expected = [(200, 0.4), (400, 0.3), (600, 0.2), (800, 0.1)];
    assert_updates(&linear, &expected);
    let power = |exponent| Power {
        initial: 0.5,
        exponent,
        timing,
    };
    assert_updates(&power(1.0), &expected);
    let expected = [(200, 0.256), (400, 0.108), (600, 0.032), (800, 0.004)];
    assert_updates(&power(3.0), &expected);
}

#[test]
fn a_staircase_drops_and_grows_what_its_stage_says() {
    let stage = |until, drop, grow| Stage {
        until,
        turnover: Turnover::of_positions(drop, grow),
    };
    let schedule = Staircase {
        stages: vec![
            stage(250, 0.05, 0.05),
            stage(300, 0.05, 0.025),
            stage(450, 0.025, 0.025),
            stage(500, 0.025, 0.0),
        ],
        timing: Timing::every(100),
    };
    assert_eq!(schedule.validate(), Ok(()));
    let found: Vec<_> = (0..1000)
        .filter_map(|step| Some((step, schedule.turnover(step)?)))
        .collect();
    let expected = [
        (100, 0.05, 0.05),
        (200, 0.05, 0.05),
        (300, 0.05, 0.025),
        (400, 0.025, 0.025),
        (500, 0.025, 0.0),
    ];
    let expected = expected.map(|(step, drop, grow)| (step, Turnover::of_positions(drop, grow)));
    assert_eq!(found, expected);
}

#[test]
fn stable_then_decay() {
    let schedule = StableThenDecay::new(0.2, Timing::every(50).until(1000));
    let found = updates(&schedule);
    assert!(found[..18].iter().all(|update| update.1 == 0.2));
    let expected = [(950, 0.2 * 0.55), (1000, 0.02)];
    for (found, expected) in found[18..].iter().zip(expected) {
        assert_eq!(found.0, expected.0);
        assert!((found.1 - expected.1).abs() < 1e-12, "{found:?}");
    }
    assert_eq!(found.len(), 20);
}

#[test]
fn the_turnover_follows_the_learning_rate() {
    let timing = Timing::every(100).until(300);
    let schedule = FollowLearningRate::new(0.4, timing, |step| 2.0 / step as f64).unwrap();
    assert_updates(&schedule, &[(100, 0.004), (200, 0.002), (300, 0.4 / 300.0)]);

    // With a warm-up the largest rate is that of step 100.
    let rate = |step: u64| {
        if step < 100 {
            0.01
        } else {
            100.0 / step as f64
        }
    };
    let schedule = FollowLearningRate::new(0.4, timing, rate).unwrap();
    assert_updates(&schedule, &[(100, 0.4), (200, 0.2), (300, 0.4 / 3.0)]);

    // Burn's cosine gives its first rate in step 1.
    let config = CosineAnnealingLrSchedulerConfig::new(0.1, 300);
    let schedule = FollowLearningRate::of_scheduler(0.4, timing, config.init().unwrap()).unwrap();
    let cosine = |step: f64| 0.2 * (1.0 + (std::f64::consts::PI * (step - 1.0) / 300.0).cos());
    let expected = [100, 200, 300].map(|step| (step, cosine(step as f64)));
    assert_updates(&schedule, &expected);
}

#[test]
fn learning_rates_that_are_none_are_refused() {
    let timing = Timing::every(10).until(30);
    for value in [f64::NAN, -1.0, f64::INFINITY, 0.0] {
        let error = FollowLearningRate::new(0.4, timing, |_| value).unwrap_err();
        assert!(
            matches!(error, DstError::InvalidParameter { .. }),
            "{error}"
        );
    }
    let error = FollowLearningRate::new(0.4, Timing::every(10), |_| 1.0).unwrap_err();
    assert!(matches!(error, DstError::MissingStop { .. }));
}

#[test]
fn captures_come_before_updates() {
    let schedule = Constant::new(0.3, Timing::every(10).until(25));
    let captured = |window| -> Vec<u64> {
        (1..40)
            .filter(|&step| schedule.captures(step, window))
            .collect()
    };
    assert!(captured(0).is_empty());
    assert_eq!(captured(1), [10, 20]);
    assert_eq!(captured(3), [8, 9, 10, 18, 19, 20]);
    assert_eq!(captured(12), Vec::from_iter(1..21));
    assert!(!schedule.captures(u64::MAX, 5));
}

#[test]
fn quotas_are_rounded_and_bounded() {
    let quotas = |turnover: Turnover, nnz, size| {
        let quotas = turnover.quotas(nnz, size);
        (quotas.drop, quotas.grow)
    };
    assert_eq!(quotas(Turnover::replace(0.3), 240, 2400), (72, 72));
    assert_eq!(quotas(Turnover::replace(0.25), 10, 100), (3, 3));
    assert_eq!(quotas(Turnover::replace(0.999), 10, 100), (9, 9));
    // Two coordinates are free.
    assert_eq!(quotas(Turnover::replace(0.5), 33, 35), (2, 2));
    assert_eq!(quotas(Turnover::replace(0.5), 0, 35), (0, 0));
    assert_eq!(quotas(Turnover::new(0.5, 0.0), 10, 100), (5, 0));
    assert_eq!(quotas(Turnover::new(0.1, 9.0), 50, 100), (5, 50));
    // Half of all connections.
    assert_eq!(
        quotas(Turnover::of_positions(0.05, 0.05), 100, 1000),
        (50, 50)
    );
    assert_eq!(
        quotas(Turnover::of_positions(0.05, 0.025), 100, 1000),
        (50, 25)
    );
    assert_eq!(
        quotas(Turnover::of_positions(0.5, 0.5), 100, 1000),
        (99, 99)
    );
}

#[test]
fn every_schedule_refuses_bad_settings() {
    let timing = Timing::every(10).until(100);
    let all = |initial: f64, timing: Timing| -> Vec<Box<dyn Schedule>> {
        vec![
            Box::new(Constant::new(initial, timing)),
            Box::new(Cosine { initial, timing }),
            Box::new(CosineFloor {
                initial,
                floor: 0.1,
                timing,
            }),
            Box::new(Linear { initial, timing }),
            Box::new(Power {
                initial,
                exponent: 3.0,
                timing,
            }),
            Box::new(Staircase {
                stages: vec![Stage {
                    until: 50,
                    turnover: Turnover::replace(initial),
                }],
                timing,
            }),
            Box::new(StableThenDecay::new(initial, timing)),
            Box::new(AnySchedule::from(Cosine { initial, timing })),
        ]
    };
    for schedule in all(0.3, timing) {
        assert_eq!(schedule.validate(), Ok(()));
    }
    for value in [1.0, -0.1, f64::NAN, f64::INFINITY] {
        for schedule in all(value, timing) {
            let error = schedule.validate().unwrap_err();
            let text =
                format!("drop fraction {value} is out of range, expected a number in [0, 1)");
            assert_eq!(error.to_string(), text);
        }
        assert!(FollowLearningRate::new(value, timing, |_| 1.0).is_err());
    }
    for schedule in all(
        0.3,
        Timing {
            interval: 0,
            ..timing
        },
    ) {
        assert_eq!(schedule.validate(), Err(DstError::ZeroInterval));
        assert!((0..200).all(|step| schedule.turnover(step).is_none()));
    }
    for schedule in all(0.3, timing.starting_at(101)) {
        let [start, stop] = [101, 100];
        let error = DstError::StopBeforeStart { start, stop };
        assert_eq!(schedule.validate(), Err(error));
    }
    let unbounded = all(0.3, Timing::every(10));
    let errors = unbounded
        .iter()
        .filter(|schedule| schedule.validate().is_err());
    assert_eq!(
        errors.count(),
        6,
        "all but the constant one and the staircase"
    );
}

#[test]
fn settings_of_single_schedules_are_checked() {
    let timing = Timing::every(10).until(100);
    let initial = 0.3;
    let floor = 1.0;
    assert!(
        CosineFloor {
            initial,
            floor,
            timing
        }
        .validate()
        .is_err()
    );
    for exponent in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(
            Power {
                initial,
                exponent,
                timing
            }
            .validate()
            .is_err()
        );
    }
    for (stable, last) in [(1.0, 0.1), (0.9, 1.0), (f64::NAN, 0.1)] {
        let schedule = StableThenDecay {
            stable,
            last,
            ..StableThenDecay::new(initial, timing)
        };
        assert!(schedule.validate().is_err());
    }
    let stage = |until| Stage {
        until,
        turnover: Turnover::replace(0.1),
    };
    let stages = vec![stage(10), stage(20), stage(20)];
    assert_eq!(
        Staircase { stages, timing }.validate(),
        Err(DstError::StagesOutOfOrder {
            position: 2,
            until: 20,
            previous: 20
        })
    );
    for grow in [-0.1, f64::NAN, f64::INFINITY] {
        assert!(Turnover::new(0.1, grow).validate().is_err());
    }
    assert_eq!(Turnover::new(0.1, 2.0).validate(), Ok(()));
}

#[test]
fn schedules_survive_json() {
    let timing = Timing::every(100).starting_at(5).until(1000);
    let rate = |step: u64| 1.0 / step as f64;
    let schedules: Vec<AnySchedule> = vec![
        Constant::new(0.3, Timing::every(7)).into(),
        Cosine {
            initial: 0.3,
            timing,
        }
        .into(),
        CosineFloor {
            initial: 0.5,
            floor: 0.005,
            timing,
        }
        .into(),
        Linear {
            initial: 0.5,
            timing,
        }
        .into(),
        Power {
            initial: 0.5,
            exponent: 3.0,
            timing,
        }
        .into(),
        Staircase {
            stages: vec![Stage {
                until: 90,
                turnover: Turnover::of_positions(0.05, 0.025),
            }],
            timing,
        }
        .into(),
        StableThenDecay::new(0.2, timing).into(),
        FollowLearningRate::new(0.4, timing, rate).unwrap().into(),
    ];
    for schedule in schedules {
        let json = serde_json::to_string(&schedule).unwrap();
        let read: AnySchedule = serde_json::from_str(&json).unwrap();
        assert_eq!(read, schedule);
        for step in 0..1200 {
            assert_eq!(read.turnover(step), schedule.turnover(step));
        }
    }
}
