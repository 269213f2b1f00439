//! Training runs on the shipped graph.

use crate::support::{device, finish, log_lines, random_stream, task, tiny};
use gamlp::{Args, LogLine, Outcome, Projection, Summary, TrainOptions, Trainer, WeightMode};
use snack_burn::dst::Preset;
use std::path::Path;

fn args_of(mode: WeightMode, out: &Path) -> Args {
    let base = tiny(out);
    let dense = mode == WeightMode::Dense;
    Args {
        mode: Some(mode),
        sparsity: base.sparsity.filter(|_| !dense),
        update_every: base.update_every.filter(|_| mode == WeightMode::Sparse),
        update_stop: base.update_stop.filter(|_| mode == WeightMode::Sparse),
        ..base
    }
}

fn run(args: &Args) -> (Summary, Vec<LogLine>) {
    let Outcome::Finished { summary, dir } = finish(args).unwrap() else {
        panic!("nothing asked to stop");
    };
    (*summary, log_lines(dir.parent().unwrap()))
}

#[test]
fn every_storage_learns_communities() {
    for mode in [WeightMode::Dense, WeightMode::Masked, WeightMode::Sparse] {
        let dir = tempfile::tempdir().unwrap();
        let (summary, lines) = run(&args_of(mode, dir.path()));
        let accuracy = |line: &LogLine| line.accuracy.unwrap();
        let (first, last) = (&lines[0], &lines[11]);
        assert_eq!((lines.len(), last.epoch, last.step), (12, 12, 48));
        assert!(last.loss < 0.5 * first.loss, "{mode}");
        assert!(accuracy(last).valid > accuracy(first).valid, "{mode}");
        let best = summary.best[0];
        let all = lines.iter().map(|line| accuracy(line).valid);
        assert_eq!(best.accuracy.valid, all.fold(0.0, f64::max));
        assert_eq!(best.accuracy, accuracy(&lines[best.epoch - 1]));
        assert!(best.accuracy.test.unwrap() > 0.8, "{mode}: {best:?}");
        assert!(best.accuracy.test.unwrap() > summary.constant_accuracy + 0.3);
        assert_eq!(summary.last, last.accuracy);
        let table = summary.to_string();
        for part in [
            "parameters",
            "best epoch",
            "last epoch",
            "most frequent class",
        ] {
            assert!(table.lines().any(|line| line.starts_with(part)), "{table}");
        }
        for picture in ["loss.svg", "accuracy.svg", "density.svg"] {
            assert!(dir.path().join("run").join(picture).exists(), "{picture}");
        }
    }
}

/// The losses of `steps` steps, one by one.
fn losses(options: TrainOptions, steps: usize) -> Vec<f64> {
    let task = task(&options);
    let mut trainer = Trainer::new(options, task, &device()).unwrap();
    let mut losses = Vec::with_capacity(steps);
    for _ in 0..steps {
        trainer = trainer.step();
        losses.push(trainer.take_loss().unwrap());
    }
    losses
}

#[test]
fn masked_and_sparse_have_the_same_losses_for_a_hundred_steps() {
    let _stream = random_stream();
    let dir = tempfile::tempdir().unwrap();
    let options = |mode| {
        let args = Args {
            mode: Some(mode),
            method: Some(Preset::Static),
            dropout: Some(0.5),
            attention_dropout: Some(0.5),
            label_dropout: Some(0.5),
            epochs: vec![25],
            ..tiny(dir.path())
        };
        args.new_options()
    };
    let masked = losses(options(WeightMode::Masked), 100);
    let sparse = losses(options(WeightMode::Sparse), 100);
    for (step, (masked, sparse)) in masked.iter().zip(&sparse).enumerate() {
        assert!(
            (masked - sparse).abs() < 1e-3,
            "step {step}: {masked} and {sparse}"
        );
    }
    assert!(sparse[99] < 0.8 * sparse[0]);
}

#[test]
fn masked_and_sparse_models_count_what_they_store() {
    let dir = tempfile::tempdir().unwrap();
    let summary = |mode| {
        let args = Args {
            epochs: vec![1],
            ..args_of(mode, dir.path())
        };
        let args = Args {
            overwrite: true,
            ..args
        };
        run(&args).0
    };
    let dense = summary(WeightMode::Dense);
    let masked = summary(WeightMode::Masked);
    let sparse = summary(WeightMode::Sparse);
    let absent = 32 * 32 - 205;
    assert_eq!(dense.model, dense.dense);
    assert_eq!(masked.dense, dense.dense);
    assert_eq!(sparse.dense, dense.dense);
    assert_eq!(masked.model.parameters, dense.model.parameters);
    assert_eq!(masked.model.non_zeros, dense.model.parameters - absent);
    assert_eq!(sparse.model.parameters, dense.model.parameters - absent);
    assert_eq!(sparse.model.non_zeros, sparse.model.parameters);
    assert_eq!((dense.density, sparse.density), (1.0, 205.0 / 1024.0));
}

