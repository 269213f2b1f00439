use crate::print_err;
use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Exit code of a process that Ctrl-C ended, as shells know it.
pub const EXIT_INTERRUPTED: u8 = 130;

/// A request to stop after the current step.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    requested: Arc<AtomicBool>,
    after: Option<usize>,
}

impl Interrupt {
    /// Never asks to stop.
    pub fn never() -> Self {
        Self::default()
    }

    /// Asks to stop after `step`, as a Ctrl-C during that step would.
    pub fn after_step(step: usize) -> Self {
        Self {
            after: Some(step),
            ..Self::default()
        }
    }

    /// Asks to stop on the first Ctrl-C or request to terminate; the second one ends the process.
    ///
    /// # Errors
    ///
    /// An error if the process already handles these signals.
    pub fn on_ctrl_c() -> Result<Self, ctrlc::Error> {
        let interrupt = Self::default();
        let requested = interrupt.requested.clone();
        ctrlc::set_handler(move || {
            if requested.swap(true, Ordering::Relaxed) {
                process::exit(EXIT_INTERRUPTED.into());
            }
            print_err("\nstopping after this step; press Ctrl-C again to quit at once");
        })?;
        Ok(interrupt)
    }

    /// Whether to stop, given that `step` is done.
    pub fn is_requested(&self, step: usize) -> bool {
        self.requested.load(Ordering::Relaxed) || self.after.is_some_and(|after| step >= after)
    }
}
