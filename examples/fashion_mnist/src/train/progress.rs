use crate::{EpochRecord, output::grouped, print_err};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What a run says on standard error: a bar on a terminal, and a line for each epoch.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
    epochs: usize,
}

impl Progress {
    /// Starts before the first of `epochs`; a quiet one says nothing.
    pub fn new(epochs: usize, quiet: bool) -> Self {
        let target = match quiet {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let style = ProgressStyle::with_template(
            "{bar:24} {pos}/{len}  {msg}  {elapsed} elapsed, ETA {eta}",
        )
        .expect("the template is valid");
        let bar = ProgressBar::with_draw_target(Some(epochs as u64), target).with_style(style);
        Self { bar, quiet, epochs }
    }

    /// Moves the bar and prints the line of an epoch.
    pub fn epoch(&self, run: &str, record: &EpochRecord) {
        self.bar.set_position(record.epoch as u64);
        self.bar
            .set_message(format!("{run}  {:.1} %", 100.0 * record.test_accuracy));
        let width = self.epochs.to_string().len();
        let mut line = format!(
            "{run}  epoch {:>width$}  training loss {:.5}  test loss {:.5}  accuracy {:.2} %  {:.2} s",
            record.epoch,
            record.train_loss,
            record.test_loss,
            100.0 * record.test_accuracy,
            record.seconds
        );
        if record.replaced > 0 {
            let [replaced, nnz] = [record.replaced, record.nnz].map(|count| grouped(count as u64));
            line += &format!("  {replaced} of {nnz} connections moved");
        }
        self.line(&line);
    }

    /// Prints a line above the bar, or a plain one where there is no terminal.
    pub fn line(&self, text: &str) {
        if self.quiet {
            return;
        }
        match self.bar.is_hidden() {
            true => print_err(text),
            false => self.bar.println(text),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
