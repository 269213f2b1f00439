use crate::support::{bits, device, finish, load, log_lines, random_stream, tiny};
use gpt2::{Args, DeviceChoice, Interrupt, LogLine, Outcome, RunState, TrainOptions, Trainer};
use snack_burn::prelude::Checkpoint;
use std::path::Path;

pub type Bits = Vec<(String, Vec<i64>)>;

/// What the last checkpoint of a run holds, times aside: the model, the model three steps later
/// (which the optimizer's moments decide), and everything else.
pub fn fingerprint(args: &Args) -> (Bits, Bits, String) {
    let path = args.out.as_ref().unwrap().join("checkpoint.bpk");
    let checkpoint = Checkpoint::load(&path).unwrap();
    let mut state = RunState::from_value(&checkpoint.user, &path).unwrap();
    state.counters.seconds = 0.0;
    state.counters.train_seconds = 0.0;
    state.corpus.text.name.clear();
    let corpus = load(&std::mem::take(&mut state.options.text));
    let rest = format!("{state:?} {:?}", checkpoint.dst);

    state.options.steps += 10;
    let (options, counters) = (state.options, state.counters);
    let mut trainer =
        Trainer::resume(options, corpus, &device(), checkpoint, counters, &path).unwrap();
    let now = bits(trainer.model());
    for _ in 0..3 {
        trainer = trainer.step();
    }
    (now, bits(trainer.model()), rest)
}

/// The log without its times.
pub fn timeless(out: &Path) -> Vec<LogLine> {
    log_lines(out)
        .into_iter()
        .map(|line| LogLine {
            seconds: 0.0,
            tokens_per_second: 0.0,
            ..line
        })
        .collect()
}

/// Runs with a stop after every step in `stops`, then compares with a run that never stopped.
fn assert_stops_change_nothing(stops: &[usize], change: impl Fn(Args) -> Args) {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let reference = change(tiny(whole.path()));
    finish(&reference).unwrap();

    let mut args = change(tiny(parts.path()));
    let resumed = Args {
        resume: true,
        quiet: true,
        out: args.out.clone(),
        device: args.device,
        ..Args::default()
    };
    for &stop in stops {
        let outcome = gpt2::run(&args, &Interrupt::after_step(stop)).unwrap();
        assert!(matches!(outcome, Outcome::Interrupted { step, .. } if step == stop));
        args = resumed.clone();
    }
    finish(&args).unwrap();

    assert_eq!(fingerprint(&args), fingerprint(&reference));
    assert_eq!(timeless(parts.path()), timeless(whole.path()));
}

#[test]
fn a_stop_between_updates_changes_no_bit() {
    assert_stops_change_nothing(&[9], |args| args);
}

#[test]
fn stops_at_updates_and_beside_them_change_no_bit() {
    assert_stops_change_nothing(&[1, 5, 6, 13, 20, 36], |args| args);
}

#[test]
fn a_stop_changes_no_bit_with_dropout() {
    let _stream = random_stream();
    assert_stops_change_nothing(&[15], |args| Args {
        dropout: Some(0.1),
        ..args
    });
}

#[test]
fn a_stop_changes_no_bit_of_masked_and_dense_models() {
    for mode in [gpt2::MlpMode::Masked, gpt2::MlpMode::Dense] {
        assert_stops_change_nothing(&[15], |args| Args {
            mode: Some(mode),
            sparsity: args.sparsity.filter(|_| mode != gpt2::MlpMode::Dense),
            update_every: None,
            ..args
        });
    }
}

#[test]
fn a_run_that_died_repeats_the_steps_after_its_checkpoint() {
    let (whole, died) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let reference = tiny(whole.path());
    finish(&reference).unwrap();

    let mut args = tiny(died.path());
    gpt2::run(&args, &Interrupt::after_step(16)).unwrap();
    let checkpoint = args.out.as_ref().unwrap().join("checkpoint.bpk");
    let saved = std::fs::read(&checkpoint).unwrap();
    args.resume = true;
    gpt2::run(&args, &Interrupt::after_step(31)).unwrap();
    std::fs::write(&checkpoint, saved).unwrap();

    finish(&args).unwrap();
    assert_eq!(fingerprint(&args), fingerprint(&reference));
    assert_eq!(timeless(died.path()), timeless(whole.path()));
}

#[test]
fn a_finished_run_can_go_on_with_more_steps() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    let Outcome::Finished { summary: fresh, .. } = finish(&args).unwrap() else {
        panic!("nothing asked to stop");
    };
    args.resume = true;

    let Outcome::Finished { summary, .. } = finish(&args).unwrap() else {
        panic!("nothing asked to stop");
    };
    assert_eq!(summary.steps, 40);
    assert!(summary.val_loss.is_some());
    assert_eq!(summary.model, fresh.model);
    assert!(summary.model.indices > 0);

    args.steps = Some(50);
    let Outcome::Finished { summary, .. } = finish(&args).unwrap() else {
        panic!("nothing asked to stop");
    };
    assert_eq!((summary.steps, summary.tokens), (50, 50 * 4 * 16));
}

