use crate::{
    DatasetId, Method, Mlp, Options, Stats,
    output::{counted, grouped},
};
use core::fmt;
use serde::{Deserialize, Serialize};
use snack_burn::report::TopologyLog;
use std::time::Instant;

/// What an epoch brought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Epochs done.
    pub epoch: usize,
    /// Steps done.
    pub step: u64,
    /// Mean loss of the steps of this epoch.
    pub train_loss: f64,
    /// Mean loss of the test images.
    pub test_loss: f64,
    /// Share of the test images whose class has the highest score.
    pub test_accuracy: f64,
    /// Connections that topology updates replaced in this epoch.
    pub replaced: usize,
    /// Connections.
    pub nnz: usize,
    /// Seconds of training steps and topology updates, without the test.
    pub seconds: f64,
}

/// What a run with one seed brought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// How the topology changed.
    pub method: Method,
    /// The seed.
    pub seed: u64,
    /// Connections at the end.
    pub nnz: usize,
    /// Share of the weights that exist at the end.
    pub density: f64,
    /// Share of the weights that ever existed.
    pub explored: f64,
    /// Share of the connections at the end that lie on a path from a pixel to a class.
    pub functional: f64,
    /// Wall time in seconds, tests and reports included.
    pub seconds: f64,
    /// All epochs, in order.
    pub epochs: Vec<EpochRecord>,
}

impl RunResult {
    /// Sums up a run that began at `started`.
    pub(crate) fn new(
        options: &Options,
        seed: u64,
        model: &Mlp,
        epochs: Vec<EpochRecord>,
        log: &TopologyLog,
        started: Instant,
    ) -> Self {
        let last = log.reports().last().map(|report| &report.total);
        let functional = last.and_then(|total| total.functional).unwrap_or(0);
        Self {
            method: options.method,
            seed,
            nnz: model.nnz(),
            density: model.nnz() as f64 / model.dense_weights() as f64,
            explored: last.and_then(|total| total.explored).unwrap_or(0.0),
            functional: functional as f64 / model.nnz().max(1) as f64,
            seconds: started.elapsed().as_secs_f64(),
            epochs,
        }
    }

    /// The last epoch.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    pub fn last(&self) -> &EpochRecord {
        self.epochs.last().expect("a run has at least one epoch")
    }

    /// The first epoch with the highest accuracy.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    pub fn best(&self) -> &EpochRecord {
        let better =
            |best: &EpochRecord, next: &EpochRecord| next.test_accuracy > best.test_accuracy;
        self.epochs
            .iter()
            .reduce(|best, next| if better(best, next) { next } else { best })
            .expect("a run has at least one epoch")
    }

    /// Seconds of training steps and topology updates.
    pub fn training_seconds(&self) -> f64 {
        self.epochs.iter().map(|epoch| epoch.seconds).sum()
    }
}

/// The runs of one method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MethodSummary {
    /// How the topology changed.
    pub method: Method,
    /// Accuracy after the last epoch.
    pub final_accuracy: Stats,
    /// Accuracy of the best epoch. It is chosen with the test images, so it flatters.
    pub best_accuracy: Stats,
    /// Loss of the test images after the last epoch.
    pub test_loss: Stats,
    /// Mean share of the weights that exist at the end.
    pub density: f64,
    /// Mean share of the weights that ever existed.
    pub explored: f64,
    /// Mean share of the connections that lie on a path from a pixel to a class.
    pub functional: f64,
    /// Seconds of training steps and topology updates in a run.
    pub training_seconds: Stats,
}

/// Everything that a command measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The images.
    pub data: DatasetId,
    /// The options of the runs, which differ in method and seed only.
    pub options: Options,
    /// Methods and what their runs brought, in the order of the command line.
    pub methods: Vec<MethodSummary>,
    /// All runs.
    pub runs: Vec<RunResult>,
}

