//! Runs that are killed, and runs that are asked to stop, as processes of their own.

use crate::{
    program::{on_cpu, program},
    resume::{fingerprint, timeless},
    support::{finish, tiny},
};
use gpt2::RunState;
use snack_burn::prelude::Checkpoint;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, SystemTime},
};

/// Fails rather than waits for ever.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The flags of [`tiny`] with a checkpoint after every step, writing to `dir/run`.
fn started(program: &Path, dir: &Path, flags: &[&str]) -> Child {
    let new = "--sparsity 0.8 --layers 2 --width 16 --heads 2 --context 16 --batch 4 --mode sparse \
               --update-every 6 --eval-every 20 --checkpoint-every 1 --text";
    let text = dir.join("text.txt");
    let text = text.to_str().unwrap();
    let flags = flags.iter().copied();
    spawn(program, dir, new.split(' ').chain([text]).chain(flags))
}

fn resumed(program: &Path, dir: &Path, flags: &[&str]) -> Child {
    spawn(program, dir, ["--resume"].iter().chain(flags).copied())
}

fn spawn<'a>(program: &Path, dir: &Path, flags: impl Iterator<Item = &'a str>) -> Child {
    Command::new(program)
        .args(flags)
        .args(["--out", "run", "--quiet"])
        .args(on_cpu(&[]))
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Exit code and standard error.
fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), err)
}

/// Waits until the process has written its checkpoint, or ended.
fn wait_for_checkpoint(child: &mut Child, dir: &Path) {
    let path = dir.join("run/checkpoint.bpk");
    let changed = || fs::metadata(&path).and_then(|found| found.modified()).ok();
    let (before, start) = (changed(), SystemTime::now());
    while child.try_wait().unwrap().is_none() && changed() == before {
        assert!(start.elapsed().unwrap() < LONGEST_WAIT, "no checkpoint");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Steps of the checkpoint, which must not be damaged.
fn steps_done(dir: &Path) -> usize {
    let path = dir.join("run/checkpoint.bpk");
    let checkpoint = Checkpoint::load(&path).unwrap();
    let state = RunState::from_value(&checkpoint.user, &path).unwrap();
    state.counters.step
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_with_the_same_bits() {
    let Some(program) = program("gpt2_dst") else {
        return;
    };
    let whole = tempfile::tempdir().unwrap();
    let reference = tiny(whole.path());
    finish(&reference).unwrap();

    let dir = tempfile::tempdir().unwrap();
    let args = tiny(dir.path());
    let (mut killed, mut last) = (0, 0);
    for (run, micros) in [0, 300, 2_000, 900, 5_000].into_iter().enumerate() {
        let mut child = match run {
            0 => started(&program, dir.path(), &["--steps", "40"]),
            _ => resumed(&program, dir.path(), &[]),
        };
        wait_for_checkpoint(&mut child, dir.path());
        thread::sleep(Duration::from_micros(micros));
        child.kill().unwrap();
        killed += usize::from(ended(child).0.is_none());
        let step = steps_done(dir.path());
        assert!(
            step >= last,
            "the checkpoint went back from {last} to {step}"
        );
        last = step;
    }
    assert!(killed > 0);
    let (code, err) = ended(resumed(&program, dir.path(), &["--checkpoint-every", "16"]));
    assert_eq!(code, Some(0), "{err}");

    assert_eq!(steps_done(dir.path()), 40);
    assert_eq!(fingerprint(&args), fingerprint(&reference));
    assert_eq!(timeless(dir.path()), timeless(whole.path()));
    let left = fs::read_dir(dir.path().join("run")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.ends_with(".tmp")).count(), 0);
}

#[test]
fn a_run_that_is_asked_to_stop_saves_and_goes_on_later() {
    let Some(program) = program("gpt2_dst") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    tiny(dir.path());
    for signal in ["INT", "TERM"] {
        let mut child = match signal {
            "INT" => started(&program, dir.path(), &["--steps", "100000"]),
            _ => resumed(&program, dir.path(), &[]),
        };
        wait_for_checkpoint(&mut child, dir.path());
        let kill = format!("kill -{signal} {}", child.id());
        assert!(
            Command::new("sh")
                .args(["-c", &kill])
                .status()
                .unwrap()
                .success()
        );
        let (code, err) = ended(child);
        assert_eq!(code, Some(130), "{signal}: {err}");
        let step = steps_done(dir.path());
        assert!(
            err.contains(&format!("stopped after step {step} of 100000")),
            "{err}"
        );
        assert!(err.contains("-- --resume --out run"), "{err}");
    }
    let steps = (steps_done(dir.path()) + 2).to_string();
    let (code, err) = ended(resumed(&program, dir.path(), &["--steps", &steps]));
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(steps_done(dir.path()).to_string(), steps);
}