#[test]
fn a_run_killed_before_its_first_step_resumes() {
    let (whole, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let reference = tiny(whole.path());
    finish(&reference).unwrap();

    let mut args = tiny(killed.path());
    let out = args.out.clone().unwrap();
    let options = args.options(TrainOptions::default());
    let corpus = load(&options.text);
    std::fs::create_dir(&out).unwrap();
    let trainer = Trainer::new(options, corpus, &device()).unwrap();
    trainer.save(&out.join("checkpoint.bpk")).unwrap();

    args.resume = true;
    finish(&args).unwrap();
    assert_eq!(fingerprint(&args), fingerprint(&reference));
    assert_eq!(timeless(killed.path()), timeless(whole.path()));
}

#[test]
fn leftovers_of_killed_saves_go_with_the_next_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.steps = Some(2);
    finish(&args).unwrap();
    let leftover = dir.path().join("run/checkpoint.bpk.4711-0.tmp");

    for resume in [true, false] {
        std::fs::write(&leftover, b"half").unwrap();
        args.resume = resume;
        args.overwrite = !resume;
        finish(&args).unwrap();
        assert!(!leftover.exists(), "resume: {resume}");
    }
}

#[test]
fn a_resumed_run_stays_on_its_device() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.steps = Some(2);
    finish(&args).unwrap();
    let path = dir.path().join("run/checkpoint.bpk");
    let mut checkpoint = Checkpoint::load(&path).unwrap();
    let stored = checkpoint.user["options"]["device"].clone();
    let own = args.options(TrainOptions::default()).device;
    assert_eq!(stored, own.to_string());

    let available = DeviceChoice::available();
    let Some(other) = [DeviceChoice::Metal, DeviceChoice::Rocm]
        .into_iter()
        .find(|device| !available.contains(device))
    else {
        return;
    };
    checkpoint.user["options"]["device"] = other.to_string().into();
    checkpoint.save(&path).unwrap();
    args.resume = true;
    args.device = None;
    let message = finish(&args).unwrap_err().to_string();
    assert!(
        message.contains(&format!("build with `--features {other}`")),
        "{message}"
    );

    args.device = Some(own);
    finish(&args).unwrap();
}

#[test]
fn the_hint_to_go_on_can_be_pasted() {
    let hint = |device, dir: &str| {
        Outcome::Interrupted {
            step: 3,
            steps: 9,
            device,
            dir: dir.into(),
        }
        .to_string()
    };
    let compiled = |names: &[&'static str]| {
        let all = [
            ("fusion", cfg!(feature = "fusion")),
            ("persistence", cfg!(feature = "persistence")),
            ("parquet", cfg!(feature = "parquet")),
        ];
        let found = all
            .into_iter()
            .filter(|(name, on)| *on && names.contains(name));
        found.map(|(name, _)| name).collect::<Vec<_>>()
    };
    let flex = match compiled(&["parquet"])[..] {
        [] => "cargo run --release --example gpt2_dst -- --resume --out runs/a",
        _ => "cargo run --release --features parquet --example gpt2_dst -- --resume --out runs/a",
    };
    assert!(hint(DeviceChoice::Flex, "runs/a").ends_with(flex));
    let others = compiled(&["fusion", "persistence", "parquet"]);
    let cuda = [&["cuda"], &others[..]].concat().join(",");
    assert!(hint(DeviceChoice::Cuda, "my run").ends_with(&format!(
        "cargo run --release --features {cuda} --example gpt2_dst -- --resume --out 'my run'"
    )));
}

#[test]
fn the_first_checkpoint_comes_before_anything_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.overwrite = true;
    // A folder in place of the log ends the run before its first step.
    std::fs::create_dir_all(dir.path().join("run/log.jsonl")).unwrap();
    let message = finish(&args).unwrap_err().to_string();
    assert!(message.contains("log.jsonl"), "{message}");

    std::fs::remove_dir(dir.path().join("run/log.jsonl")).unwrap();
    let path = dir.path().join("run/checkpoint.bpk");
    let state = RunState::from_value(&Checkpoint::load(&path).unwrap().user, &path).unwrap();
    assert_eq!(state.counters.step, 0);
    args.overwrite = false;
    args.resume = true;
    finish(&args).unwrap();
}

#[test]
fn a_run_that_lasts_is_not_touched_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let args = tiny(dir.path());
    finish(&args).unwrap();
    let run = dir.path().join("run");
    let log = std::fs::read(run.join("log.jsonl")).unwrap();

    let lock = example_support::FolderLock::acquire(&run).unwrap();
    let resumed = gpt2::Args {
        out: args.out.clone(),
        resume: true,
        steps: Some(50),
        quiet: true,
        ..gpt2::Args::default()
    };
    for args in [
        resumed,
        gpt2::Args {
            overwrite: true,
            ..tiny(dir.path())
        },
    ] {
        let message = finish(&args).unwrap_err().to_string();
        assert!(message.contains("in use by another process"), "{message}");
        assert_eq!(std::fs::read(run.join("log.jsonl")).unwrap(), log);
    }
    drop(lock);
}
