//! Training on several devices, which are threads of one CPU here.

use crate::support::{bits, device, finish, load, log_lines, tiny};
use burn::tensor::Device;
use clap::Parser;
use gpt2::{Args, Gpt2Error, Interrupt, Outcome, RunState, TrainOptions, Trainer, on_devices};
use snack_burn::{
    dist::{DistError, Fingerprint},
    dst::Preset,
    prelude::Checkpoint,
};
use std::path::Path;

fn devices(count: usize) -> Vec<Device> {
    vec![device(); count]
}

/// What the first device saw: losses of every step, and the patterns after every update.
fn train(args: &Args, ranks: usize, steps: usize) -> (Vec<f64>, Vec<Fingerprint>) {
    let options = args.options(TrainOptions::default());
    options.validate().unwrap();
    let corpus = load(&options.text);
    let found = on_devices(&devices(ranks), |device, ranks| {
        let trainer = Trainer::new(options.clone(), corpus.clone(), device)?;
        let mut trainer = trainer.with_ranks(ranks)?;
        let (mut losses, mut patterns) = (Vec::new(), Vec::new());
        for _ in 0..steps {
            trainer = trainer.try_step()?;
            losses.push(trainer.take_loss()?);
            if trainer.update().is_some() {
                patterns.push(Fingerprint::of_model(trainer.model()));
            }
        }
        Ok((losses, patterns))
    });
    found.unwrap()
}

