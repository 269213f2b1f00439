use super::{Accuracy, LogLine, LogWriter, Progress, RunDir, Trainer, UpdateLine, write_pictures};
use crate::{DeviceChoice, GamlpError, Interrupt, Summary};
use core::fmt;
use example_support::{counted, quoted};
use std::path::PathBuf;

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// All stages are done.
    Finished {
        /// Cost and quality of the model.
        summary: Box<Summary>,
        /// The folder with log and checkpoint.
        dir: PathBuf,
    },
    /// The graph is read and propagated, as asked for.
    Prepared {
        /// The folder with the matrices.
        folder: PathBuf,
        /// Number of nodes.
        nodes: usize,
    },
    /// A request to stop came first.
    Interrupted {
        /// Steps done, over all stages.
        step: usize,
        /// The stage, from 0.
        stage: usize,
        /// Epochs done in the stage.
        epoch: usize,
        /// Where it computed.
        device: DeviceChoice,
        /// The folder with log and checkpoint.
        dir: PathBuf,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished { summary, dir } => {
                write!(f, "{summary}{:<22}{}", "log and checkpoint", dir.display())
            }
            Self::Prepared { folder, nodes } => {
                let nodes = counted(*nodes, "node");
                write!(f, "matrices of {nodes} are in {}", folder.display())
            }
            Self::Interrupted {
                step,
                stage,
                epoch,
                device,
                dir,
            } => {
                let feature = match device {
                    DeviceChoice::Flex => String::new(),
                    other => format!("--features {other} "),
                };
                let out = quoted(&dir.to_string_lossy());
                write!(
                    f,
                    "stopped after step {step} (stage {stage}, {epoch} epochs done); saved {}\n\
                     to go on: cargo run --release -p gamlp {feature}--example gamlp_dst -- \
                     --resume --out {out}",
                    dir.join("checkpoint.bpk").display()
                )
            }
        }
    }
}

/// Trains to the end of the last stage or to an interrupt, and leaves a log, a checkpoint and the best
/// models in `dir`.
///
/// # Errors
///
/// [`GamlpError::Diverged`] if the loss is not a number; [`GamlpError::Topology`] if the method does
/// not suit the model of a later stage; [`GamlpError::File`] and [`GamlpError::Checkpoint`] if a file
/// cannot be written.
pub fn train(
    mut trainer: Trainer,
    dir: &RunDir,
    log: &mut LogWriter,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Outcome, GamlpError> {
    if trainer.is_stage_done() && trainer.counters().best_of_stage().is_none() {
        // A resumed run whose stage was cut to the epochs that it had done.
        trainer.evaluate();
    }
    let mut speed = Speed::new(&trainer);
    let mut first = true;
    while !trainer.is_done() {
        if trainer.is_stage_done() {
            // The next stage resumes from the file of the model that teaches it.
            trainer.save(dir)?;
            trainer = trainer.next_stage()?;
            progress.line(&stage_line(&trainer));
        }
        trainer = trainer.step();
        if trainer.is_epoch_end() {
            let line = end_of_epoch(&mut trainer, &mut speed)?;
            log.write(&line)?;
            if core::mem::take(&mut first) {
                // What the tuner tried in the first epoch would be held to the end.
                trainer.release_memory();
            }
            report(&line, &trainer, progress);
            let every = trainer.options().checkpoint_every;
            if every > 0 && line.epoch.is_multiple_of(every) && !trainer.is_done() {
                trainer.save(dir)?;
            }
        }
        let step = trainer.counters().total_steps();
        if !trainer.is_done() && interrupt.is_requested(step) {
            trainer.save(dir)?;
            write_pictures(dir)?;
            progress.finish();
            return Ok(Outcome::Interrupted {
                step,
                stage: trainer.counters().stage,
                epoch: trainer.epoch(),
                device: trainer.options().device,
                dir: dir.path().to_owned(),
            });
        }
    }
    trainer.save(dir)?;
    write_pictures(dir)?;
    progress.finish();
    Ok(Outcome::Finished {
        summary: Box::new(Summary::of(&trainer)),
        dir: dir.path().to_owned(),
    })
}

/// Measures what is due.
fn end_of_epoch(trainer: &mut Trainer, speed: &mut Speed) -> Result<LogLine, GamlpError> {
    let update = trainer.update().map(UpdateLine::from);
    let loss = trainer.take_loss()?;
    let (step_ms, nodes_per_second) = speed.since_last(trainer);
    let (stage, epoch) = (trainer.counters().stage, trainer.epoch());
    let options = trainer.options();
    let every = options.eval_every;
    let due = every > 0 && epoch.is_multiple_of(every);
    let evaluate = due || epoch == options.epochs[stage];
    Ok(LogLine {
        accuracy: evaluate.then(|| trainer.evaluate()),
        step: trainer.counters().total_steps(),
        stage,
        epoch,
        loss,
        lr: trainer.options().learning_rate,
        seconds: trainer.seconds(),
        step_ms,
        nodes_per_second,
        density: trainer.density(),
        reserved_bytes: trainer.reserved_bytes(),
        nvml_bytes: trainer.nvml_bytes(),
        joules: trainer.joules(),
        mj_per_step: trainer.mj_per_step(),
        update,
    })
}

fn stage_line(trainer: &Trainer) -> String {
    let stage = trainer.stage();
    let split = stage.task().split();
    format!(
        "stage {}: {} of {} nodes without known labels are reliable",
        trainer.counters().stage,
        stage.reliable().nodes.len(),
        split.valid.len() + split.test.len(),
    )
}

fn report(line: &LogLine, trainer: &Trainer, progress: &Progress) {
    let epochs = &trainer.options().epochs;
    let earlier: usize = epochs[..line.stage].iter().sum();
    progress.advance(earlier + line.epoch);
    progress.show(line.loss, line.nodes_per_second);
    let width = epochs[line.stage].to_string().len();
    if let Some(update) = &line.update {
        progress.line(&format!("epoch {:>width$}  topology: {update}", line.epoch));
    }
    if let Some(Accuracy { train, valid, test }) = line.accuracy {
        let parts = [("train", train), ("valid", Some(valid)), ("test", test)];
        let parts = parts.into_iter().filter_map(|(part, accuracy)| {
            accuracy.map(|accuracy| format!("{accuracy:.4} {part}"))
        });
        let parts: Vec<_> = parts.collect();
        progress.line(&format!(
            "epoch {:>width$}  loss {:.4}, accuracy {}, {:.2} ms per step",
            line.epoch,
            line.loss,
            parts.join(", "),
            line.step_ms
        ));
    }
}

/// Training speed between two log lines.
struct Speed {
    steps: usize,
    nodes: u64,
    seconds: f64,
}

impl Speed {
    fn new(trainer: &Trainer) -> Self {
        let counters = trainer.counters();
        Self {
            steps: counters.total_steps(),
            nodes: counters.samples,
            seconds: counters.train_seconds,
        }
    }

    /// Milliseconds of a step, and nodes per second.
    fn since_last(&mut self, trainer: &Trainer) -> (f64, f64) {
        let now = Self::new(trainer);
        let seconds = (now.seconds - self.seconds).max(1e-9);
        let steps = (now.steps - self.steps).max(1);
        let nodes = now.nodes - self.nodes;
        *self = now;
        (1e3 * seconds / steps as f64, nodes as f64 / seconds)
    }
}
