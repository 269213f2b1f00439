use crate::support::{finish, tiny};
use fashion_mnist::{EpochRecord, Method};
use std::fs;

/// Losses, accuracies and counts: all but the times.
fn numbers(epochs: &[EpochRecord]) -> Vec<(f64, f64, f64, usize, usize)> {
    epochs
        .iter()
        .map(|e| {
            (
                e.train_loss,
                e.test_loss,
                e.test_accuracy,
                e.replaced,
                e.nnz,
            )
        })
        .collect()
}

#[test]
fn the_learner_and_the_plain_loop_are_twins() {
    for method in [Method::STATIC, Method::SET] {
        let dir = tempfile::tempdir().unwrap();
        let mut args = tiny(dir.path());
        args.method = vec![method];
        args.epochs = Some(4);
        let plain = finish(&args).unwrap().results;

        args.out = Some(dir.path().join("learner"));
        args.learner = true;
        let learner = finish(&args).unwrap().results;

        let [plain, learner] = [plain, learner].map(|results| numbers(&results.runs[0].epochs));
        assert_eq!((plain.len(), learner.len()), (4, 4));
        for (plain, learner) in plain.iter().zip(&learner) {
            // The training loss is the mean of the same numbers, test losses are computed in 32
            // bits on the device and in 64 bits on the host.
            assert!(
                (plain.0 - learner.0).abs() < 1e-12,
                "{method}: {plain:?} {learner:?}"
            );
            assert!(
                (plain.1 - learner.1).abs() < 1e-6,
                "{method}: {plain:?} {learner:?}"
            );
            assert!(
                (plain.2 - learner.2).abs() < 1e-9,
                "{method}: {plain:?} {learner:?}"
            );
            assert_eq!((plain.3, plain.4), (learner.3, learner.4), "{method}");
        }
    }
}

/// The lines of a run that fails later are there: they are written as the epochs end.
#[test]
fn epochs_are_written_as_they_come() {
    use burn::tensor::Device;
    use fashion_mnist::{Dataset, FashionError, Progress, learn};
    use std::sync::{Arc, Mutex};
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.epochs = Some(50);
    let options = args.options().unwrap();
    let data = Dataset::open(args.data.as_deref().unwrap()).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let report = {
        let seen = seen.clone();
        move |record: &EpochRecord| {
            seen.lock().unwrap().push(record.epoch);
            match record.epoch {
                2 => Err(FashionError::Learner("stop here".into())),
                _ => Ok(()),
            }
        }
    };
    let progress = ("x", Progress::new(50, true));
    let device: Device = options.device.open().unwrap();
    let error = learn(options, &data, 0, &device, dir.path(), progress, report).unwrap_err();
    assert!(error.to_string().contains("stop here"), "{error}");
    let seen = seen.lock().unwrap();
    assert_eq!(seen[..2], [1, 2]);
    assert!(seen.len() < 50, "the run ends soon: {seen:?}");
}

#[test]
fn burn_logs_the_loss_of_every_step() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.learner = true;
    finish(&args).unwrap();
    let log = |epoch: usize, metric: &str| {
        let path = format!("run/set-original-0/learner/train/epoch-{epoch}/{metric}.log");
        fs::read_to_string(dir.path().join(path)).unwrap()
    };
    // Six steps and the value of the epoch.
    assert_eq!(log(1, "Loss").lines().count(), 7);
    let last = |text: String| {
        let line = text.lines().last().unwrap().to_string();
        line.strip_suffix(",final").unwrap().parse::<f64>().unwrap()
    };
    assert!(last(log(1, "Density")) > 0.0);
    // The update after the first step of an epoch is seen by the second.
    assert_eq!(last(log(1, "Turnover")), 0.0);
    assert!(last(log(2, "Turnover")) > 0.0);
}
