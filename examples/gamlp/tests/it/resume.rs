//! A run that was stopped goes on as if it had not been.

use crate::support::{bits, device, finish, log_lines, random_stream, task, tiny};
use gamlp::{
    Args, GamlpError, Interrupt, LogLine, Outcome, RunDir, RunState, Trainer, WeightMode,
    best_model,
};
use snack_burn::prelude::Checkpoint;
use std::{fs, path::Path};

type Bits = Vec<(String, Vec<i64>)>;

/// What the last checkpoint of a run holds, times aside: the model, the model three steps later
/// (which the optimizer's moments decide), the files of the best models, and everything else.
fn fingerprint(args: &Args) -> (Bits, Bits, Vec<(String, Bits)>, String) {
    let dir = RunDir::open(args.out.as_ref().unwrap()).unwrap();
    let checkpoint = Checkpoint::load(dir.checkpoint()).unwrap();
    let mut state = RunState::from_value(&checkpoint.user, &dir.checkpoint()).unwrap();
    state.counters.seconds = 0.0;
    state.counters.train_seconds = 0.0;
    let rest = format!("{state:?} {:?}", checkpoint.dst);
    let best = state.counters.best.iter().map(|best| {
        let path = best_model(&dir, best);
        let record = Checkpoint::load(&path).unwrap().model;
        let options = state.options.clone().fitted_to(&task(&state.options));
        let model = options.model.init(0, &device());
        let model = snack_burn::nn::SparseModule::try_load_sparse_record(model, record).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, bits(&model))
    });
    let best = best.collect();

    let stage = state.counters.stage;
    state.options.epochs[stage] += 10;
    let (options, counters) = (state.options, state.counters);
    let task = task(&options);
    let mut trainer =
        Trainer::resume(options, task, &device(), checkpoint, counters, &dir).unwrap();
    let now = bits(trainer.model());
    for _ in 0..3 {
        trainer = trainer.step();
    }
    (now, bits(trainer.model()), best, rest)
}

/// The log without its times.
fn timeless(out: &Path) -> Vec<LogLine> {
    let lines = log_lines(out).into_iter();
    let lines = lines.map(|line| LogLine {
        seconds: 0.0,
        step_ms: 0.0,
        nodes_per_second: 0.0,
        ..line
    });
    lines.collect()
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
        let outcome = gamlp::run(&args, &Interrupt::after_step(stop)).unwrap();
        assert!(
            matches!(outcome, Outcome::Interrupted { step, .. } if step == stop),
            "{outcome:?}"
        );
        args = resumed.clone();
    }
    finish(&args).unwrap();

    assert_eq!(fingerprint(&args), fingerprint(&reference));
    assert_eq!(timeless(parts.path()), timeless(whole.path()));
}

#[test]
fn stops_inside_epochs_change_no_bit() {
    assert_stops_change_nothing(&[1, 9, 10, 31], |args| args);
}

#[test]
fn stops_at_updates_and_beside_them_change_no_bit() {
    assert_stops_change_nothing(&[7, 8, 9, 24, 47], |args| args);
}

#[test]
fn a_stop_changes_no_bit_with_dropout() {
    let _stream = random_stream();
    assert_stops_change_nothing(&[14], |args| Args {
        dropout: Some(0.3),
        input_dropout: Some(0.1),
        attention_dropout: Some(0.2),
        label_dropout: Some(0.4),
        ..args
    });
}

/// The first stage has 24 steps, the second as many as there are reliable nodes for.
#[test]
fn stops_in_and_between_stages_change_no_bit() {
    assert_stops_change_nothing(&[10, 23, 24, 25, 27], |args| Args {
        epochs: vec![6, 4],
        threshold: Some(0.6),
        ..args
    });
}

