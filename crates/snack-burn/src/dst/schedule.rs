//! When connections are replaced, and how many.

use serde::{Deserialize, Serialize};

/// Decides at which steps the topology changes.
pub trait Schedule: Send + Sync {
    /// The share of connections to replace after optimizer step `step`, counted from 1; `None`
    /// leaves the topology as it is.
    fn turnover(&self, step: u64) -> Option<f64>;
}

/// A fixed share at a fixed interval, until a last step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Constant {
    /// Share of the connections of a layer that are replaced, in `[0, 1]`.
    pub drop_fraction: f64,
    /// Steps between updates.
    pub every: u64,
    /// No update after this step.
    pub stop: Option<u64>,
}

impl Schedule for Constant {
    fn turnover(&self, step: u64) -> Option<f64> {
        let over = self.stop.is_some_and(|stop| step > stop);
        (!over && step.is_multiple_of(self.every)).then_some(self.drop_fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_at_multiples_up_to_the_last_step() {
        let schedule = Constant {
            drop_fraction: 0.3,
            every: 10,
            stop: Some(20),
        };
        let steps: Vec<u64> = (1..50)
            .filter(|&s| schedule.turnover(s).is_some())
            .collect();
        assert_eq!(steps, [10, 20]);
    }
}
