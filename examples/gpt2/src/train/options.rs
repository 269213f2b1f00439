use crate::{
    ConfigError, DeviceChoice, DeviceList, Gpt2Config, MlpMode, Precision, Tokenizer,
    config::within,
};
use serde::{Deserialize, Serialize};
use snack_burn::dst::Preset;
use std::path::PathBuf;

/// Most windows of a step, whose places in the text are listed in memory.
const MOST_WINDOWS: usize = 1 << 24;

/// Everything that decides the course of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainOptions {
    /// The model.
    pub model: Gpt2Config,
    /// How the pattern of the sparse layers changes.
    pub method: Preset,
    /// Where it computes.
    pub device: DeviceChoice,
    /// The index of every device that trains a replica of the model; the default device if there are
    /// none.
    #[serde(default)]
    pub devices: Vec<usize>,
    /// Where the weights came from; drawn from `seed` if absent.
    pub init: Option<PathBuf>,
    /// Files and folders of the text to learn; the shipped one if there are none.
    pub text: Vec<PathBuf>,
    /// Files and folders of the text to judge by; the end of the other if there are none.
    pub valid: Vec<PathBuf>,
    /// How text becomes tokens; gives the model its vocabulary.
    pub tokenizer: Tokenizer,
    /// Seed of initial values, windows and topology updates.
    pub seed: u64,
    /// Windows per forward and backward pass of every device.
    pub batch: usize,
    /// Passes whose gradients make up one step.
    pub accumulate: usize,
    /// In which precision matrices are multiplied.
    pub precision: Precision,
    /// Whether cheap operations are computed again in the backward pass, to keep less.
    pub checkpointing: bool,
    /// Steps of the whole run.
    pub steps: usize,
    /// Highest learning rate.
    pub learning_rate: f64,
    /// Steps until the learning rate is reached; after them it falls linearly to zero.
    pub warmup: usize,
    /// Decoupled weight decay of all matrices.
    pub weight_decay: f32,
    /// Largest norm of all gradients together; any if absent.
    #[serde(default)]
    pub clip: Option<f32>,
    /// Share of the connections that an update replaces; that of the method if absent.
    pub drop_fraction: Option<f64>,
    /// Steps between updates.
    pub update_every: usize,
    /// Step of the last update; three quarters of the run if absent.
    pub update_stop: Option<usize>,
    /// Steps between evaluations; 0: only at the end.
    pub eval_every: usize,
    /// Steps between checkpoints; 0: only at the end.
    pub checkpoint_every: usize,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            model: Gpt2Config::new(2, 128, 4, 32),
            method: Preset::Set,
            device: DeviceChoice::first(),
            devices: Vec::new(),
            init: None,
            text: Vec::new(),
            valid: Vec::new(),
            tokenizer: Tokenizer::Bytes,
            seed: 42,
            batch: 8,
            accumulate: 1,
            precision: Precision::F32,
            checkpointing: false,
            steps: 6000,
            learning_rate: 3e-3,
            warmup: 100,
            weight_decay: 0.1,
            clip: None,
            drop_fraction: None,
            update_every: 200,
            update_stop: None,
            eval_every: 1000,
            checkpoint_every: 1000,
        }
    }
}

/// An option whose value differs between a checkpoint and the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The option.
    pub flag: &'static str,
    /// Its value in the checkpoint.
    pub stored: String,
    /// Its value on the command line.
    pub given: String,
    /// Whether a run may continue with the new value.
    pub allowed: bool,
}

impl TrainOptions {
    /// Checks every value against its allowed range.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with the name of the option, its value and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.model.validate()?;
        within("--batch", self.batch, 1, 1 << 20)?;
        within("--accumulate", self.accumulate, 1, 1 << 20)?;
        self.check_windows()?;
        within("--steps", self.steps, 1, 1_000_000_000)?;
        within("--update-every", self.update_every, 1, 1_000_000_000)?;
        let mode = self.model.mode;
        self.check_method()?;
        if self.updates_topology() && mode != MlpMode::Sparse {
            let allowed = format!("static with --mode {mode}, whose pattern cannot change");
            return Err(ConfigError::new("--method", self.method, allowed));
        }

