//! Refuses what can never fit into the memory of the machine, where that is the memory of the device: a
//! process that asks for more ends without a word, after minutes perhaps.

use crate::{DeviceChoice, Gpt2Config, Precision, TrainOptions};
use example_support::{TooLarge, machine_memory};

/// Checks a run on the host.
///
/// # Errors
///
/// [`TooLarge`] if weights, gradients, moments and what one pass keeps are more than the machine has.
pub(crate) fn check_training(options: &TrainOptions) -> Result<(), TooLarge> {
    check(
        options.device,
        "training a model of these sizes with this --batch",
        least_training_bytes(options),
    )
}

/// Checks an evaluation on the host, by passes of so many tokens.
///
/// # Errors
///
/// [`TooLarge`] if the widest activation of a pass is more than the machine has.
pub(crate) fn check_pass(
    device: DeviceChoice,
    model: &Gpt2Config,
    tokens: usize,
) -> Result<(), TooLarge> {
    check(
        device,
        "a pass of this --batch",
        4 * tokens as u128 * model.inner() as u128,
    )
}

fn check(device: DeviceChoice, what: &'static str, needed: u128) -> Result<(), TooLarge> {
    let on_host = matches!(device, DeviceChoice::Flex | DeviceChoice::Cpu);
    match machine_memory().filter(|_| on_host) {
        Some(total) => TooLarge::check(what, needed, total),
        None => Ok(()),
    }
}

/// Every weight has a gradient and two moments. A pass keeps queries, keys and values of all blocks, and
/// the logits.
fn least_training_bytes(options: &TrainOptions) -> u128 {
    let model = &options.model;
    let mut weights = model.parameter_count();
    if options.init.is_some() {
        // Files with sparse matrices say how many of these exist.
        weights = model.dense_parameter_count() - model.dense_mlp_weights();
    }
    let size = match options.precision {
        Precision::F32 => 4,
        Precision::Bf16 => 2,
    };
    let kept = model.vocabulary + 3 * model.layers * model.width;
    let pass = options.batch as u128 * model.context as u128 * kept as u128;
    options.ranks() as u128 * (16 * weights as u128 + size * pass)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> TrainOptions {
        TrainOptions {
            model: Gpt2Config::small(),
            device: DeviceChoice::Flex,
            ..Default::default()
        }
    }

    #[test]
    fn the_estimate_is_below_what_training_takes() {
        let bytes = |batch| least_training_bytes(&TrainOptions { batch, ..small() });
        // 124,439,808 weights; 1024 tokens of 50,257 logits and 12 times 3 times 768 numbers.
        assert_eq!(bytes(1) - 16 * 124_439_808, 4 * 1024 * (50_257 + 27_648));
        assert!(bytes(1) < 3_000_000_000);
        let two = TrainOptions {
            devices: vec![0, 0],
            ..small()
        };
        assert_eq!(least_training_bytes(&two), 2 * bytes(8));
        let sparse = TrainOptions {
            init: Some("weights".into()),
            ..small()
        };
        assert!(least_training_bytes(&sparse) < bytes(8));
    }

    #[test]
    fn a_batch_that_cannot_fit_is_named() {
        let huge = TrainOptions {
            batch: 1 << 20,
            ..small()
        };
        let message = check_training(&huge).unwrap_err().to_string();
        assert!(
            message.starts_with(
                "training a model of these sizes with this --batch takes at least 334,6"
            ),
            "{message}"
        );
        let on_device = TrainOptions {
            device: DeviceChoice::Cuda,
            ..huge
        };
        assert_eq!(check_training(&on_device), Ok(()));
        assert_eq!(check_training(&TrainOptions::default()), Ok(()));

        let model = Gpt2Config::small();
        let pass = check_pass(DeviceChoice::Flex, &model, 1 << 40).unwrap_err();
        assert!(pass.to_string().starts_with("a pass of this --batch takes"));
        assert_eq!(check_pass(DeviceChoice::Flex, &model, 8), Ok(()));
    }
}
