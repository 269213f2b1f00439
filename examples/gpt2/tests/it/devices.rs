//! Training on several devices, which are threads of one CPU here.

use crate::support::{bits, device, finish, load, log_lines, tiny};
use burn::tensor::Device;
use gpt2::{Args, Gpt2Error, Interrupt, Outcome, RunState, TrainOptions, Trainer, on_devices};
use snack_burn::{dist::Fingerprint, dst::Preset, prelude::Checkpoint};
use std::path::Path;

pub fn devices(count: usize) -> Vec<Device> {
    vec![device(); count]
}

/// Losses of every step, and the patterns after every update.
type Seen = (Vec<f64>, Vec<Fingerprint>);

/// What the first device saw.
fn train(args: &Args, ranks: usize, steps: usize) -> Seen {
    train_with(args, ranks, steps, |_| Ok(()))
}

/// As [`train`]; `after` sees every trainer after every step.
fn train_with(
    args: &Args,
    ranks: usize,
    steps: usize,
    after: impl Fn(&Trainer) -> Result<(), Gpt2Error> + Send + Sync + 'static,
) -> Seen {
    let options = args.options(TrainOptions::default());
    options.validate().unwrap();
    let corpus = load(&options.text);
    let seen = on_devices(&devices(ranks), move |device, ranks| {
        let trainer = Trainer::new(options.clone(), corpus.clone(), device)?;
        follow(trainer.with_ranks(ranks)?, steps, &after)
    });
    seen.unwrap()
}

fn follow(
    mut trainer: Trainer,
    steps: usize,
    after: impl Fn(&Trainer) -> Result<(), Gpt2Error>,
) -> Result<Seen, Gpt2Error> {
    let (mut losses, mut patterns) = (Vec::new(), Vec::new());
    for _ in 0..steps {
        trainer = trainer.try_step()?;
        losses.push(trainer.take_loss()?);
        if trainer.update().is_some() {
            patterns.push(Fingerprint::of_model(trainer.model()));
        }
        after(&trainer)?;
    }
    Ok((losses, patterns))
}

pub fn static_run(dir: &Path) -> Args {
    Args {
        method: Some(Preset::Static),
        update_every: None,
        steps: Some(100),
        ..tiny(dir)
    }
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= tolerance,
            "loss {found} after {step} steps, expected {expected} +- {tolerance}"
        );
    }
}

#[test]
fn two_devices_learn_like_one_with_twice_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    let two = static_run(dir.path());
    let one = Args {
        batch: two.batch.map(|batch| 2 * batch),
        ..two.clone()
    };
    let (expected, _) = train(&one, 1, 100);
    let free = expected[..20].to_vec();
    let (found, _) = train(&two, 2, 100);
    assert!(expected[99] < expected[0] - 0.5, "nothing is learnt");
    assert_close(&found, &expected, 1e-4);

    // Passes are divided one by one.
    let two = Args {
        accumulate: Some(2),
        batch: Some(2),
        ..two
    };
    let (found, _) = train(&two, 2, 20);
    assert_close(&found, &expected[..20], 1e-4);

    // One norm for all devices.
    let clipped = |args: &Args, ranks| {
        let args = Args {
            clip: Some(0.5),
            ..args.clone()
        };
        train(&args, ranks, 20).0
    };
    let expected = clipped(&one, 1);
    assert_ne!(expected, free);
    assert_close(&clipped(&two, 2), &expected, 1e-4);
}

/// All devices compare their patterns at every update, and would fail if they differed.
#[test]
fn ten_updates_on_two_devices() {
    for method in [Preset::Rigl, Preset::Set] {
        let dir = tempfile::tempdir().unwrap();
        let args = Args {
            method: Some(method),
            update_every: Some(3),
            update_stop: Some(34),
            ..tiny(dir.path())
        };
        let (_, mut patterns) = train(&args, 2, 40);
        assert!(patterns.len() >= 10, "{method}: {}", patterns.len());
        patterns.dedup();
        assert!(patterns.len() >= 9, "{method}: {patterns:?}");
    }
}

/// A run on two devices that stops in the middle and goes on with the given options.
fn resumed(args: &Args, change: impl Fn(Args) -> Args) -> f64 {
    let outcome = gpt2::run(args, &Interrupt::after_step(15)).unwrap();
    assert!(matches!(outcome, Outcome::Interrupted { step: 15, .. }));
    let rest = change(Args {
        resume: true,
        quiet: true,
        out: args.out.clone(),
        ..Args::default()
    });
    let Outcome::Finished { summary, .. } = finish(&rest).unwrap() else {
        panic!("nothing asked to stop");
    };
    assert_eq!((summary.steps, summary.tokens), (40, 40 * 8 * 16));
    summary.val_loss.unwrap()
}