#[test]
fn a_stop_changes_no_bit_of_masked_and_dense_models() {
    for mode in [WeightMode::Masked, WeightMode::Dense] {
        assert_stops_change_nothing(&[15], |args| Args {
            mode: Some(mode),
            sparsity: args.sparsity.filter(|_| mode != WeightMode::Dense),
            update_every: None,
            update_stop: None,
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
    gamlp::run(&args, &Interrupt::after_step(16)).unwrap();
    let folder = args.out.clone().unwrap();
    let saved: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "bpk"))
        .map(|path| (fs::read(&path).unwrap(), path))
        .collect();
    args.resume = true;
    gamlp::run(&args, &Interrupt::after_step(31)).unwrap();
    for (bytes, path) in saved {
        fs::write(path, bytes).unwrap();
    }

    finish(&args).unwrap();
    assert_eq!(fingerprint(&args), fingerprint(&reference));
    assert_eq!(timeless(died.path()), timeless(whole.path()));
}

#[test]
fn a_finished_run_can_go_on_with_more_epochs_and_stages() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.epochs = vec![3];
    finish(&args).unwrap();
    args.resume = true;
    args.epochs = vec![2];
    assert_eq!(
        finish(&args).unwrap_err().to_string(),
        "--epochs is 2, but must be at least 3, the epochs already done"
    );
    args.epochs = vec![5, 2];
    let Outcome::Finished { summary, .. } = finish(&args).unwrap() else {
        panic!("nothing asked to stop");
    };
    assert_eq!(summary.best.len(), 2);
    let found: Vec<_> = log_lines(dir.path())
        .iter()
        .map(|line| (line.stage, line.epoch))
        .collect();
    assert_eq!(
        found,
        [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 1), (1, 2)]
    );

    args.epochs = vec![5];
    assert_eq!(
        finish(&args).unwrap_err().to_string(),
        "the number of --epochs is 1, but must be at least 2, for stages that have begun"
    );
}

#[test]
fn a_stage_that_is_cut_short_is_evaluated() {
    for (epochs, stages) in [(vec![3], 1), (vec![3, 1], 2)] {
        let dir = tempfile::tempdir().unwrap();
        let mut args = tiny(dir.path());
        args.eval_every = Some(0);
        gamlp::run(&args, &Interrupt::after_step(12)).unwrap();
        args.resume = true;
        args.epochs = epochs;
        let Outcome::Finished { summary, .. } = finish(&args).unwrap() else {
            panic!("nothing asked to stop");
        };
        assert_eq!((summary.best.len(), summary.best[0].epoch), (stages, 3));
    }
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.epochs = vec![1];
    finish(&args).unwrap();
    args.resume = true;
    args.hidden = Some(17);
    let message = finish(&args).unwrap_err().to_string();
    assert!(
        message.contains("--hidden is 17, but the checkpoint was written with --hidden 16"),
        "{message}"
    );
    args.hidden = None;
    args.graph.synthetic = Some("600,2400,16,5".parse().unwrap());
    finish(&args).unwrap();
    args.graph.synthetic = Some("600,2401,16,5".parse().unwrap());
    let message = finish(&args).unwrap_err().to_string();
    assert!(
        message.contains("the graph is synthetic 600,2401,16,5"),
        "{message}"
    );
}

#[test]
fn a_missing_model_of_an_earlier_stage_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.epochs = vec![2, 2];
    gamlp::run(&args, &Interrupt::after_step(9)).unwrap();
    let models = fs::read_dir(dir.path().join("run")).unwrap();
    let mut models = models.map(|entry| entry.unwrap().path());
    let best = models.find(|path| path.to_string_lossy().contains("best-0-"));
    let best = best.expect("the first stage left its best model");
    fs::remove_file(&best).unwrap();
    args.resume = true;
    let message = finish(&args).unwrap_err().to_string();
    assert!(message.contains(&*best.to_string_lossy()), "{message}");
}

/// The sizes agree, so the numbers alone would not tell.
#[test]
fn a_best_model_of_another_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str, seed| {
        let args = Args {
            epochs: vec![2],
            seed: Some(seed),
            out: Some(dir.path().join(name)),
            ..tiny(dir.path())
        };
        finish(&args).unwrap();
        let files = fs::read_dir(dir.path().join(name)).unwrap();
        let mut paths = files.map(|entry| entry.unwrap().path());
        let best = paths.find(|path| path.to_string_lossy().contains("best-0-"));
        (args, best.expect("a run leaves its best model"))
    };
    let ((mut args, own), (_, other)) = (run("one", 1), run("two", 2));
    fs::copy(&other, &own).unwrap();
    args.resume = true;
    args.epochs = vec![3];
    let error = finish(&args).unwrap_err();
    assert!(matches!(error, GamlpError::ForeignBest { .. }), "{error}");
    assert!(
        error.to_string().contains(&*own.to_string_lossy()),
        "{error}"
    );
}
