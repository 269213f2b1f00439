//! Devices that fail, hang or do not exist, and what the program says and returns then.

#[cfg(feature = "flex")]
use crate::program::{Run, program};
use crate::{
    devices::{devices, static_run},
    support::load,
};
use clap::Parser;
use gpt2::{Args, Gpt2Error, TrainOptions, Trainer, on_devices, on_devices_with_patience};
use snack_burn::dist::DistError;
#[cfg(feature = "flex")]
use std::{fs, path::Path, process::Command};
use std::{thread, time::Duration};

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

/// A device that neither comes nor leaves keeps its thread, but not the others from reporting it.
#[test]
fn a_device_that_hangs_is_reported_by_those_that_wait() {
    let patience = Duration::from_millis(50);
    let error = on_devices_with_patience::<()>(&devices(2), patience, |_, ranks| {
        while ranks.rank() == 1 {
            thread::park();
        }
        ranks.all_gather("test", Vec::new())?;
        Ok(())
    });
    let error = error.unwrap_err();
    assert!(
        matches!(
            &error,
            Gpt2Error::Ranks(DistError::TimedOut { missing, .. }) if *missing == [1]
        ),
        "{error}"
    );
}

#[test]
fn models_that_differ_are_refused_before_the_first_step() {
    let dir = tempfile::tempdir().unwrap();
    let options = static_run(dir.path()).options(TrainOptions::default());
    let corpus = load(&options.text);
    let result = on_devices(&devices(2), move |device, ranks| {
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

/// Runs `gpt2_dst` in a folder with a text, with these options; nothing if it is not built.
#[cfg(feature = "flex")]
fn run(dir: &Path, options: &str) -> Option<Run> {
    let text = "a text that is long enough for windows of sixteen tokens. ".repeat(20);
    fs::write(dir.join("text.txt"), text).unwrap();
    let output = Command::new(program("gpt2_dst")?)
        .args(["--out", "run", "--quiet"])
        .args(options.split(' '))
        .current_dir(dir)
        .output()
        .unwrap();
    Some(Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    })
}

/// A run of two devices.
#[cfg(feature = "flex")]
const TWO: &str = "--devices flex,flex --batch 2 --steps 1 --layers 1 --width 8 --heads 1 \
                   --context 16 --text text.txt";

#[test]
#[cfg(feature = "flex")]
fn a_resume_says_when_a_step_has_other_windows() {
    let dir = tempfile::tempdir().unwrap();
    let run = |options: &str| {
        let run = run(dir.path(), options)?;
        assert_eq!(run.code, Some(0), "{}", run.err);
        Some(run.err)
    };
    if run(TWO).is_none() {
        return;
    }
    let said = run("--resume --steps 2 --devices flex").unwrap();
    assert!(
        said.contains("warning: 2 windows a step, 4 before"),
        "{said}"
    );
    let said = run("--resume --steps 3 --batch 1 --accumulate 2").unwrap();
    assert!(!said.contains("warning"), "{said}");
}

/// Only the first device writes, so only it fails; the other one hears of it.
#[test]
#[cfg(feature = "flex")]
fn the_program_ends_with_the_error_of_one_device() {
    let dir = tempfile::tempdir().unwrap();
    let Some(started) = run(dir.path(), TWO) else {
        return;
    };
    assert_eq!(started.code, Some(0), "{}", started.err);
    let log = dir.path().join("run/log.jsonl");
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    let failed = run(dir.path(), "--resume --steps 2").unwrap();
    assert_eq!(failed.code, Some(1), "{}", failed.err);
    assert!(failed.err.starts_with("error: "), "{}", failed.err);
    assert!(failed.err.contains("log.jsonl"), "{}", failed.err);
    assert!(!failed.err.contains("rank"), "{}", failed.err);
    assert_eq!(failed.out, "");
}

#[test]
#[cfg(feature = "flex")]
fn the_program_names_a_device_that_does_not_exist() {
    let dir = tempfile::tempdir().unwrap();
    let Some(refused) = run(dir.path(), "--devices flex,flex:1") else {
        return;
    };
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.err.contains("flex:1 does not exist"),
        "{}",
        refused.err
    );
    #[cfg(not(feature = "cuda"))]
    {
        let refused = run(dir.path(), "--devices cuda:0,cuda:1 --text text.txt").unwrap();
        assert_eq!(refused.code, Some(2));
        assert!(refused.err.contains("cuda"), "{}", refused.err);
    }
    assert!(!dir.path().join("run").exists());
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
            _ => "training on device ",
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