#[cfg(feature = "flex")]
#[test]
fn a_checkpoint_of_two_devices_goes_on_with_one_or_two() {
    let start = |dir: &Path| Args {
        device: None,
        devices: Some("flex,flex".parse().unwrap()),
        method: Some(Preset::Static),
        update_every: None,
        ..tiny(dir)
    };
    let whole = tempfile::tempdir().unwrap();
    let Outcome::Finished { summary, .. } = finish(&start(whole.path())).unwrap() else {
        panic!("nothing asked to stop");
    };
    let expected = summary.val_loss.unwrap();

    let two = tempfile::tempdir().unwrap();
    // The devices are those of the checkpoint.
    let found = resumed(&start(two.path()), |args| args);
    assert_eq!(found, expected);
    let losses = |dir: &Path| {
        log_lines(dir)
            .into_iter()
            .map(|line| line.loss)
            .collect::<Vec<_>>()
    };
    assert_eq!(losses(two.path()), losses(whole.path()));

    let one = tempfile::tempdir().unwrap();
    let found = resumed(&start(one.path()), |args| Args {
        device: Some(gpt2::DeviceChoice::Flex),
        batch: Some(8),
        ..args
    });
    assert!((found - expected).abs() < 1e-4, "{found} and {expected}");
    assert_close(&losses(one.path()), &losses(whole.path()), 1e-4);
}

/// Also in the middle of a growth window, which SNFS has, with the factors of all devices.
#[cfg(feature = "flex")]
#[test]
fn a_dynamic_run_changes_no_bit_by_a_stop() {
    for method in [Preset::Rigl, Preset::Snfs] {
        let start = |dir: &Path| Args {
            device: None,
            devices: Some("flex,flex".parse().unwrap()),
            method: Some(method),
            ..tiny(dir)
        };
        let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        finish(&start(whole.path())).unwrap();
        resumed(&start(parts.path()), |args| args);
        let [whole, parts] = [whole, parts].map(|dir| end_of(dir.path()));
        assert_eq!(whole, parts, "{method}");
    }
}

/// State of the updater and bits of the model at the end of a run.
#[cfg(feature = "flex")]
fn end_of(dir: &Path) -> impl PartialEq + std::fmt::Debug + use<> {
    let path = dir.join("run/checkpoint.bpk");
    let checkpoint = Checkpoint::load(&path).unwrap();
    let state = RunState::from_value(&checkpoint.user, &path).unwrap();
    let (options, counters) = (state.options, state.counters);
    let (dst, corpus) = (checkpoint.dst.clone(), load(&options.text));
    let trainer = Trainer::resume(options, corpus, &device(), checkpoint, counters, &path);
    (dst, bits(trainer.unwrap().model()))
}

/// What the first device sees after a checkpoint.
fn seen_after(path: &Path, ranks: usize, batch: usize, steps: usize) -> Seen {
    let state = RunState::from_value(&Checkpoint::load(path).unwrap().user, path).unwrap();
    let options = TrainOptions {
        batch,
        ..state.options
    };
    let (corpus, path) = (load(&options.text), path.to_owned());
    let seen = on_devices(&devices(ranks), move |device, ranks| {
        let checkpoint = Checkpoint::load(&path)?;
        let (options, counters) = (options.clone(), state.counters.clone());
        let trainer = Trainer::resume(options, corpus.clone(), device, checkpoint, counters, &path);
        follow(trainer?.with_ranks(ranks)?, steps, |_| Ok(()))
    });
    seen.unwrap()
}

/// With the state of either; that of SNFS is in the middle of a growth window.
#[test]
fn a_dynamic_run_of_two_goes_on_with_one() {
    for method in [Preset::Rigl, Preset::Snfs] {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_owned();
        let path = move |rank: usize| folder.join(format!("rank{rank}.bpk"));
        let args = Args {
            method: Some(method),
            update_stop: Some(31),
            ..tiny(dir.path())
        };
        let save_to = path.clone();
        // Updates after 6, 12, 18, 24 and 30 steps.
        let (losses, patterns) =
            train_with(&args, 2, 32, move |trainer| match trainer.counters().step {
                15 => trainer.save(&save_to(trainer.rank())),
                _ => Ok(()),
            });
        assert_eq!(patterns.len(), 5, "{method}");
        for rank in 0..2 {
            let (found, after) = seen_after(&path(rank), 1, 2 * args.batch.unwrap(), 17);
            assert_close(&found, &losses[15..], 1e-4);
            assert_eq!(after, patterns[2..], "{method}");
            assert_ne!(after[0], after[2], "{method}");
        }
    }
}

#[test]
fn after_a_device_has_died_any_checkpoint_goes_on_with_one_or_two() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_owned();
    let path = move |rank: usize| folder.join(format!("rank{rank}.bpk"));
    let args = static_run(dir.path());
    let options = args.options(TrainOptions::default());
    let (batch, corpus) = (options.batch, load(&options.text));
    let save_to = path.clone();
    let died = on_devices(&devices(2), move |device, ranks| {
        let trainer = Trainer::new(options.clone(), corpus.clone(), device)?;
        let mut trainer = trainer.with_ranks(ranks)?;
        for step in 1..=20 {
            let dies = trainer.rank() == 1 && step == 8;
            assert!(!dies, "the second device fails in a test");
            trainer = trainer.try_step()?;
            if step == 5 {
                trainer.take_loss()?;
                trainer.save(&save_to(trainer.rank()))?;
            }
        }
        Ok(())
    });
    assert_eq!(
        died.unwrap_err().to_string(),
        "training on device 1 of 2 failed: the second device fails in a test"
    );

    let (whole, _) = train(&args, 2, 15);
    for rank in 0..2 {
        let (two, _) = seen_after(&path(rank), 2, batch, 10);
        assert_eq!(two, whole[5..]);
        let (one, _) = seen_after(&path(rank), 1, 2 * batch, 10);
        assert_close(&one, &whole[5..], 1e-4);
    }
}
