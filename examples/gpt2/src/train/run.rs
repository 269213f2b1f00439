use super::{LogLine, LogWriter, Progress, RunDir, Trainer, UpdateLine, write_pictures};
use crate::{DeviceChoice, Gpt2Error, Interrupt, Summary};
use core::fmt;
use example_support::quoted;
use std::{iter, path::PathBuf};

/// Steps between two readings of the training loss. Every reading makes a GPU wait.
const LOG_EVERY: usize = 10;

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// All steps are done.
    Finished {
        /// Cost and quality of the model.
        summary: Box<Summary>,
        /// The folder with log and checkpoint.
        dir: PathBuf,
    },
    /// A request to stop came first.
    Interrupted {
        /// Steps done.
        step: usize,
        /// Steps of the whole run.
        steps: usize,
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
            Self::Interrupted {
                step,
                steps,
                device,
                dir,
            } => {
                let features = match &features(*device)[..] {
                    [] => String::new(),
                    features => format!("--features {} ", features.join(",")),
                };
                let out = quoted(&dir.to_string_lossy());
                write!(
                    f,
                    "stopped after step {step} of {steps}; saved {}\n\
                     to go on: cargo run --release {features}--example gpt2_dst -- --resume \
                     --out {out}",
                    dir.join("checkpoint.bpk").display()
                )
            }
        }
    }
}

/// The features that a build needs for a run on `device`, and those of this build that matter to it, beside
/// the default ones.
fn features(device: DeviceChoice) -> Vec<String> {
    let others = [
        (cfg!(feature = "fusion"), "fusion"),
        (cfg!(feature = "persistence"), "persistence"),
    ];
    let others = others.into_iter().filter(|(compiled, _)| *compiled);
    let mut features = match device {
        // Nothing is fused or tuned there.
        DeviceChoice::Flex => Vec::new(),
        device => iter::once(device.to_string())
            .chain(others.map(|(_, name)| name.to_owned()))
            .collect(),
    };
    if cfg!(feature = "parquet") {
        features.push("parquet".into());
    }
    features
}

/// Where a run leaves what it has to say.
#[derive(Debug)]
pub struct Records<'a> {
    /// The folder of the checkpoint and the pictures.
    pub dir: &'a RunDir,
    /// The log in it.
    pub log: &'a mut LogWriter,
    /// What is shown meanwhile.
    pub progress: &'a Progress,
}

/// Trains to the last step or to an interrupt, and leaves a log and a checkpoint.
///
/// Of trainers on several devices, that of rank 0 has the records and the outcome; the others have
/// none.
///
/// # Errors
///
/// [`Gpt2Error::Diverged`] if the loss is not a number; [`Gpt2Error::File`] and
/// [`Gpt2Error::Checkpoint`] if a file cannot be written; [`Gpt2Error::Topology`] and
/// [`Gpt2Error::Ranks`] if an update is impossible or another device has failed.
pub fn train(
    mut trainer: Trainer,
    mut records: Option<Records<'_>>,
    interrupt: &Interrupt,
) -> Result<Option<Outcome>, Gpt2Error> {
    let steps = trainer.options().steps;
    let eval_every = trainer.options().eval_every;
    let checkpoint_every = trainer.options().checkpoint_every;
    let due = |step: usize, every: usize| every > 0 && step.is_multiple_of(every);
    let mut speed = Speed::new(&trainer);

    while trainer.counters().step < steps {
        trainer = trainer.try_step()?;
        let step = trainer.counters().step;
        let last = step == steps;
        if let Some(records) = &records {
            records.progress.advance(step);
        }

        let update = trainer.update().map(UpdateLine::from);
        let evaluate = last || due(step, eval_every);
        if evaluate || update.is_some() || due(step, LOG_EVERY) {
            let loss = trainer.take_loss()?;
            let val_loss = evaluate.then(|| trainer.evaluate()).transpose()?;
            let line = LogLine {
                step,
                loss,
                lr: trainer.options().learning_rate_at(step),
                tokens: trainer.counters().tokens,
                seconds: trainer.seconds(),
                tokens_per_second: speed.since_last(&trainer),
                density: trainer.density(),
                val_loss,
                perplexity: val_loss.map(f64::exp),
                reserved_bytes: trainer.reserved_bytes(),
                nvml_bytes: trainer.nvml_bytes(),
                joules: trainer.joules(),
                update,
            };
            if let Some(Records { log, progress, .. }) = &mut records {
                log.write(&line)?;
                report(&line, steps, trainer.corpus().tokenizer().unit(), progress);
            }
        }
        if !last && trainer.agree_to_stop(interrupt.is_requested(step))? {
            save(&trainer, &records)?;
            let Some(Records { dir, progress, .. }) = records else {
                return Ok(None);
            };
            write_pictures(dir)?;
            progress.finish();
            return Ok(Some(Outcome::Interrupted {
                step,
                steps,
                device: trainer.options().device,
                dir: dir.path().to_owned(),
            }));
        }
        if last || due(step, checkpoint_every) {
            save(&trainer, &records)?;
        }
    }
    let Some(Records { dir, progress, .. }) = records else {
        return Ok(None);
    };
    write_pictures(dir)?;
    progress.finish();
    Ok(Some(Outcome::Finished {
        summary: Box::new(Summary::of(&trainer)),
        dir: dir.path().to_owned(),
    }))
}

/// All ranks take part; the one with the records writes.
fn save(trainer: &Trainer, records: &Option<Records<'_>>) -> Result<(), Gpt2Error> {
    match records {
        Some(Records { dir, .. }) => trainer.save(&dir.checkpoint()),
        None => trainer.attend_save(),
    }
}

fn report(line: &LogLine, steps: usize, unit: &str, progress: &Progress) {
    progress.show(line.loss, line.tokens_per_second);
    let width = steps.to_string().len();
    if let Some(update) = &line.update {
        progress.line(&format!("step {:>width$}  topology: {update}", line.step));
    }
    if let (Some(val_loss), Some(perplexity)) = (line.val_loss, line.perplexity) {
        progress.line(&format!(
            "step {:>width$}  training loss {:.4}, held-out loss {val_loss:.4} nats per {unit}, \
             perplexity {perplexity:.3}, {:.0} tokens per second",
            line.step, line.loss, line.tokens_per_second
        ));
    }
}

/// Training speed between two log lines.
struct Speed {
    tokens: u64,
    seconds: f64,
}

impl Speed {
    fn new(trainer: &Trainer) -> Self {
        Self {
            tokens: trainer.counters().tokens,
            seconds: trainer.counters().train_seconds,
        }
    }

    fn since_last(&mut self, trainer: &Trainer) -> f64 {
        let now = Self::new(trainer);
        let tokens = (now.tokens - self.tokens) as f64;
        let seconds = now.seconds - self.seconds;
        *self = now;
        tokens / seconds.max(1e-9)
    }
}