fn static_run(dir: &Path) -> Args {
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

/// Also in the middle of a growth window, whose factors are those of all devices.
#[cfg(feature = "flex")]
#[test]
fn a_dynamic_run_changes_no_bit_by_a_stop() {
    let start = |dir: &Path| Args {
        device: None,
        devices: Some("flex,flex".parse().unwrap()),
        method: Some(Preset::Rigl),
        ..tiny(dir)
    };
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    finish(&start(whole.path())).unwrap();
    resumed(&start(parts.path()), |args| args);
    let [whole, parts] = [whole, parts].map(|dir| {
        let path = dir.path().join("run/checkpoint.bpk");
        let checkpoint = Checkpoint::load(&path).unwrap();
        let state = RunState::from_value(&checkpoint.user, &path).unwrap();
        let (options, counters) = (state.options, state.counters);
        let (dst, corpus) = (checkpoint.dst.clone(), load(&options.text));
        let trainer = Trainer::resume(options, corpus, &device(), checkpoint, counters, &path);
        (dst, bits(trainer.unwrap().model()))
    });
    assert_eq!(whole, parts);
}

/// Losses of the steps after a checkpoint.
fn losses_after(path: &Path, ranks: usize, batch: usize, steps: usize) -> Vec<f64> {
    let state = RunState::from_value(&Checkpoint::load(path).unwrap().user, path).unwrap();
    let options = TrainOptions {
        batch,
        ..state.options
    };
    let corpus = load(&options.text);
    let losses = on_devices(&devices(ranks), |device, ranks| {
        let checkpoint = Checkpoint::load(path)?;
        let (options, counters) = (options.clone(), state.counters.clone());
        let trainer = Trainer::resume(options, corpus.clone(), device, checkpoint, counters, path);
        let mut trainer = trainer?.with_ranks(ranks)?;
        let mut losses = Vec::new();
        for _ in 0..steps {
            trainer = trainer.try_step()?;
            losses.push(trainer.take_loss()?);
        }
        Ok(losses)
    });
    losses.unwrap()
}

#[test]
fn after_a_device_has_died_any_checkpoint_goes_on_with_one_or_two() {
    let dir = tempfile::tempdir().unwrap();
    let path = |rank: usize| dir.path().join(format!("rank{rank}.bpk"));
    let args = static_run(dir.path());
    let options = args.options(TrainOptions::default());
    let corpus = load(&options.text);
    let died = on_devices(&devices(2), |device, ranks| {
        let trainer = Trainer::new(options.clone(), corpus.clone(), device)?;
        let mut trainer = trainer.with_ranks(ranks)?;
        for step in 1..=20 {
            let dies = trainer.rank() == 1 && step == 8;
            assert!(!dies, "the second device fails in a test");
            trainer = trainer.try_step()?;
            if step == 5 {
                trainer.take_loss()?;
                trainer.save(&path(trainer.rank()))?;
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
        assert_eq!(losses_after(&path(rank), 2, options.batch, 10), whole[5..]);
        let one = losses_after(&path(rank), 1, 2 * options.batch, 10);
        assert_close(&one, &whole[5..], 1e-4);
    }
}

#[test]
fn the_device_that_failed_is_named() {
    let error = on_devices::<()>(&devices(3), |_, ranks| {
        assert!(ranks.rank() != 1, "the second device fails in a test");
        ranks.all_gather("test", Vec::new())?;
        Ok(())
    });
    assert_eq!(
        error.unwrap_err().to_string(),
        "training on device 1 of 3 failed: the second device fails in a test"
    );
}

/// What Burn says when it reads the result of an operation that had no memory.
const FULL: &str = "Error while reading data: Execution(WithContext { reason: \"An IO error happened\\nCaused \
    by:\\n  out of device memory allocating 4096 bytes\\nNo backtrace available\" })";

#[test]
fn a_device_out_of_memory_is_an_error_that_says_what_takes_less() {
    for ranks in [1, 2] {
        let error = on_devices::<()>(&devices(ranks), |_, _| panic!("{FULL}")).unwrap_err();
        assert_eq!(error.exit_code(), 1);
        let text = error.to_string();
        let start = match ranks {
            1 => "the device is out of memory: ",
            _ => "training on device 0 of 2 failed: ",
        };
        assert!(text.starts_with(start), "{text}");
        assert!(
            text.contains("out of device memory allocating 4096 bytes"),
            "{text}"
        );
        for flag in ["--batch", "--accumulate", "--checkpointing"] {
            assert!(text.contains(flag), "{text}");
        }
        assert_eq!(text.lines().count(), 1);
    }
    let error = on_devices::<()>(&devices(1), |_, _| panic!("an illegal address"));
    assert_eq!(
        error.unwrap_err().to_string(),
        "the device failed, or the program on it: an illegal address"
    );
}

#[test]
fn models_that_differ_are_refused_before_the_first_step() {
    let dir = tempfile::tempdir().unwrap();
    let options = static_run(dir.path()).options(TrainOptions::default());
    let corpus = load(&options.text);
    let result = on_devices(&devices(2), |device, ranks| {
        let options = TrainOptions {
            seed: options.seed + ranks.rank() as u64,
            ..options.clone()
        };
        Trainer::new(options, corpus.clone(), device)?.with_ranks(ranks)?;
        Ok(())
    });
    let error = result.unwrap_err();
    assert!(
        matches!(
            error,
            Gpt2Error::Ranks(DistError::PatternsDiffer { rank: 1, .. })
        ),
        "{error}"
    );
}

#[test]
#[cfg(feature = "flex")]
fn a_resume_says_when_a_step_has_other_windows() {
    let Some(program) = crate::program::program("gpt2_dst") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let run = |options: &[&str]| {
        let output = std::process::Command::new(&program)
            .args(["--out", "run", "--quiet"])
            .args(options)
            .current_dir(dir.path())
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{err}");
        err
    };
    let text = "a text that is long enough for windows of sixteen tokens. ".repeat(20);
    std::fs::write(dir.path().join("text.txt"), text).unwrap();
    let new = "--devices flex,flex --batch 2 --steps 1 --layers 1 --width 8 --heads 1 --context 16 --text text.txt";
    let new: Vec<_> = new.split(' ').collect();
    run(&new);
    let resume = ["--resume", "--steps", "2", "--devices", "flex"];
    let said = run(&resume);
    assert!(
        said.contains("warning: 2 windows a step, 4 before"),
        "{said}"
    );
    let said = run(&[
        "--resume",
        "--steps",
        "3",
        "--batch",
        "1",
        "--accumulate",
        "2",
    ]);
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn the_command_line_refuses_what_is_no_list_of_devices() {
    let message = |arguments: &[&str]| {
        let all = ["gpt2_dst"].iter().chain(arguments);
        Args::try_parse_from(all).unwrap_err().to_string()
    };
    assert!(
        message(&["--devices", "flex,cuda:0"]).contains("flex and cuda are different back ends")
    );
    assert!(message(&["--devices", "flex:1"]).contains("flex:1 does not exist"));
    assert!(message(&["--devices", "gpu"]).contains("`gpu` is no back end, expected one of flex"));
    assert!(message(&["--devices", "flex", "--device", "flex"]).contains("cannot be used with"));
    let args = Args::try_parse_from(["gpt2_dst", "--devices", "cuda:0,cuda:1"]).unwrap();
    let options = args.options(TrainOptions::default());
    assert_eq!(
        (options.device, options.devices),
        (gpt2::DeviceChoice::Cuda, vec![0, 1])
    );
}