#[test]
fn updates_come_when_they_are_due_and_keep_the_number_of_weights() {
    let dir = tempfile::tempdir().unwrap();
    let (_, lines) = run(&tiny(dir.path()));
    let updates: Vec<_> = lines
        .iter()
        .filter_map(|line| Some((line.epoch, line.update.as_ref()?)))
        .collect();
    let epochs: Vec<_> = updates.iter().map(|(epoch, _)| *epoch).collect();
    assert_eq!(epochs, [2, 4, 6]);
    for (_, update) in updates {
        assert_eq!((update.layers, update.nnz), (1, 205));
        assert_eq!((update.dropped, update.grown), (10, 10));
    }
    assert!(lines.iter().all(|line| line.density == 205.0 / 1024.0));
}

#[test]
fn hidden_matrices_can_be_sparse_without_a_feature_head() {
    let dir = tempfile::tempdir().unwrap();
    let args = Args {
        head: Some(0),
        output_layers: Some(3),
        ..tiny(dir.path())
    };
    let options = args.new_options();
    let trainer = Trainer::new(options.clone(), task(&options), &device()).unwrap();
    let layers = trainer.model().sparsifiable();
    // One for each of three hops, and two of the output network.
    assert_eq!(layers.len(), 5);
    assert!(
        layers
            .iter()
            .all(|layer| matches!(layer, Projection::Sparse(_)))
    );
    let (summary, lines) = run(&args);
    assert_eq!(summary.density, 51.0 / 256.0);
    assert_eq!(lines[1].update.as_ref().unwrap().layers, 5);
}

#[test]
fn a_stage_learns_what_the_one_before_is_certain_of() {
    let dir = tempfile::tempdir().unwrap();
    let args = Args {
        epochs: vec![8, 6],
        threshold: Some(0.6),
        ..tiny(dir.path())
    };
    let (summary, lines) = run(&args);
    let stages: Vec<_> = lines.iter().map(|line| line.stage).collect();
    assert_eq!(
        stages,
        [[0; 8].as_slice(), &[0; 6].map(|_: i32| 1)].concat()
    );
    assert!(lines.windows(2).all(|pair| pair[0].step < pair[1].step));
    assert_eq!(summary.best.len(), 2);
    assert!(
        summary.best[1].accuracy.test.unwrap() > 0.85,
        "{:?}",
        summary.best
    );
    // The topology is updated in both stages.
    let updates = lines.iter().filter(|line| line.update.is_some());
    let updates: Vec<_> = updates.map(|line| (line.stage, line.epoch)).collect();
    assert_eq!(updates, [(0, 2), (0, 4), (0, 6), (1, 2), (1, 4), (1, 6)]);
}

#[test]
fn a_stage_without_reliable_nodes_learns_labels_alone() {
    let dir = tempfile::tempdir().unwrap();
    let args = Args {
        epochs: vec![1, 2],
        threshold: Some(0.999_999),
        temperature: Some(100.0),
        ..tiny(dir.path())
    };
    let (_, lines) = run(&args);
    assert_eq!(
        lines.last().map(|line| (line.stage, line.step)),
        Some((1, 12))
    );
}

#[test]
fn patience_ends_a_stage() {
    let dir = tempfile::tempdir().unwrap();
    let args = Args {
        epochs: vec![500],
        patience: Some(3),
        update_stop: None,
        ..tiny(dir.path())
    };
    let (summary, lines) = run(&args);
    assert_eq!(lines.len(), summary.best[0].epoch + 3);
}

#[test]
fn every_preset_trains() {
    for method in Preset::ALL.into_iter().filter(|&m| m != Preset::Static) {
        let dir = tempfile::tempdir().unwrap();
        let args = Args {
            method: Some(method),
            ..tiny(dir.path())
        };
        let (summary, lines) = run(&args);
        let density = 205.0 / 1024.0;
        match method {
            // It only removes.
            Preset::Dadp => assert!(summary.density < density, "{method}"),
            Preset::FixedFanInSet | Preset::Srigl => {
                assert!((summary.density - density).abs() < 0.02, "{method}");
            }
            _ => assert_eq!(summary.density, density, "{method}"),
        }
        assert!(lines[11].loss < lines[0].loss, "{method}");
    }
}
