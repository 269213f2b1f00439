use crate::output::short;
use crate::{CLASSES, Connections, DeviceChoice, Gradient, Loss, Method, OptimizerChoice};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use snack_burn::dst::DstError;
use thiserror::Error;

/// An option that cannot be as it is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ConfigError {
    message: String,
}

impl ConfigError {
    /// Names an option, its value and what is allowed, as in "at least 1".
    pub fn new(name: &str, value: impl core::fmt::Display, allowed: impl Into<String>) -> Self {
        Self::other(format!("{name} is {value}, but must be {}", allowed.into()))
    }

    /// Names an option that nothing looks at, and why, as in "with --method static".
    pub fn no_effect(
        name: &str,
        value: impl core::fmt::Display,
        reason: impl core::fmt::Display,
    ) -> Self {
        Self::other(format!(
            "{name} {value} has no effect {reason}; leave it out"
        ))
    }

    /// Says what is wrong in words of its own.
    pub fn other(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

/// How initial values are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// N(0, 0.1^2), as in the published SET program
    Published,
    /// N(0, 2 / connections of the unit), which suits ReLU at any sparsity
    FanIn,
}

impl core::fmt::Display for Init {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Published => "published",
            Self::FanIn => "fan-in",
        })
    }
}

/// Everything that decides the course of a run, but the seed and the images.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// How the topology changes.
    pub method: Method,
    /// Units of the hidden layers.
    pub hidden: Vec<usize>,
    /// How many connections there are.
    pub connections: Connections,
    /// How initial values are drawn.
    pub init: Init,
    /// Passes over the training images.
    pub epochs: usize,
    /// Images of a step.
    pub batch: usize,
    /// What turns gradients into steps.
    pub optimizer: OptimizerChoice,
    /// Whether updates of a unit's weights are scaled by its number of connections (SparseOpt).
    pub sparse_opt: bool,
    /// Learning rate.
    pub learning_rate: f64,
    /// Momentum.
    pub momentum: f64,
    /// What a weight loses in every step, as a share of itself.
    pub weight_decay: f64,
    /// Probability with which a hidden unit is left out of a training step.
    pub dropout: f64,
    /// What is minimized.
    pub loss: Loss,
    /// How it is differentiated.
    pub gradient: Gradient,
    /// Share of the connections that an update replaces; the method's own if absent.
    pub drop_fraction: Option<f64>,
    /// Steps between updates; the method's own if absent.
    pub update_every: Option<u64>,
    /// Share of the run after which the topology stays; the method's own if absent.
    pub update_stop: Option<f64>,
    /// Where it computes.
    pub device: DeviceChoice,
}

impl Default for Options {
    /// The protocol of the SET authors on 2 000 training images.
    fn default() -> Self {
        Self {
            method: Method::SET,
            hidden: vec![1000; 3],
            connections: Connections::default(),
            init: Init::Published,
            epochs: 400,
            batch: 40,
            optimizer: OptimizerChoice::Sgd,
            sparse_opt: false,
            learning_rate: 0.05,
            momentum: 0.9,
            weight_decay: 2e-4,
            dropout: 0.2,
            loss: Loss::Mse,
            gradient: Gradient::Published,
            drop_fraction: None,
            update_every: None,
            update_stop: None,
            device: DeviceChoice::first(),
        }
    }
}

impl Options {
    /// `[outputs, inputs]` of every layer, for images of so many pixels.
    pub fn shapes(&self, features: usize) -> Vec<[usize; 2]> {
        let outputs = self.hidden.iter().copied().chain([CLASSES]);
        let inputs = [features].into_iter().chain(self.hidden.iter().copied());
        outputs.zip(inputs).map(|(m, k)| [m, k]).collect()
    }

    /// Number of connections of every layer.
    ///
    /// # Errors
    ///
    /// [`DstError`] if the layers cannot have so few.
    pub fn counts(&self, features: usize) -> Result<Vec<usize>, DstError> {
        self.connections.counts(&self.shapes(features))
    }

    /// Steps of an epoch with so many training images.
    pub fn steps_per_epoch(&self, images: usize) -> u64 {
        (images / self.batch) as u64
    }

