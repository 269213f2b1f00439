use crate::support::{TEST, finish, tiny};
use clap::ValueEnum;
use fashion_mnist::{
    Args, EpochRecord, Gradient, Loss, Method, OptimizerChoice, Outcome, Results, RunResult,
};
use snack_burn::dst::Preset;
use std::fs;

/// Everything but times.
fn numbers(run: &RunResult) -> Vec<EpochRecord> {
    let without_time = |epoch: &EpochRecord| EpochRecord {
        seconds: 0.0,
        ..epoch.clone()
    };
    run.epochs.iter().map(without_time).collect()
}

fn outcome(change: impl FnOnce(&mut Args)) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    change(&mut args);
    finish(&args).unwrap()
}

#[test]
fn a_seed_decides_the_run() {
    let first = outcome(|args| args.seeds = Some(2));
    let again = outcome(|args| {
        args.first_seed = Some(1);
        args.seeds = Some(1);
    });
    let [zero, one] = &first.results.runs[..] else {
        panic!("{first:?}")
    };
    assert_eq!((zero.seed, one.seed), (0, 1));
    assert_eq!(numbers(one), numbers(&again.results.runs[0]));
    assert_ne!(numbers(zero), numbers(one));
}

#[test]
fn every_method_trains_and_keeps_count_of_its_connections() {
    let all = Method::value_variants().to_vec();
    let results = outcome(|args| {
        args.method = all.clone();
        args.epochs = Some(4);
        args.update_every = Some(3);
    })
    .results;
    assert_eq!(results.methods.len(), all.len());
    for (run, method) in results.runs.iter().zip(all) {
        assert_eq!(run.method, method);
        let moved: usize = run.epochs.iter().map(|epoch| epoch.replaced).sum();
        assert_eq!(moved > 0, method.changes(), "{method}: {moved}");
        assert_eq!(run.nnz, run.last().nnz);
        assert!(
            run.epochs.iter().all(|epoch| epoch.train_loss.is_finite()),
            "{method}"
        );
        assert!(
            run.explored >= run.density && run.functional <= 1.0,
            "{method}"
        );
    }
}

#[test]
fn a_run_learns() {
    let cases = [
        (Loss::Mse, Gradient::Published, 0.05),
        (Loss::Mse, Gradient::Exact, 0.1),
        (Loss::CrossEntropy, Gradient::Exact, 0.02),
    ];
    for (loss, gradient, rate) in cases {
        let results = outcome(|args| {
            args.method = vec![Method(Preset::Set)];
            args.loss = Some(loss);
            args.gradient = Some(gradient);
            args.learning_rate = Some(rate);
            args.epochs = Some(60);
            args.epsilon = None;
            args.sparsity = Some(0.3);
            args.dropout = Some(0.0);
        })
        .results;
        let run = &results.runs[0];
        assert!(
            run.last().train_loss < 0.5 * run.epochs[0].train_loss,
            "{loss} {gradient}: {run:?}"
        );
        // Chance is a tenth.
        assert!(run.last().test_accuracy > 0.5, "{loss} {gradient}: {run:?}");
    }
}

#[test]
fn the_folder_tells_the_whole_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.method = vec![Method::STATIC, Method::SET];
    let outcome = finish(&args).unwrap();
    assert_eq!(outcome.dir, dir.path().join("run"));
    let read = |name: &str| fs::read_to_string(outcome.dir.join(name)).unwrap();

    let results: Results = serde_json::from_str(&read("results.json")).unwrap();
    assert_eq!(results, outcome.results);
    assert_eq!(results.data.test, TEST);

    let epochs = read("epochs.csv");
    let lines: Vec<Vec<&str>> = epochs
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(lines.len(), 1 + 2 * 3);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    assert_eq!(lines[0][..4], ["method", "seed", "epoch", "step"]);
    assert_eq!(lines[6][..4], ["set-original", "0", "3", "18"]);

    // In the second and third epoch; four lines each, and the start.
    assert_eq!(
        read("set-original-0/topology.csv").lines().count(),
        1 + 3 * 4
    );
    assert_eq!(read("static-0/topology.csv").lines().count(), 1 + 4);
    for picture in ["density.svg", "fan-in.svg", "loss.svg"] {
        for run in ["set-original-0", "static-0"] {
            assert!(read(&format!("{run}/{picture}")).contains("</svg>"));
        }
    }
}

#[test]
fn a_loss_that_is_no_number_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.method = vec![Method::STATIC];
    args.hidden = Some(vec![12; 6]);
    args.epsilon = None;
    args.sparsity = Some(0.1);
    args.loss = Some(Loss::CrossEntropy);
    args.learning_rate = Some(100.0);
    for learner in [false, true] {
        args.learner = learner;
        args.overwrite = learner;
        let message = finish(&args).unwrap_err().to_string();
        assert!(
            message.contains("the loss became NaN in epoch 1 of static with seed 0"),
            "{message}"
        );
        assert!(
            message.contains("lower --learning-rate (now 100)"),
            "{message}"
        );
    }
}

#[test]
fn every_optimizer_trains_whatever_the_method() {
    for preset in [Preset::Static, Preset::Set, Preset::Rigl, Preset::Smet] {
        for optimizer in [OptimizerChoice::Sgd, OptimizerChoice::Adam] {
            let outcome = outcome(|args| {
                args.method = vec![Method(preset)];
                args.optimizer = Some(optimizer);
                args.sparse_opt = true;
                args.update_every = (preset != Preset::Static).then_some(4);
            });
            let run = &outcome.results.runs[0];
            assert_eq!(run.epochs.len(), 3);
            assert!(run.last().test_loss.is_finite(), "{preset} {optimizer}");
        }
    }
}