impl Results {
    /// Sums up runs, method by method in the order of their first run.
    pub fn new(data: DatasetId, options: Options, runs: Vec<RunResult>) -> Self {
        let mut methods: Vec<Method> = Vec::new();
        for run in &runs {
            if !methods.contains(&run.method) {
                methods.push(run.method);
            }
        }
        let summary = |method| {
            let of = |value: fn(&RunResult) -> f64| {
                let runs = runs.iter().filter(|run| run.method == method);
                Stats::of(&runs.map(value).collect::<Vec<_>>())
            };
            MethodSummary {
                method,
                final_accuracy: of(|run| run.last().test_accuracy),
                best_accuracy: of(|run| run.best().test_accuracy),
                test_loss: of(|run| run.last().test_loss),
                density: of(|run| run.density).mean,
                explored: of(|run| run.explored).mean,
                functional: of(|run| run.functional).mean,
                training_seconds: of(RunResult::training_seconds),
            }
        };
        Self {
            data,
            options,
            methods: methods.into_iter().map(summary).collect(),
            runs,
        }
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.2}", 100.0 * share);
        let optional = |share: Option<f64>| share.map_or("-".into(), percent);
        writeln!(
            f,
            "{} training and {} test images, {}; accuracies in %",
            grouped(self.data.train as u64),
            grouped(self.data.test as u64),
            counted(self.options.epochs, "epoch")
        )?;
        writeln!(
            f,
            "{:<16}{:>6}{:>10}{:>9}{:>8}{:>8}{:>8}{:>10}{:>10}{:>12}{:>8}",
            "method",
            "seeds",
            "density",
            "final",
            "sd",
            "s.e.",
            "best",
            "test loss",
            "explored",
            "functional",
            "s/run"
        )?;
        for (index, row) in self.methods.iter().enumerate() {
            let text = format!(
                "{:<16}{:>6}{:>10}{:>9}{:>8}{:>8}{:>8}{:>10.4}{:>10}{:>12}{:>8.1}",
                row.method.to_string(),
                row.final_accuracy.count,
                percent(row.density),
                percent(row.final_accuracy.mean),
                optional(row.final_accuracy.deviation),
                optional(row.final_accuracy.error),
                percent(row.best_accuracy.mean),
                row.test_loss.mean,
                percent(row.explored),
                percent(row.functional),
                row.training_seconds.mean
            );
            match index + 1 == self.methods.len() {
                true => write!(f, "{text}")?,
                false => writeln!(f, "{text}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(method: Method, seed: u64, accuracies: &[f64]) -> RunResult {
        let epoch = |(index, &test_accuracy): (usize, &f64)| EpochRecord {
            epoch: index + 1,
            step: 10 * (index as u64 + 1),
            train_loss: 0.1,
            test_loss: 0.5,
            test_accuracy,
            replaced: 3,
            nnz: 10,
            seconds: 2.0,
        };
        RunResult {
            method,
            seed,
            nnz: 10,
            density: 0.1,
            explored: 0.3,
            functional: 0.9,
            seconds: 5.0,
            epochs: accuracies.iter().enumerate().map(epoch).collect(),
        }
    }

    #[test]
    fn runs_are_summed_up_by_method() {
        let runs = vec![
            run(Method::STATIC, 0, &[0.5, 0.7, 0.6]),
            run(Method::SET, 0, &[0.5, 0.8]),
            run(Method::STATIC, 1, &[0.9, 0.8]),
        ];
        assert_eq!((runs[0].best().epoch, runs[0].last().epoch), (2, 3));
        assert_eq!(runs[0].training_seconds(), 6.0);
        let data = DatasetId {
            name: "x".into(),
            train: 2000,
            test: 1000,
            features: 784,
        };
        let results = Results::new(data, Options::default(), runs);
        let [first, second] = &results.methods[..] else {
            panic!("{results:?}")
        };
        assert_eq!((first.method, second.method), (Method::STATIC, Method::SET));
        assert!((first.final_accuracy.mean - 0.7).abs() < 1e-12);
        assert!((first.best_accuracy.mean - 0.8).abs() < 1e-12);
        assert!((first.final_accuracy.error.unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(second.final_accuracy.error, None);

        let table = results.to_string();
        assert!(
            table.starts_with("2,000 training and 1,000 test images, 400 epochs"),
            "{table}"
        );
        let row = table.lines().nth(2).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            cells,
            [
                "static", "2", "10.00", "70.00", "14.14", "10.00", "80.00", "0.5000", "30.00",
                "90.00", "5.0"
            ]
        );
        assert!(table.ends_with("4.0"), "{table}");
    }

    #[test]
    fn the_best_of_equal_epochs_is_the_first() {
        assert_eq!(run(Method::SET, 0, &[0.4, 0.6, 0.6]).best().epoch, 2);
    }
}