    /// Checks every value against its allowed range.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the name of the option, its value and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.hidden.is_empty() || self.hidden.len() > 100 {
            let allowed = "1 to 100 layers";
            return Err(ConfigError::new("--hidden", self.hidden.len(), allowed));
        }
        for &width in &self.hidden {
            within("--hidden", width, 1, 1 << 20)?;
        }
        within("--epochs", self.epochs, 1, 1_000_000)?;
        within("--batch", self.batch, 1, 1 << 20)?;
        if self.update_every == Some(0) {
            return Err(ConfigError::new("--update-every", 0, "at least 1"));
        }
        self.connections.validate()?;
        self.check_method()?;

        let share = "at least 0 and below 1";
        let below_one = |value: f64| (0.0..1.0).contains(&value);
        let numbers = [
            (
                "--learning-rate",
                self.learning_rate,
                self.learning_rate > 0.0 && self.learning_rate <= 100.0,
                "above 0 and at most 100",
            ),
            ("--momentum", self.momentum, below_one(self.momentum), share),
            (
                "--weight-decay",
                self.weight_decay,
                below_one(self.weight_decay),
                share,
            ),
            ("--dropout", self.dropout, below_one(self.dropout), share),
            (
                "--update-stop",
                self.update_stop.unwrap_or(1.0),
                self.update_stop
                    .is_none_or(|share| share > 0.0 && share <= 1.0),
                "above 0 and at most 1",
            ),
            (
                "--drop-fraction",
                self.drop_fraction.unwrap_or(0.0),
                self.drop_fraction.is_none_or(below_one),
                share,
            ),
        ];
        match numbers.into_iter().find(|(_, _, valid, _)| !valid) {
            Some((name, value, _, allowed)) => Err(ConfigError::new(name, short(value), allowed)),
            None => Ok(()),
        }
    }
}

pub(crate) fn within(
    name: &'static str,
    value: usize,
    min: usize,
    max: usize,
) -> Result<(), ConfigError> {
    match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(ConfigError::new(
            name,
            value,
            format!("between {min} and {max}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_published_network() {
        let options = Options::default();
        assert_eq!(options.validate(), Ok(()));
        assert_eq!(
            options.shapes(784),
            [[1000, 784], [1000, 1000], [1000, 1000], [10, 1000]]
        );
        assert_eq!(options.steps_per_epoch(2000), 50);
    }

    #[test]
    fn values_out_of_range_are_named() {
        let message = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.validate().unwrap_err().to_string()
        };
        let cases = [
            (
                message(|o| o.hidden.clear()),
                "--hidden is 0, but must be 1 to 100 layers",
            ),
            (
                message(|o| o.hidden[1] = 0),
                "--hidden is 0, but must be between 1 and 1048576",
            ),
            (
                message(|o| o.epochs = 0),
                "--epochs is 0, but must be between 1 and 1000000",
            ),
            (
                message(|o| o.batch = 0),
                "--batch is 0, but must be between 1 and 1048576",
            ),
            (
                message(|o| o.update_every = Some(0)),
                "--update-every is 0, but must be at least 1",
            ),
            (
                message(|o| o.connections.epsilon = 0.0),
                "--epsilon is 0, but must be a finite number above 0",
            ),
            (
                message(|o| o.connections.epsilon = f64::INFINITY),
                "--epsilon is inf, but must be a finite number above 0",
            ),
            (
                message(|o| o.learning_rate = 1e30),
                "--learning-rate is 1e30, but must be above 0 and at most 100",
            ),
            (
                message(|o| o.learning_rate = f64::NAN),
                "--learning-rate is NaN, but must be above 0 and at most 100",
            ),
            (
                message(|o| o.dropout = 1.0),
                "--dropout is 1, but must be at least 0 and below 1",
            ),
            (
                message(|o| o.update_stop = Some(0.0)),
                "--update-stop is 0, but must be above 0 and at most 1",
            ),
            (
                message(|o| o.drop_fraction = Some(1.0)),
                "--drop-fraction is 1, but must be at least 0 and below 1",
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}
