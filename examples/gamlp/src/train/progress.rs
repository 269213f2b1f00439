use crate::print_err;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What a run says on standard error while it runs: a bar on a terminal, and lines.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
}

impl Progress {
    /// Starts a run at `epoch` of `epochs`; a quiet one says nothing.
    pub fn new(epoch: usize, epochs: usize, quiet: bool) -> Self {
        let target = match quiet {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let style = ProgressStyle::with_template(
            "{bar:24} {pos}/{len}  {msg}  {elapsed} elapsed, ETA {eta}",
        )
        .expect("the template is valid");
        let bar = ProgressBar::with_draw_target(Some(epochs as u64), target)
            .with_position(epoch as u64)
            .with_style(style);
        bar.reset_eta();
        Self { bar, quiet }
    }

    /// Starts a count of sparse products; a quiet one says nothing, and so does one of none.
    pub fn of_products(products: usize, quiet: bool) -> Self {
        let progress = Self::new(0, products, quiet || products == 0);
        progress.bar.set_message("propagating");
        progress
    }

    /// Moves the bar on by one product.
    pub fn next_product(&self) {
        self.bar.inc(1);
    }

    /// Moves the bar to `epoch`.
    pub fn advance(&self, epoch: usize) {
        self.bar.set_position(epoch as u64);
    }

    /// Shows the newest loss and speed beside the bar.
    pub fn show(&self, loss: f64, nodes_per_second: f64) {
        let message = format!("loss {loss:.4}  {nodes_per_second:.0} nodes/s");
        self.bar.set_message(message);
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