        let numbers = [
            (
                "--learning-rate",
                self.learning_rate,
                self.learning_rate > 0.0 && self.learning_rate <= 1.0,
                "above 0 and at most 1",
            ),
            (
                "--weight-decay",
                self.weight_decay.into(),
                (0.0..=1.0).contains(&self.weight_decay),
                "between 0 and 1",
            ),
            (
                "--clip",
                self.clip.unwrap_or(1.0).into(),
                self.clip.is_none_or(|norm| norm > 0.0 && norm.is_finite()),
                "above 0 and finite",
            ),
            (
                "--drop-fraction",
                self.drop_fraction.unwrap_or_default(),
                (0.0..1.0).contains(&self.drop_fraction.unwrap_or_default()),
                "at least 0 and below 1",
            ),
        ];
        match numbers.into_iter().find(|(_, _, valid, _)| !valid) {
            Some((name, value, _, allowed)) => Err(ConfigError::new(name, value, allowed)),
            None => Ok(()),
        }
    }

    fn check_windows(&self) -> Result<(), ConfigError> {
        let product = self.batch.checked_mul(self.accumulate);
        let product = product.and_then(|windows| windows.checked_mul(self.ranks()));
        match product {
            Some(windows) if windows <= MOST_WINDOWS => Ok(()),
            product => Err(ConfigError::new(
                "--batch times --accumulate times the number of devices",
                product.map_or("more than a number can hold".into(), |windows| {
                    windows.to_string()
                }),
                format!("at most {MOST_WINDOWS}, the windows of a step"),
            )),
        }
    }

    /// The devices that train replicas of the model.
    pub fn device_list(&self) -> DeviceList {
        DeviceList {
            device: self.device,
            indices: match self.devices.is_empty() {
                true => vec![0],
                false => self.devices.clone(),
            },
        }
    }

    /// Number of replicas that train together.
    pub fn ranks(&self) -> usize {
        self.devices.len().max(1)
    }

    /// Windows of one step, of all devices and passes.
    pub fn windows_per_step(&self) -> usize {
        self.batch * self.accumulate * self.ranks()
    }

    /// Whether the topology changes during the run.
    pub fn updates_topology(&self) -> bool {
        self.method != Preset::Static
    }

    /// Step of the last topology update.
    pub fn last_update(&self) -> usize {
        self.update_stop.unwrap_or(self.steps * 3 / 4)
    }

    /// Why no topology update will come after step `done`, if none will.
    pub fn no_updates(&self, done: usize) -> Option<String> {
        let model = &self.model;
        let last = self.last_update().min(self.steps);
        let next = (done / self.update_every + 1).saturating_mul(self.update_every);
        if model.mlp_nnz() == model.width * model.inner() {
            Some("no weight is absent".into())
        } else if self.drop_fraction == Some(0.0) {
            Some("--drop-fraction is 0".into())
        } else if next > last {
            Some(format!(
                "the next would come at step {next}, after the last at step {last}"
            ))
        } else {
            None
        }
    }

    /// Learning rate of a step, counted from 1: a linear rise, then a linear fall to zero after
    /// the last step.
    pub fn learning_rate_at(&self, step: usize) -> f64 {
        let rise = step as f64 / self.warmup.max(1) as f64;
        let fall = (self.steps + 1).saturating_sub(step) as f64
            / (self.steps + 1).saturating_sub(self.warmup).max(1) as f64;
        self.learning_rate * rise.min(fall).min(1.0)
    }

    /// The options in which `self`, from a checkpoint, and `given` differ.
    pub fn differences(&self, given: &Self) -> Vec<Difference> {
        self.flags()
            .into_iter()
            .zip(given.flags())
            .filter(|(stored, given)| stored.1 != given.1)
            .map(|((flag, stored, allowed), (_, given, _))| Difference {
                flag,
                stored,
                given,
                allowed,
            })
            .collect()
    }

    /// Name and value of every option, and whether a run may continue with another value.
    fn flags(&self) -> Vec<(&'static str, String, bool)> {
        let model = &self.model;
        let or_default = |stop: Option<usize>| stop.map_or("default".into(), |s| s.to_string());
        let share = |share: Option<f64>| share.map_or("the method's".into(), |s| s.to_string());
        let or_none = |norm: Option<f32>| norm.map_or("none".into(), |norm| norm.to_string());
        vec![
            ("--layers", model.layers.to_string(), false),
            ("--width", model.width.to_string(), false),
            ("--heads", model.heads.to_string(), false),
            ("--context", model.context.to_string(), false),
            ("--mode", model.mode.to_string(), false),
            ("--sparsity", model.sparsity.to_string(), false),
            ("--method", self.method.to_string(), false),
            ("--seed", self.seed.to_string(), false),
            ("--tokenizer", self.tokenizer.to_string(), false),
            (
                "--devices",
                match &self.devices[..] {
                    [] => self.device.to_string(),
                    _ => self.device_list().to_string(),
                },
                true,
            ),
            ("--dropout", model.dropout.to_string(), true),
            ("--batch", self.batch.to_string(), true),
            ("--accumulate", self.accumulate.to_string(), true),
            ("--precision", self.precision.to_string(), true),
            ("--checkpointing", self.checkpointing.to_string(), true),
            ("--steps", self.steps.to_string(), true),
            ("--learning-rate", self.learning_rate.to_string(), true),
            ("--warmup", self.warmup.to_string(), true),
            ("--weight-decay", self.weight_decay.to_string(), true),
            ("--clip", or_none(self.clip), true),
            ("--drop-fraction", share(self.drop_fraction), true),
            ("--update-every", self.update_every.to_string(), true),
            ("--update-stop", or_default(self.update_stop), true),
            ("--eval-every", self.eval_every.to_string(), true),
            (
                "--checkpoint-every",
                self.checkpoint_every.to_string(),
                true,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learning_rate_rises_and_falls() {
        let options = TrainOptions {
            steps: 10,
            warmup: 4,
            learning_rate: 0.8,
            ..Default::default()
        };
        let rate = |step| options.learning_rate_at(step);

        assert_eq!([rate(1), rate(2), rate(4)], [0.2, 0.4, 0.8]);
        assert!((rate(5) - 0.8 * 6.0 / 7.0).abs() < 1e-12);
        assert!((rate(10) - 0.8 / 7.0).abs() < 1e-12);
        assert_eq!(rate(11), 0.0);
    }

    #[test]
    fn a_run_shorter_than_its_warmup_never_falls_to_zero() {
        let options = TrainOptions {
            steps: 3,
            warmup: 50,
            ..Default::default()
        };
        assert!((1..=3).all(|step| options.learning_rate_at(step) > 0.0));
    }

    #[test]
    fn values_out_of_range_are_named() {
        let message = |options: TrainOptions| options.validate().unwrap_err().to_string();

        assert_eq!(TrainOptions::default().validate(), Ok(()));
        assert_eq!(
            message(TrainOptions {
                learning_rate: f64::NAN,
                ..Default::default()
            }),
            "--learning-rate is NaN, but must be above 0 and at most 1"
        );
        assert_eq!(
            message(TrainOptions {
                batch: 0,
                ..Default::default()
            }),
            "--batch is 0, but must be between 1 and 1048576"
        );
    }

    #[test]
    fn the_windows_of_a_step_are_limited() {
        let with = |batch, accumulate, devices: usize| TrainOptions {
            batch,
            accumulate,
            devices: vec![0; devices],
            ..Default::default()
        };
        let message = |options: TrainOptions| options.validate().unwrap_err().to_string();

        assert_eq!(with(1 << 20, 16, 1).validate(), Ok(()));
        let expected = "--batch times --accumulate times the number of devices is 1099511627776, but must be at \
                        most 16777216, the windows of a step";
        assert_eq!(message(with(1 << 20, 1 << 20, 0)), expected);
        assert!(message(with(1 << 20, 16, 2)).contains(" is 33554432, "));
    }

    #[test]
    fn runs_without_updates_say_why() {
        let options = TrainOptions::default();
        assert_eq!(options.no_updates(0), None);
        assert_eq!(options.no_updates(4399), None);
        let reason = |options: TrainOptions, done| options.no_updates(done).unwrap();
        assert_eq!(
            reason(options.clone(), 4400),
            "the next would come at step 4600, after the last at step 4500"
        );
        let short = TrainOptions {
            steps: 100,
            ..options.clone()
        };
        assert_eq!(
            reason(short, 0),
            "the next would come at step 200, after the last at step 75"
        );
        let full = TrainOptions {
            model: options.model.clone().with_sparsity(0.0),
            ..options.clone()
        };
        assert_eq!(reason(full, 0), "no weight is absent");
        let idle = TrainOptions {
            drop_fraction: Some(0.0),
            ..options
        };
        assert_eq!(reason(idle, 0), "--drop-fraction is 0");
    }

    #[test]
    fn differences_say_what_may_change() {
        let stored = TrainOptions::default();
        let mut given = stored.clone();
        given.model.width += 1;
        given.steps = 9;

        let differences = stored.differences(&given);
        let found: Vec<_> = differences
            .iter()
            .map(|d| (d.flag, d.given.as_str(), d.allowed))
            .collect();
        assert_eq!(found, [("--width", "129", false), ("--steps", "9", true)]);
        assert!(stored.differences(&stored).is_empty());
    }
}
